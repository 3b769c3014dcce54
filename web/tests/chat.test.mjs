// What people do with the chat, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { answer, ask, finished, signedIn } from './support/browser.mjs';
import { until } from './support/dev.mjs';
import { startMcp } from './support/mcp.mjs';
import { skip, stage } from './support/stage.mjs';

const WORDS = 120;
const PACE_MS = 20;
/** Where twenty reloads have to fit in, also on a slow machine. */
const WORDS_OF = { reloads: 1_000 };

/** So many words, each unlike the others. */
function story(name, words = WORDS) {
  return Array.from({ length: words }, (_, nth) => `${name}${nth}`).join(' ');
}

const HOSTILE = [
  '<script>document.title = "taken"</script>',
  '<img src="http://tracker.example/one.png" onerror="document.title = \'taken\'">',
  '![two](http://tracker.example/two.png)',
  '[click](javascript:document.title="taken")',
  '<iframe src="http://tracker.example/three"></iframe>',
  '[nowhere](/graph?q=%E0%A4%A)',
  '<style>@import "http://tracker.example/four.css"</style>',
].join('\n\n');

const CODE = Array.from({ length: 200 }, (_, nth) => (nth % 7 === 0 ? '' : `  const value${nth} = ${nth};`)).join('\n');

/** All that Markdown is written of, more than a stretch of it. */
const DRESSED = [
  '# A heading',
  'A paragraph\nof two lines, **bold**, _slanted_ and `code`.',
  '- one\n\n  of two paragraphs\n- two\n  - nested\n1. and numbers',
  '| a | b |\n| --- | --- |\n| 1 | 2 |',
  '> quoted\n\nand not.',
  `\`\`\`js\n${CODE}\n\`\`\``,
  '~~~~\n```\na fence within\n```\n~~~~',
  ...Array.from({ length: 30 }, (_, nth) => `Paragraph ${nth} with [Package:p${nth}].`),
].join('\n\n');

