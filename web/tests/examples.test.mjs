// The example pages for clients of other frameworks, as Vite builds and serves them, with their published packages, over a real `rejoin dev`.
// `scripts/test.sh` installs their packages.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { ask } from './support/browser.mjs';
import { lastQuestion, story, storyReply } from './support/chat.mjs';
import { eventually } from './support/dev.mjs';
import { skipWithout } from './support/needs.mjs';
import { skip as noStage, stage } from './support/stage.mjs';

const FOLDER = join(import.meta.dirname, '../../examples');
const EXAMPLES = ['assistant-ui', 'copilotkit'];
/** Longer than the others: these answers are interrupted. */
const WORDS_OF = { reloads: 400, stops: 400, kills: 600 };

function reply(messages) {
  const text = lastQuestion(messages);
  if (!text.includes('look it up')) return storyReply(text, WORDS_OF);
  return messages.at(-1).role === 'tool'
    ? { text: 'It is there.' }
    : { tools: [{ name: 'search_entities', arguments: { query: 'libssl3', limit: 1 } }] };
}

const { model, dev, browser } = await stage(reply);

/** Builds an example, and serves it; its address. */
async function serve(name) {
  const root = join(FOLDER, name);
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  process.env.REJOIN_URL = dev.url;
  process.env.REJOIN_API_KEY = dev.apiKey;
  const vite = createRequire(join(root, 'package.json')).resolve('vite');
  const { preview } = await import(pathToFileURL(vite));
  const server = await preview({ root, logLevel: 'warn', preview: { host: '127.0.0.1', port: 0 } });
  after(() => server.close());
  return `http://127.0.0.1:${server.httpServer.address().port}/`;
}

/** A page with the errors on its console and its requests to other hosts. */
async function open(url) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) faults.push(request.url());
  });
  await page.goto(url);
  return { context, page, faults };
}

/** The text of all answers on the page. */
const shown = async (page) => (await page.locator('.assistant p').allTextContents()).join('');

/** The text of all stored answers. */
async function stored(page) {
  const { body } = await dev.api(`/api/ai/chat/${new URL(page.url()).hash.slice(1)}`);
  const answers = body.messages.filter((message) => message.role === 'assistant');
  return answers.flatMap((message) => message.parts.map((part) => part.text)).join('');
}

/** Waits until the page shows more than this number of characters of an answer. */
const showsMoreThan = (page, length) =>
  page.waitForFunction(
    (length) => [...document.querySelectorAll('.assistant p')].map((text) => text.textContent).join('').length > length,
    length,
  );

const button = (page, name) => page.getByRole('button', { name });

/** Why an example can't be tested here; false: it can. */
const skipOf = (name) =>
  noStage ||
  skipWithout(
    existsSync(join(FOLDER, name, 'node_modules/vite')),
    `the packages of examples/${name} are not installed`,
  );

const urls = {};
for (const name of EXAMPLES) {
  const skip = skipOf(name);
  const url = skip || (await serve(name));
  urls[name] = url;

  test(`${name}: an answer that is reloaded in the middle is shown once, and stays after another reload`, {
    skip,
  }, async () => {
    const { context, page, faults } = await open(url);
    const goOn = model.hold('a story of reloads');
    await ask(page, 'a story of reloads');
    await showsMoreThan(page, 100);
    await page.reload({ waitUntil: 'commit' });
    await showsMoreThan(page, 200);
    await button(page, 'Stop').waitFor();
    const middle = await shown(page);
    assert.ok(middle.length < story('reloads', WORDS_OF.reloads).length, 'it was reloaded in the middle');
    goOn();
    await button(page, 'Send').waitFor({ timeout: 60_000 });
    await eventually(async () => assert.equal(await shown(page), story('reloads', WORDS_OF.reloads)));
    await eventually(async () => assert.equal(await shown(page), await stored(page)));
    await page.reload();
    await showsMoreThan(page, 200);
    await eventually(async () => assert.equal(await shown(page), story('reloads', WORDS_OF.reloads)));
    await page.getByText('a story of reloads').waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  test(`${name}: tool calls are shown, and the next message continues the chat`, { skip }, async () => {
    const { context, page, faults } = await open(url);
    await ask(page, 'look it up');
    await page.getByText('It is there.').waitFor();
    await page.locator('summary', { hasText: 'search_entities' }).click();
    await page.locator('details').getByText('"query": "libssl3"').first().waitFor();
    await button(page, 'Send').waitFor();
    await eventually(async () => assert.equal(await shown(page), 'It is there.'));
    await ask(page, 'a story of tools');
    await button(page, 'Stop').waitFor();
    await button(page, 'Send').waitFor({ timeout: 60_000 });
    await eventually(async () => assert.equal(await shown(page), `It is there.${story('tools')}`));
    await eventually(async () => assert.equal(await shown(page), await stored(page)));
    assert.deepEqual(faults, []);
    await context.close();
  });

  test(`${name}: Stop ends the run, and what was shown is stored`, { skip }, async () => {
    const { context, page, faults } = await open(url);
    model.hold('a story of stops');
    await ask(page, 'a story of stops');
    await showsMoreThan(page, 50);
    await button(page, 'Stop').click();
    await button(page, 'Send').waitFor();
    const text = await shown(page);
    assert.ok(text.length < story('stops', WORDS_OF.stops).length, 'it was stopped in the middle');
    assert.ok(story('stops', WORDS_OF.stops).startsWith(text));
    await eventually(async () => assert.equal(await stored(page), text));
    assert.deepEqual(faults, []);
    await context.close();
  });
}

test('an answer continues after the API was killed: by itself, or by the button beside the error', {
  skip: skipOf('copilotkit') || skipOf('assistant-ui'),
}, async () => {
  const pages = {};
  const goOn = model.hold('a story of kills');
  for (const name of EXAMPLES) {
    pages[name] = await open(urls[name]);
    await ask(pages[name].page, 'a story of kills');
    await showsMoreThan(pages[name].page, 100);
  }
  process.kill(dev.pids.api, 'SIGKILL');
  goOn();
  for (const [name, { context, page }] of Object.entries(pages)) {
    const again = button(page, 'Continue');
    await eventually(async () => {
      if (name === 'assistant-ui' && (await again.isVisible())) await again.click({ timeout: 1_000 }).catch(() => {});
      assert.equal(await shown(page), story('kills', WORDS_OF.kills));
    }, 60_000);
    await button(page, 'Send').waitFor({ timeout: 60_000 });
    await eventually(async () => assert.equal(await stored(page), story('kills', WORDS_OF.kills)));
    await eventually(async () => assert.equal(await page.getByRole('alert').count(), 0));
    await context.close();
  }
});
