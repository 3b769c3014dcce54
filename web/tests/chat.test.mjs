// What people do with the chat, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion, lookupReply, story, storyReply, withAgent } from './support/chat.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const HOSTILE = [
  '<script>document.title = "taken"</script>',
  '<img src="http://tracker.example/one.png" onerror="document.title = \'taken\'">',
  '![two](http://tracker.example/two.png)',
  '[click](javascript:document.title="taken")',
  '<iframe src="http://tracker.example/three"></iframe>',
  '[nowhere](/graph?q=%E0%A4%A)',
  '<style>@import "http://tracker.example/four.css"</style>',
].join('\n\n');

function reply(messages) {
  const text = lastQuestion(messages);
  const last = messages.at(-1);
  if (text.includes('look with care')) {
    return last.role === 'tool'
      ? { text: `Found: ${last.content.includes('libssl3')}.` }
      : { text: 'I will look.', tools: [{ name: 'search_entities', arguments: { query: 'apt', limit: 1 } }] };
  }
  if (text.includes('make tasks')) {
    const task = (id, after) => ({
      id,
      title: `Part ${id}`,
      description: `a story of ${id}`,
      after,
      agent: 'helper',
      priority: null,
    });
    return last.role === 'tool'
      ? { text: 'All parts are done.' }
      : {
          tools: [
            {
              name: 'create_tasks',
              arguments: {
                name: 'In parts',
                tasks: [task('one', []), task('two', ['one'])],
                max_concurrency: null,
                wait: null,
              },
            },
          ],
        };
  }
  if (text.includes('cite')) return { text: 'It is [Package:libssl3], not `[Package:code]` nor [Note: this].' };
  if (text.includes('hostile')) return { text: HOSTILE, paceMs: 0 };
  if (text.includes('lookup')) return lookupReply(messages);
  if (text.includes('which colour')) {
    const options = ['red', 'blue'].map((value) => ({ label: value.toUpperCase(), value, description: null }));
    return last.role === 'tool'
      ? { text: `Then ${JSON.parse(last.content).answer} it is.` }
      : {
          tools: [
            {
              name: 'ask_user',
              arguments: {
                question: 'Which colour?',
                options,
                interaction_type: null,
                placeholder: null,
                max_length: null,
              },
            },
          ],
        };
  }
  if (text.includes('delegate')) {
    return last.role === 'tool'
      ? { text: 'They found it.' }
      : {
          tools: [
            {
              name: 'spawn_agents',
              arguments: {
                agents: [{ agent_name: 'helper', task: 'a story of helpers', timeout: null, resume_run_id: null }],
              },
            },
          ],
        };
  }
  return storyReply(text);
}

const { model, dev, browser } = await stage(reply, {});
const agent = skip || (await dev.agent('asker', ['schema_version', 'ask_user', 'spawn_agents', 'create_tasks']));
const careful = skip || (await dev.agent('careful', ['search_entities'], { confirm: ['search_*'] }));
if (!skip) await dev.agent('helper', []);

test('a first question is answered, with its call and its run', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  assert.equal(page.url().includes('key='), false, 'the key is not left in the address');
  await withAgent(page, agent);
  await ask(page, 'lookup please');
  await finished(page);
  const turn = answer(page);
  await eventually(async () => assert.match(await turn.innerText(), /I looked it up\./));
  await turn.getByText('schema_version').click();
  await turn.getByText('Result').waitFor();
  await turn.getByRole('link', { name: 'View trace' }).click();
  await page.getByRole('heading', { name: 'asker' }).waitFor();
  await page.getByText('schema_version', { exact: true }).click();
  await page.getByRole('heading', { name: 'Messages' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('an answer is stopped', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  model.hold('a story of stops');
  await ask(page, 'a story of stops');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await answer(page).getByText('cancelled').waitFor();
  await context.close();
});

test('a question is answered where it is asked', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page, agent);
  await ask(page, 'which colour do I like?');
  await page.getByRole('button', { name: 'BLUE', exact: true }).click();
  await answer(page).getByText('Then blue it is.').waitFor();
  await context.close();
});

test('a call is approved with other arguments, and another one is refused', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page, careful);
  await ask(page, 'look with care');
  await page.getByRole('button', { name: 'Edit arguments' }).click();
  const field = page.getByRole('textbox', { name: 'arguments' });
  await field.fill((await field.inputValue()).replace('"apt"', 'apt'));
  await page.getByRole('button', { name: 'Approve with changes' }).click();
  await page.getByText('The arguments are not valid JSON').waitFor();
  await field.fill('{"query": "libssl3", "limit": 1}');
  await page.getByRole('button', { name: 'Approve with changes' }).click();
  await answer(page).getByText('Found: true.').waitFor();
  await ask(page, 'look with care again');
  await answer(page).getByRole('button', { name: 'Refuse' }).click();
  await answer(page).getByText('Found: false.').waitFor();
  await context.close();
});