function reply(messages) {
  const asked = messages.findLast((message) => message.role === 'user')?.content ?? '';
  const said = typeof asked === 'string' ? asked : JSON.stringify(asked);
  const last = messages.at(-1);
  if (said.includes('refuse it')) return isRefusing ? { refusal: 'not today' } : { text: 'Now I may.' };
  if (said.includes('look with care')) {
    return last.role === 'tool'
      ? { text: `Found: ${last.content.includes('libssl3')}.` }
      : { text: 'I will look.', tools: [{ name: 'search_entities', arguments: { query: 'apt', limit: 1 } }] };
  }
  if (said.includes('make tasks')) {
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
  if (said.includes('dressed')) return { text: DRESSED, paceMs: 2 };
  if (said.includes('cite')) return { text: 'It is [Package:libssl3], not `[Package:code]` nor [Note: this].' };
  if (said.includes('hostile')) return { text: HOSTILE, paceMs: 0 };
  if (said.includes('lookup')) {
    return last.role === 'tool' ? { text: 'I looked it up.' } : { tools: [{ name: 'schema_version', arguments: {} }] };
  }
  if (said.includes('which colour')) {
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
  if (said.includes('delegate')) {
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
  const name = /story of (\w+)/.exec(said)?.[1] ?? 'word';
  return { text: story(name, WORDS_OF[name]), paceMs: PACE_MS };
}

/** Whether the model refuses, where it may. */
let isRefusing = false;
const { dev, browser } = await stage(reply, {});
const agent = skip || (await dev.agent('asker', ['schema_version', 'ask_user', 'spawn_agents', 'create_tasks']));
const careful = skip || (await dev.agent('careful', ['search_entities'], { confirm: ['search_*'] }));
if (!skip) await dev.agent('helper', []);

/** The reply that the server has stored last. */
async function stored(page) {
  const id = page.url().split('/c/')[1];
  const { body } = await dev.api(`/api/conversations/${id}/messages?limit=100`);
  return body.items.findLast((message) => message.role === 'assistant')?.content;
}

async function withAgent(page, id = agent) {
  await page.getByLabel('Agent', { exact: true }).selectOption(id);
}

test('a first question is answered, with its call and its run', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  assert.equal(page.url().includes('key='), false, 'the key is not left in the address');
  await withAgent(page);
  await ask(page, 'lookup please');
  await finished(page);
  const turn = answer(page);
  assert.match(await turn.innerText(), /I looked it up\./);
  await turn.getByText('schema_version').click();
  await turn.getByText('Result').waitFor();
  await turn.getByRole('link', { name: 'View trace' }).click();
  await page.getByRole('heading', { name: 'asker' }).waitFor();
  await page.getByText('schema_version', { exact: true }).click();
  await page.getByRole('heading', { name: 'Messages' }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('an answer that is reloaded at twenty moments is shown once, word by word', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of reloads');
  await page.waitForURL(/\/c\//);
  let reloads = 0;
  while (reloads < 20) {
    await page.reload({ waitUntil: 'commit' });
    reloads += 1;
    await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 0);
  }
  assert.equal(await answer(page).getAttribute('aria-busy'), 'true', 'all of them were in the middle');
  const shown = await finished(page);
  assert.equal(shown.join(''), await stored(page));
  assert.equal(shown.join(''), story('reloads', WORDS_OF.reloads));
  await context.close();
});

const MEETINGS = Number(process.env.REJOIN_TEST_MEETINGS ?? 20);

test('reloaded at any moment, what is shown in the end is the stored message', { skip }, async () => {
  const { context, page: first } = await signedIn(browser, dev);
  let state = 20_261_123;
  const random = (limit) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % limit;
  };
  const pages = [first, await context.newPage(), await context.newPage(), await context.newPage()];
  const moments = Array.from({ length: MEETINGS }, () => random(WORDS * PACE_MS * 1.2));
  const meet = async (page, nth) => {
    if (nth >= moments.length) return;
    const name = `meeting${nth}`;
    await page.goto(dev.url);
    await ask(page, `a story of ${name}`);
    await page.waitForURL(/\/c\//);
    // Not a wait for something: a moment like any other.
    await new Promise((resolve) => setTimeout(resolve, moments[nth]));
    await page.reload({ waitUntil: 'commit' });
    const shown = (await finished(page)).join('');
    assert.equal(shown, story(name), `reloaded after ${moments[nth]} ms`);
    assert.equal(await stored(page), shown);
    await meet(page, nth + pages.length);
  };
  await Promise.all(pages.map(meet));
  await context.close();
});

test('what came before a reload is whole again: words, calls, and how it ended', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page);
  await ask(page, 'lookup before');
  await finished(page);
  isRefusing = true;
  await ask(page, 'refuse it');
  await answer(page).getByText('not today').waitFor();
  await page.reload();
  await answer(page).getByText('not today').waitFor();
  const turn = page.locator('article.turn').first();
  await turn.getByText('schema_version').click();
  await turn.getByText('Result').waitFor();
  assert.match(await turn.innerText(), /I looked it up\./);
  // And it may be asked for again.
  isRefusing = false;
  await answer(page).getByRole('button', { name: 'Retry' }).click();
  await answer(page).getByText('Now I may.').waitFor();
  assert.equal(await page.getByRole('article', { name: 'You' }).count(), 3);
  await context.close();
});

for (const victim of ['worker', 'api']) {
  test(`a ${victim} that is killed in the middle is survived, and nothing is shown twice`, { skip }, async () => {
    const { context, page } = await signedIn(browser, dev);
    await ask(page, `a story of ${victim}s`);
    await page.waitForFunction(
      () => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 100,
    );
    const pids = victim === 'api' ? [dev.pids.api] : dev.pids.workers;
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    const shown = await finished(page);
    assert.equal(shown.join(''), story(`${victim}s`));
    assert.equal(await stored(page), story(`${victim}s`));
    if (victim === 'worker') await answer(page).locator('.notice').first().waitFor();
    await context.close();
  });
}

test('a page that is offline for a while goes on where it was', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of tunnels');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 50);
  await context.setOffline(true);
  await page.getByText("You're offline").waitFor();
  const id = page.url().split('/c/')[1];
  await until('its end', async () => {
    const { body } = await dev.api(`/api/conversations/${id}/messages?limit=10`);
    return body.items.some((message) => message.role === 'assistant');
  });
  await context.setOffline(false);
  assert.equal((await finished(page)).join(''), story('tunnels'));
  await context.close();
});

test('two tabs agree', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of tabs');
  await page.waitForURL(/\/c\//);
  const other = await context.newPage();
  await other.goto(page.url());
  const [one, two] = await Promise.all([finished(page), finished(other)]);
  assert.equal(one.join(''), story('tabs'));
  assert.deepEqual(two, one);
  await context.close();
});

test('ten conversations at once in one browser are all finished', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const pages = [page, ...(await Promise.all(Array.from({ length: 9 }, () => context.newPage())))];
  await Promise.all(pages.slice(1).map((one) => one.goto(dev.url)));
  await Promise.all(
    pages.map(async (one, nth) => {
      await ask(one, `a story of crowd${nth}`);
      assert.equal((await finished(one, 120_000)).join(''), story(`crowd${nth}`));
    }),
  );
  // Whichever tab sent a message, the one that it was written in knows its conversation.
  const moved = await page.evaluate(
    () => Object.keys(localStorage).filter((key) => key.includes('.moved.new-')).length,
  );
  assert.equal(moved, 10);
  await context.close();
});

