// What people do with the chat, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { answer, ask, finished, launch, PROGRAM, signedIn } from './support/browser.mjs';
import { BINARY, startDev, until } from './support/dev.mjs';
import { startModel } from './support/model.mjs';

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
  '<style>@import "http://tracker.example/four.css"</style>',
].join('\n\n');

function reply(messages) {
  const asked = messages.findLast((message) => message.role === 'user')?.content ?? '';
  const said = typeof asked === 'string' ? asked : JSON.stringify(asked);
  const last = messages.at(-1);
  if (said.includes('hostile')) return { text: HOSTILE, paceMs: 0 };
  if (said.includes('lookup')) {
    return last.role === 'tool' ? { text: 'I looked it up.' } : { tools: [{ name: 'schema_version', arguments: {} }] };
  }
  if (said.includes('which colour')) {
    const options = ['red', 'blue'].map((value) => ({ label: value.toUpperCase(), value, description: null }));
    return last.role === 'tool'
      ? { text: `Then ${JSON.parse(last.content).answer} it is.` }
      : { tools: [{ name: 'ask_user', arguments: { question: 'Which colour?', options, interaction_type: null, placeholder: null, max_length: null } }] };
  }
  if (said.includes('delegate')) {
    return last.role === 'tool'
      ? { text: 'They found it.' }
      : { tools: [{ name: 'spawn_agents', arguments: { agents: [{ agent_name: 'helper', task: 'a story of helpers', timeout: null, resume_run_id: null }] } }] };
  }
  const name = /story of (\w+)/.exec(said)?.[1] ?? 'word';
  return { text: story(name, WORDS_OF[name]), paceMs: PACE_MS };
}

const skip = !BINARY || !PROGRAM ? 'SKIPPED: REJOIN_TEST_BIN names no binary, or there is no Chromium' : false;
let model;
let dev;
let browser;
let agent;

before(async () => {
  if (skip) return;
  model = await startModel(reply);
  dev = await startDev(model.url);
  const make = async (name, tools) => {
    const body = { name, description: `Is ${name}.`, systemPrompt: 'You answer.', model: { name: 'openai:scripted' }, tools };
    return (await dev.api(`/api/admin/projects/${dev.projectId}/agent-definitions`, { method: 'POST', body })).body.id;
  };
  agent = await make('asker', ['schema_version', 'ask_user', 'spawn_agents']);
  await make('helper', []);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await dev?.stop();
  await model?.stop();
});

/** The reply that the server has stored last. */
async function stored(page) {
  const id = page.url().split('/c/')[1];
  const { body } = await dev.api(`/api/conversations/${id}/messages?limit=100`);
  return body.items.findLast((message) => message.role === 'assistant')?.content;
}

async function withAgent(page) {
  await page.getByLabel('Agent', { exact: true }).selectOption(agent);
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
  await turn.getByRole('link', { name: 'run' }).click();
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

for (const victim of ['worker', 'api']) {
  test(`a ${victim} that is killed in the middle is survived, and nothing is shown twice`, { skip }, async () => {
    const { context, page } = await signedIn(browser, dev);
    await ask(page, `a story of ${victim}s`);
    await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 100);
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
  await page.getByText('You are offline').waitFor();
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

test('what a hostile model writes asks nobody and runs nothing', { skip }, async () => {
  const { context, page, elsewhere } = await signedIn(browser, dev);
  await ask(page, 'be hostile');
  await finished(page);
  await answer(page).getByText('[picture: two]').waitFor();
  assert.equal(await page.title(), 'Rejoin');
  assert.deepEqual(elsewhere, []);
  assert.equal(await page.locator('article.turn iframe, article.turn script, article.turn img').count(), 0);
  await context.close();
});

test('the keyboard alone asks, stops and finds the views', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  // The field has the focus.
  await page.keyboard.type('a story of keys');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => (document.querySelector('article.turn .markdown')?.textContent ?? '').length > 20);
  await page.keyboard.press('Escape');
  await answer(page).getByText('cancelled').waitFor();
  await page.locator('body').press('Home');
  await page.getByRole('link', { name: 'Runs' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await context.close();
});

test('a message is edited, and asked in a conversation of its own', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of erors');
  await finished(page);
  const before = page.url();
  await page.getByRole('article', { name: 'You' }).hover();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('textbox', { name: 'The message, edited' }).fill('a story of errors');
  await page.getByRole('button', { name: 'Ask this' }).click();
  await page.waitForURL((url) => url.href !== before && url.pathname.startsWith('/c/'));
  assert.equal((await finished(page)).join(''), story('errors'));
  await context.close();
});

test('an agent is made, changed, and asked', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'New agent' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('teller');
  await page.getByRole('textbox', { name: 'Further settings' }).fill('{');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByText('config is no JSON').waitFor();
  await page.getByRole('textbox', { name: 'Further settings' }).fill('{}');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.getByRole('button', { name: 'teller' }).waitFor();
  await page.getByRole('textbox', { name: 'What it is for' }).fill('Tells stories.');
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

test('no view has a serious fault of accessibility, light or dark', { skip }, async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    // The page's policy takes no scripts of others: for the test they are let in.
    const { context, page } = await signedIn(browser, dev, { colorScheme, bypassCSP: true });
    await withAgent(page);
    await ask(page, 'lookup once more');
    await finished(page);
    for (const path of [new URL(page.url()).pathname, '/', '/runs', '/tasks', '/graph', '/settings', '/settings?part=servers', '/settings?part=prices']) {
      await page.goto(dev.url + path);
      await page.locator('#main').waitFor();
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(
        serious.map(({ id, nodes }) => `${path} ${id}: ${nodes[0].html}`),
        [],
      );
    }
    await context.close();
  }
});