test('tasks that an agent makes are followed beside its call', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page, agent);
  await ask(page, 'make tasks');
  const tasks = page.locator('.dag');
  await tasks.getByText('1 in progress, 1 pending').waitFor();
  await answer(page).getByText('All parts are done.').waitFor({ timeout: 60_000 });
  await tasks.getByText('completed: 2 completed').waitFor();
  await tasks.getByRole('link', { name: 'In parts' }).click();
  await page.locator('.task.completed').nth(1).waitFor();
  await context.close();
});

test('a message waits its turn, a run is steered, and a message is taken back', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const goOn = model.hold('a story of queues');
  await ask(page, 'a story of queues');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await ask(page, 'a story of seconds');
  await ask(page, 'a story of thirds');
  await page.locator('article.turn').nth(2).getByText('queued').waitFor();
  await answer(page).getByRole('button', { name: 'Cancel message' }).click();
  await answer(page).getByText('cancelled').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('a story of hints');
  await page.getByRole('button', { name: 'Steer' }).click();
  goOn();
  await page.locator('.told').getByText('a story of hints').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('article.turn[aria-busy="true"]').length === 0);
  const second = page.locator('article.turn').nth(1);
  await eventually(async () =>
    assert.equal((await second.locator('.markdown').allInnerTexts()).join(''), story('seconds')),
  );
  await context.close();
});

test('files go along with a message, and are folded in it', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const file = (name, content) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(content) });
  const picker = page.getByLabel('Attach files');
  await picker.setInputFiles(file('picture.png', new Uint8Array([0x89, 0x50, 0xff, 0])));
  await page.getByText("picture.png can't be attached").waitFor();
  await picker.setInputFiles(file('huge.txt', 'x'.repeat(100_001)));
  await page.getByText('huge.txt is too long').waitFor();
  const content = 'a line\n```\na fence\n```\n';
  await picker.setInputFiles([file('notes.md', content), file('other.txt', 'left out')]);
  await page.getByRole('button', { name: 'Remove other.txt' }).click();
  await ask(page, 'a story of files');
  await eventually(async () => assert.equal((await finished(page)).join(''), story('files')));
  const mine = page.getByRole('article', { name: 'You' });
  await mine.getByText('notes.md').click();
  await eventually(async () => assert.equal(await mine.locator('.payload').innerText(), content.trimEnd()));
  await eventually(async () => assert.equal(await mine.locator('p').first().innerText(), 'a story of files'));
  const id = page.url().split('/c/')[1];
  const { body } = await dev.api(`/api/conversations/${id}/messages?limit=10`);
  assert.equal(
    body.items.find((message) => message.role === 'user').content,
    `a story of files\n\nFile \`notes.md\`:\n\`\`\`\`\n${content.trimEnd()}\n\`\`\`\``,
  );
  await context.close();
});

test('a conversation that goes on elsewhere is marked until it is looked at', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of marks');
  await finished(page);
  const mark = page.getByRole('link', { name: /a story of marks/ }).getByRole('img', { name: 'Unread' });
  const conversationId = page.url().split('/c/')[1];
  await page.getByRole('link', { name: 'New chat' }).click();
  await page.waitForURL((url) => url.pathname === '/');
  await page.getByRole('link', { name: /a story of marks/ }).waitFor();
  await eventually(async () => assert.equal(await mark.count(), 0, 'it was seen'));
  await dev.api('/api/chat/stream', { method: 'POST', body: { conversationId, message: 'said elsewhere' } });
  await page.reload();
  await mark.waitFor();
  await page.getByRole('link', { name: /a story of marks/ }).click();
  await finished(page);
  await page.getByRole('link', { name: 'New chat' }).click();
  await mark.waitFor({ state: 'detached' });
  await context.close();
});

test('what an answer cites leads into the graph', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByLabel('Agent', { exact: true }).selectOption('plain');
  await ask(page, 'cite libssl3');
  await finished(page);
  await eventually(async () => assert.equal(await answer(page).locator('.markdown a').count(), 1));
  await answer(page).getByText('Found in the graph').click();
  await answer(page).locator('.chips a').first().waitFor();
  await answer(page).getByRole('link', { name: 'Package:libssl3' }).click();
  await page.waitForURL(/\/graph\?q=libssl3/);
  await page.getByRole('listitem').filter({ hasText: 'libssl3' }).first().waitFor();
  await page.goBack();
  // Its calls and its usage are fetched when it is seen, and then it is rendered again.
  await answer(page)
    .getByText(/\d tokens/)
    .waitFor();
  await answer(page).getByText('Found in the graph').click();
  await answer(page).locator('.chips a').first().click();
  await page.waitForURL(/\/graph\/[0-9a-f-]{36}$/);
  await page.getByRole('heading', { level: 1 }).waitFor();
  assert.match(page.url(), /\/graph\/[0-9a-f-]{36}$/);
  await context.close();
});