test('an answer is stopped', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of stops');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await answer(page).getByText('cancelled').waitFor();
  await context.close();
});

test('a question is answered where it is asked', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await withAgent(page);
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
  await withAgent(page);
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
  await ask(page, 'a story of queues');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await ask(page, 'a story of seconds');
  await ask(page, 'a story of thirds');
  await page.locator('article.turn').nth(2).getByText('queued').waitFor();
  await answer(page).getByRole('button', { name: 'Cancel message' }).click();
  await answer(page).getByText('cancelled').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('a story of hints');
  await page.getByRole('button', { name: 'Steer' }).click();
  await page.locator('.told').getByText('a story of hints').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('article.turn[aria-busy="true"]').length === 0);
  const second = page.locator('article.turn').nth(1);
  assert.equal((await second.locator('.markdown').allInnerTexts()).join(''), story('seconds'));
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
  assert.equal((await finished(page)).join(''), story('files'));
  const mine = page.getByRole('article', { name: 'You' });
  await mine.getByText('notes.md').click();
  assert.equal(await mine.locator('.payload').innerText(), content.trimEnd());
  assert.equal(await mine.locator('p').first().innerText(), 'a story of files');
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
  await page.getByRole('link', { name: 'New conversation' }).click();
  await page.waitForURL((url) => url.pathname === '/');
  await page.getByRole('link', { name: /a story of marks/ }).waitFor();
  assert.equal(await mark.count(), 0, 'it was seen');
  await dev.api('/api/chat/stream', { method: 'POST', body: { conversationId, message: 'said elsewhere' } });
  await page.reload();
  await mark.waitFor();
  await page.getByRole('link', { name: /a story of marks/ }).click();
  await finished(page);
  await page.getByRole('link', { name: 'New conversation' }).click();
  await mark.waitFor({ state: 'detached' });
  await context.close();
});

test('what was shown word by word looks the same when it is opened again', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  await ask(page, 'all dressed up');
  await page.locator('article.turn .code .lines').nth(1).waitFor();
  await finished(page);
  const code = answer(page).locator('.code').first();
  assert.equal((await code.locator('pre').innerText()).trimEnd(), CODE);
  const looks = () =>
    answer(page)
      .locator('.markdown')
      .evaluateAll((texts) => texts.map((text) => text.innerHTML));
  const grown = await looks();
  assert.match(grown.join(''), /<table>.*<blockquote>/s);
  await page.reload();
  await finished(page);
  await page.waitForFunction(() => !document.querySelector('.undressed'));
  assert.deepEqual(await looks(), grown);
  assert.deepEqual(faults, []);
  await context.close();
});

