// What the page loads first, and in which order it draws. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answer, ask, finished, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage(() => ({ text: 'An answer with **bold** words.' }));

const APP = /\/assets\/app-[^/]*\.js$/;
const isOfApi = (request) => new URL(request.url()).pathname.startsWith('/api/');
const pathOf = (request) => request.url().slice(dev.url.length);

/** A page that is signed in, and that holds the app's script back at its next visit until `release` is called. */
async function held(options) {
  const signed = await signedIn(browser, dev, options);
  const { page } = signed;
  // The first visit may still be loading: none of its requests is to be counted.
  await page.goto('about:blank');
  const requests = [];
  let release = () => {};
  const released = new Promise((resolve) => {
    release = resolve;
  });
  await page.route(APP, async (route) => {
    await released;
    await route.continue();
  });
  page.on('request', (request) => requests.push(request));
  return { ...signed, requests, release };
}

test('the first requests do not wait for the script, and none is sent twice', { skip }, async () => {
  const { context, page, requests, release, faults } = await held();
  await page.goto(dev.url, { waitUntil: 'commit' });
  const sent = () => requests.filter(isOfApi).map(pathOf);
  const early = [
    '/api/me',
    '/api/conversations?pinned=true&limit=50',
    '/api/conversations?pinned=false&folder=none&limit=50',
  ];
  await eventually(() => assert.deepEqual(sent(), early));
  release();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await page.getByRole('list', { name: 'Suggestions' }).waitFor();
  for (const path of early) assert.equal(sent().filter((one) => one === path).length, 1, path);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a link that signs in is used before anything is asked', { skip }, async () => {
  const { context, page, requests } = await held();
  await page.unroute(APP);
  const { code } = (await dev.api('/api/sign-in-codes', { method: 'POST' })).body;
  await page.goto(`${dev.url}/#code=${code}`);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  assert.deepEqual(requests.filter(isOfApi).slice(0, 2).map(pathOf), ['/api/session', '/api/me']);
  await context.close();
});

test('the start page is drawn before the sidebar, and what shows a conversation is loaded after it', {
  skip,
}, async () => {
  const { context, page, requests } = await held();
  await page.unroute(APP);
  await page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.hello h1')) return;
      observer.disconnect();
      globalThis.drawnFirst = {
        sidebar: document.querySelectorAll('#sidebar').length,
        chats: document.querySelectorAll('.conversations').length,
        scripts: performance.getEntriesByType('resource').filter(({ name }) => name.includes('/ChatView-')).length,
      };
    }).observe(document, { childList: true, subtree: true });
  });
  await page.goto(dev.url);
  await page.getByRole('navigation', { name: 'Chats' }).waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.drawnFirst), { sidebar: 1, chats: 0, scripts: 0 });
  await eventually(() => assert.equal(requests.filter((one) => one.url().includes('/ChatView-')).length, 1));
  await ask(page, 'hello');
  assert.deepEqual(await finished(page), ['An answer with bold words.']);
  assert.equal(requests.filter((one) => one.url().includes('/ChatView-')).length, 1);
  await context.close();
});

test('the address of a chat loads what shows it along with the script', { skip }, async () => {
  const { context, page, requests, release } = await held();
  await page.unroute(APP);
  await page.goto(dev.url);
  await ask(page, 'hello');
  await finished(page);
  const address = page.url();
  await page.goto('about:blank');
  await page.route(APP, async (route) => {
    await eventually(() => assert.ok(requests.some((one) => one.url().includes('/ChatView-'))));
    await route.continue();
  });
  requests.length = 0;
  release();
  await page.goto(address);
  await answer(page).getByText('An answer with bold words.').waitFor();
  await context.close();
});

test('the message field is as high as its text, up to a limit', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const field = page.getByRole('textbox', { name: 'Message' });
  const heightOf = async (lines) => {
    await field.fill(Array.from({ length: lines }, (_, nth) => `line ${nth}`).join('\n'));
    return (await field.boundingBox()).height;
  };
  const [one, five, many] = [await heightOf(1), await heightOf(5), await heightOf(50)];
  assert.ok(five > 3 * one && five < 5 * one, `${one} and ${five}`);
  assert.equal(many, 220);
  assert.equal(await heightOf(1), one);
  await context.close();
});