test('a sub-agent is shown within its parent', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page, agent);
  await ask(page, 'delegate it');
  const turn = page.locator('article.turn').first();
  await turn.getByText('They found it.').waitFor({ timeout: 60_000 });
  const sub = turn.locator('details.sub');
  await sub.getByText('helper').first().waitFor();
  await sub.locator('summary').first().click();
  await sub.getByText(story('helpers').slice(0, 40)).waitFor();
  await context.close();
});

test('what a hostile model writes sends no request and runs nothing', { skip }, async () => {
  const { context, page, elsewhere } = await signedIn(browser, dev);
  await ask(page, 'be hostile');
  await finished(page);
  await answer(page).getByText('[image: two]').waitFor();
  await eventually(async () => assert.notEqual(await page.title(), 'taken'));
  assert.deepEqual(elsewhere, []);
  await eventually(async () =>
    assert.equal(await page.locator('article.turn iframe, article.turn script, article.turn img').count(), 0),
  );
  await context.close();
});

test('the keyboard alone asks, stops, chooses, answers and finds the views', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  // The field has the focus.
  await page.keyboard.type('a story of keys');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await page.keyboard.press('Escape');
  await answer(page).getByText('cancelled').waitFor();
  /** Presses a key until the focus is on this text, as a user does who sees the focus. */
  const walkTo = async (words, key = 'Tab') => {
    for (let steps = 0; steps < 40; steps++) {
      await page.keyboard.press(key);
      if ((await page.evaluate(() => document.activeElement?.innerText)) === words) return page.keyboard.press('Enter');
    }
    throw new Error(`no key leads to ${words}`);
  };
  await walkTo('New chat');
  await page.waitForURL((url) => url.pathname === '/');
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  // The choice of the agent is behind the field and the files, and a letter chooses.
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.type('asker');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.type('which colour do I like?');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'BLUE', exact: true }).waitFor();
  await walkTo('BLUE', 'Shift+Tab');
  await answer(page).getByText('Then blue it is.').waitFor();
  await walkTo('Runs');
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await context.close();
});

test('a message is edited, and asked in a new conversation', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of erors');
  await finished(page);
  const before = page.url();
  await page.getByRole('article', { name: 'You' }).hover();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'Edit message' }).fill('a story of errors');
  await page.getByRole('button', { name: 'Send as new branch' }).click();
  await page.waitForURL((url) => url.href !== before && url.pathname.startsWith('/c/'));
  await eventually(async () => assert.equal((await finished(page)).join(''), story('errors')));
  await context.close();
});

test('no view has a serious fault of accessibility, light or dark', { skip }, async () => {
  // The page's policy takes no scripts of others: for the test they are let in.
  const { context, page } = await signedIn(browser, dev, { colorScheme: 'light', bypassCSP: true });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const check = async (place) => {
    const light = await ground();
    // A page takes a moment to take on other colours.
    await eventually(() => accessible(page, place));
    // Of the rules, only these two depend on colours.
    const ofColours = ['color-contrast', 'link-in-text-block'];
    for (const [colorScheme, contrast] of [
      ['dark', 'no-preference'],
      ['light', 'more'],
      ['dark', 'more'],
    ]) {
      await page.emulateMedia({ colorScheme, contrast });
      const where = `${place}, ${colorScheme}, contrast: ${contrast}`;
      await eventually(async () => {
        assert.equal((await ground()) === light, colorScheme === 'light', `${where}: its colours`);
        await accessible(page, where, ofColours);
      });
    }
    await page.emulateMedia({ colorScheme: 'light', contrast: 'no-preference' });
    await eventually(async () => assert.equal(await ground(), light, `${place}: its colours again`));
  };
  await withAgent(page, agent);
  await ask(page, 'lookup once more');
  await finished(page);
  for (const path of [
    new URL(page.url()).pathname,
    '/',
    '/runs',
    '/tasks',
    '/graph',
    '/settings',
    '/agents',
    '/evaluations',
    '/tools',
    '/sources',
    '/work',
    '/calendar',
    '/operations',
    '/settings?part=keys',
    '/settings?part=members',
    '/settings?part=prices',
  ]) {
    await page.goto(dev.url + path);
    await page.locator('#main').waitFor();
    await check(path);
  }
  await page.goto(dev.url);
  await withAgent(page, careful);
  await ask(page, 'look with care');
  await page.getByRole('button', { name: 'Edit arguments' }).click();
  await page.getByRole('textbox', { name: 'arguments' }).waitFor();
  await page
    .getByLabel('Attach files')
    .setInputFiles({ name: 'notes.md', mimeType: 'text/plain', buffer: Buffer.from('a line') });
  await page.getByText('6 characters').waitFor();
  await check('a call to approve');
  await page.setViewportSize({ width: 400, height: 700 });
  await check('the same, narrow');
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400, 'nothing sticks out'),
  );
  await page.getByRole('button', { name: 'Refuse' }).click();
  await context.close();
});