test('what an answer cites leads into the graph', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByLabel('Agent', { exact: true }).selectOption('plain');
  await ask(page, 'cite libssl3');
  await finished(page);
  assert.equal(await answer(page).locator('.markdown a').count(), 1);
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
  await withAgent(page);
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
  assert.notEqual(await page.title(), 'taken');
  assert.deepEqual(elsewhere, []);
  assert.equal(await page.locator('article.turn iframe, article.turn script, article.turn img').count(), 0);
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
  /** As somebody does who sees where the focus is. */
  const walkTo = async (words, key = 'Tab') => {
    for (let steps = 0; steps < 20; steps++) {
      await page.keyboard.press(key);
      if ((await page.evaluate(() => document.activeElement?.innerText)) === words) return page.keyboard.press('Enter');
    }
    throw new Error(`no key leads to ${words}`);
  };
  await walkTo('New conversation');
  await page.waitForURL((url) => url.pathname === '/');
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  // The choice of the agent is behind the field, and a letter chooses.
  await page.keyboard.press('Tab');
  await page.keyboard.type('asker');
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
  assert.equal((await finished(page)).join(''), story('errors'));
  await context.close();
});

test('an agent is made, changed, and asked', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'New agent' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('teller');
  await page.getByRole('textbox', { name: 'Configuration' }).fill('{');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('The configuration is not valid JSON').waitFor();
  await page.getByRole('textbox', { name: 'Configuration' }).fill('{}');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('button', { name: 'teller' }).waitFor();
  await page.getByRole('textbox', { name: 'Test message' }).fill('a story of trials');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  assert.equal((await finished(page)).join(''), story('trials'));
  await page.getByRole('textbox', { name: 'Description' }).fill('Tells stories.');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const { body } = await dev.api(`/api/projects/${dev.projectId}/agents`);
  assert.equal(body.items.find((one) => one.name === 'teller').description, 'Tells stories.');
  await page.getByRole('link', { name: 'Chat', exact: true }).click();
  await page.getByLabel('Agent', { exact: true }).selectOption('teller');
  await ask(page, 'a story of tellers');
  assert.equal((await finished(page)).join(''), story('tellers'));
  await context.close();
});

test('an MCP server is added, tried, and its tools are approved', { skip }, async () => {
  const mcp = await startMcp();
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/settings?part=servers`);
  await page.getByRole('textbox', { name: 'Name' }).fill('small');
  await page.getByRole('textbox', { name: 'URL' }).fill(`${mcp.url}/mcp`);
  await page.getByRole('textbox', { name: 'Headers' }).fill('Authorization: Bearer in-the-clear');
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByText('looks like a credential').waitFor();
  await page.getByRole('textbox', { name: 'Headers' }).fill('X-Team: one');
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByText('small', { exact: true }).click();
  await page.getByRole('button', { name: 'Test' }).click();
  await page.getByText('The server responded.').waitFor();
  await page.getByText('new', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Approve all 2' }).click();
  await page.getByText('approved', { exact: true }).nth(1).waitFor();
  await page.getByText('Edit settings').click();
  await page.locator('.inside').getByRole('textbox', { name: 'URL' }).fill(`${mcp.url}/nowhere`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Test' }).click();
  await page.getByText('The test failed.').waitFor();
  page.once('dialog', (dialog) => dialog.accept());
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByText('No MCP servers yet').waitFor();
  await context.close();
  await mcp.stop();
});

test('a project keeps its last owner, and says so', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/settings?part=members`);
  await page.getByLabel('Role of demo').selectOption('viewer');
  await page.getByRole('alert').getByText('owner').waitFor();
  assert.equal(await page.getByLabel('Role of demo').inputValue(), 'owner');
  await context.close();
});

test('no view has a serious fault of accessibility, light or dark', { skip }, async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    // The page's policy takes no scripts of others: for the test they are let in.
    const { context, page } = await signedIn(browser, dev, { colorScheme, bypassCSP: true });
    const check = async (place) => {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(
        serious.map(({ id, nodes }) => `${place} ${id}: ${nodes[0].html}`),
        [],
      );
    };
    await withAgent(page);
    await ask(page, 'lookup once more');
    await finished(page);
    for (const path of [
      new URL(page.url()).pathname,
      '/',
      '/runs',
      '/tasks',
      '/graph',
      '/settings',
      '/settings?part=servers',
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
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400, 'nothing sticks out');
    await page.getByRole('button', { name: 'Refuse' }).click();
    await context.close();
  }
});
