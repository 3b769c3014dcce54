// The installed app: it opens while the server can't be reached, and changes to a new version. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { startFront } from './support/front.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage((messages) => ({
  text: `You said: ${messages.findLast((message) => message.role === 'user')?.content}`,
}));
const OFFLINE = 'Offline. Showing what this device has kept.';
const NEWER = 'A new version of Rejoin is available.';

/** A page that is signed in at a server of this test, once the worker serves it. */
async function installed(options = {}) {
  const front = await startFront(dev.url);
  after(() => front.stop().catch(() => {}));
  const signed = await signedIn(browser, { ...dev, url: front.url }, { serviceWorkers: 'allow', ...options });
  await until('the worker serves the page', () =>
    signed.page.evaluate(() => navigator.serviceWorker.controller !== null),
  );
  return { front, ...signed };
}

const copies = (page) => page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes('.kept.')));
/** Whether a copy of a chat has these words: one is made when the chat begins, and again when the answer is there. */
const isCopied = (page, words) => () =>
  page.evaluate(
    (words) =>
      Object.entries(localStorage).some(([key, value]) => key.includes('.kept.chat.') && value.includes(words)),
    words,
  );

/** All paths that the worker has kept. */
const paths = (page) =>
  page.evaluate(async () => {
    const caches = await Promise.all((await globalThis.caches.keys()).map((name) => globalThis.caches.open(name)));
    const requests = await Promise.all(caches.map((cache) => cache.keys()));
    return requests.flat().map(({ url }) => new URL(url).pathname);
  });

const script = (page) => page.locator('script[type=module][src*="/app-"]').getAttribute('src');

test('without the server the app opens with the chats of this device, and goes on when the server is back', {
  skip,
}, async () => {
  const { front, context, page } = await installed({ bypassCSP: true });
  await ask(page, 'keep this');
  await finished(page);
  await until('the chat is copied', isCopied(page, 'You said: keep this'));
  await front.stop();
  await page.reload();
  await page.getByText(OFFLINE).waitFor();
  await answer(page).getByText('You said: keep this').waitFor();
  await page.locator('.conversations li.current').waitFor();
  await accessible(page, 'offline');
  // Another page of the app is the same file.
  await page.goto(`${front.url}/`);
  await page.getByText(OFFLINE).waitFor();
  await page.locator('.conversations li a').first().click();
  await answer(page).getByText('You said: keep this').waitFor();
  await ask(page, 'sent later');
  await page.getByText("Can't reach the server.").first().waitFor();
  await front.resume();
  await page.getByText(OFFLINE).waitFor({ state: 'hidden' });
  await answer(page).getByText('You said: sent later').waitFor();
  await context.close();
});

test('a chat without a copy is reported as such', { skip }, async () => {
  const { front, context, page } = await installed();
  await front.stop();
  await page.goto(`${front.url}/c/00000000-0000-4000-8000-000000000000`);
  await page.getByText('This device has no copy of this chat.').waitFor();
  await context.close();
});

test('the worker keeps files of the app, and no answer of the API', { skip }, async () => {
  const { context, page } = await installed();
  await ask(page, 'not in a cache');
  await finished(page);
  const kept = await paths(page);
  assert.ok(kept.includes('/') && kept.some((path) => path.startsWith('/assets/')), kept.join(' '));
  assert.deepEqual(
    kept.filter((path) => path.startsWith('/api') || path.startsWith('/c/')),
    [],
  );
  const worker = await fetch(`${dev.url}/sw.js`);
  assert.equal(worker.headers.get('cache-control'), 'no-cache');
  assert.match(worker.headers.get('content-type'), /^text\/javascript/);
  assert.match(worker.headers.get('content-security-policy'), /worker-src 'self'/);
  await context.close();
});

test('signing out removes the copies', { skip }, async () => {
  const { context, page } = await installed();
  await ask(page, 'for this session');
  await finished(page);
  await until('the chat is copied', isCopied(page, 'You said: for this session'));
  await page.getByRole('button', { name: /^User menu/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  await eventually(async () => assert.deepEqual(await copies(page), []));
  await context.close();
});

test('a new version waits until the user reloads, and replaces the old one', { skip }, async () => {
  const { front, context, page, faults } = await installed();
  const before = await script(page);
  await page.evaluate(() => {
    globalThis.isSamePage = true;
  });
  front.upgrade();
  await page.evaluate(async () => (await navigator.serviceWorker.getRegistration()).update());
  await page.getByText(NEWER).waitFor();
  await eventually(async () => assert.equal(await script(page), before));
  await page.getByRole('button', { name: 'Reload', exact: true }).click();
  await until('the page is another one', () =>
    page.evaluate(() => globalThis.isSamePage === undefined).catch(() => false),
  );
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await eventually(async () => assert.equal(await script(page), `${before}?newer`));
  await until('the files of the old version are gone', () =>
    page.evaluate(async () => (await caches.keys()).join() === 'rejoin-app-newer').catch(() => false),
  );
  await eventually(async () => assert.equal(await page.getByText(NEWER).count(), 0));
  assert.deepEqual(faults, []);
  await front.stop();
  await page.reload();
  await page.getByText(OFFLINE).waitFor();
  await eventually(async () =>
    assert.equal(await script(page), `${before}?newer`, 'nothing of the old version is mixed in'),
  );
  await context.close();
});

test('a page that the server serves from a new version is not asked to reload', { skip }, async () => {
  const { front, context, page } = await installed();
  const before = await script(page);
  front.upgrade();
  await page.reload();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await eventually(async () => assert.equal(await script(page), `${before}?newer`));
  await until('the new version is in use', () =>
    page.evaluate(async () => (await caches.keys()).join() === 'rejoin-app-newer').catch(() => false),
  );
  await eventually(async () => assert.equal(await page.getByText(NEWER).count(), 0));
  await context.close();
});
