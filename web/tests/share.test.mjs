// Chats shared by links, and the page that readers without a session see. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';
import { another } from './support/users.mjs';

const { dev, browser } = await stage(
  (messages) => ({
    text: lastQuestion(messages).includes('libssl3') ? 'Ask **apt** about it, see [Package:apt].' : 'Well.',
    paceMs: 0,
  }),
  { workers: 1, env: { REJOIN_SHARE_MAX_DAYS: '30' } },
);

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const PDF = Buffer.from('%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n');

const dialog = (page) => page.getByRole('dialog', { name: 'Share chat' });
const shareButton = (page) => page.getByRole('button', { name: 'Share', exact: true });
const links = (page) => page.getByRole('list', { name: 'Links' }).getByRole('listitem');
const mine = (page, words) => page.getByRole('article', { name: 'User', exact: true }).filter({ hasText: words });
const answers = (page) => page.getByRole('article', { name: 'Answer', exact: true });
const gone = (page) => page.getByRole('heading', { level: 1, name: "This link doesn't work" });

/** Ends that a new link is shown. */
async function done(page) {
  await dialog(page).getByRole('button', { name: 'Done' }).click();
  await dialog(page).getByText('It will not be shown again').waitFor({ state: 'detached' });
}

/** Creates a link with these options in the dialog, which is open; its path. */
async function created(page, { expires = '30 days', include = [] } = {}) {
  await dialog(page).getByLabel('Expires after').selectOption({ label: expires });
  for (const name of include) await dialog(page).getByLabel(name).check();
  await dialog(page).getByRole('button', { name: 'Create link' }).click();
  const shown = dialog(page).getByRole('status').filter({ hasText: 'It will not be shown again' });
  const { pathname } = new URL(await shown.locator('code').innerText());
  assert.match(pathname, /^\/shared\/[\w-]{43}$/);
  return pathname;
}

/** A reader without a session, at the link; with the paths of all requests. */
async function readerAt(path, options = {}) {
  const context = await browser.newContext(options);
  const reader = await context.newPage();
  const requested = [];
  reader.on('request', (request) => requested.push(new URL(request.url()).pathname));
  await reader.goto(dev.url + path);
  return { context, reader, requested };
}

test('a chat is read by a link without a session, as far as it went, until the link is revoked', {
  skip,
  timeout: 180_000,
}, async () => {
  const { context, page, faults } = await signedIn(browser, dev, {
    bypassCSP: true,
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  await ask(page, 'Which packages need libssl3?');
  await finished(page);
  await shareButton(page).focus();
  await page.keyboard.press('Enter');
  await dialog(page).getByText('No links yet').waitFor();
  const path = await created(page, { expires: '7 days' });
  await dialog(page).getByRole('button', { name: 'Copy link' }).click();
  await dialog(page).getByRole('button', { name: 'Copied' }).waitFor();
  await links(page).filter({ hasText: 'in 6 days' }).filter({ hasText: 'Never opened' }).waitFor();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the dialog, ${colorScheme}`);
  }
  await done(page);
  await page.keyboard.press('Escape');
  await dialog(page).waitFor({ state: 'detached' });
  await until('the focus is back at the button', () =>
    shareButton(page).evaluate((button) => button === document.activeElement),
  );

  const { context: other, reader, requested } = await readerAt(path, { bypassCSP: true });
  await reader.getByRole('heading', { level: 1, name: 'Which packages need libssl3?' }).waitFor();
  await mine(reader, 'Which packages need libssl3?').waitFor();
  await answers(reader).locator('strong').getByText('apt').waitFor();
  await answers(reader).getByText('Package:apt').waitFor();
  await eventually(async () =>
    assert.equal(await reader.getByRole('link', { name: 'Package:apt' }).count(), 0, 'the graph is not shared'),
  );
  await eventually(async () => assert.equal(await reader.getByRole('textbox').count(), 0, 'it is read-only'));
  await until('the page has its title', async () => (await reader.title()) === 'Which packages need libssl3? · Rejoin');
  assert.ok(!requested.includes('/api/me'), requested.join());
  for (const colorScheme of ['light', 'dark']) {
    await reader.emulateMedia({ colorScheme });
    await accessible(reader, `a shared chat, ${colorScheme}`);
  }
  await reader.setViewportSize({ width: 320, height: 600 });
  const overflow = () => reader.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await until('nothing sticks out', async () => (await overflow()) <= 0);

  // Later messages are not shown.
  await ask(page, 'And libssl1?');
  await page.locator('article.turn').nth(1).waitFor();
  await finished(page);
  await reader.reload();
  await answers(reader).first().waitFor();
  await eventually(async () => assert.equal(await mine(reader, 'And libssl1?').count(), 0));

  await page.goto(`${dev.url}/settings?part=shares`);
  const link = links(page).filter({ hasText: 'Which packages need libssl3?' });
  await link.filter({ hasText: 'Last opened' }).waitFor();
  await accessible(page, 'the list of shared chats');
  await link.getByRole('button', { name: /^Revoke the link created/ }).click();
  await agree(page, 'Revoke link');
  await link.getByText('Revoked').waitFor();
  assert.deepEqual(faults, []);
  await reader.reload();
  await gone(reader).waitFor();
  await accessible(reader, 'a link that was revoked');
  await other.close();
  await context.close();
});

test('later messages and files are shown by links that include them', { skip, timeout: 180_000 }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByLabel('Attach files').setInputFiles([
    { name: 'pixel.png', mimeType: 'image/png', buffer: PNG },
    { name: 'report.pdf', mimeType: 'application/pdf', buffer: PDF },
  ]);
  const along = page.getByRole('list', { name: 'Attached files' });
  await until(
    'both are up',
    async () =>
      (await along.getByRole('progressbar').count()) === 0 && (await along.getByRole('listitem').count()) === 2,
  );
  await ask(page, 'What are these files?');
  await finished(page);
  await shareButton(page).click();
  const without = await created(page);
  await done(page);
  const path = await created(page, { include: ['Include messages that come later', 'Include files'] });
  assert.notEqual(path, without);
  await links(page).filter({ hasText: 'With later messages · With files' }).waitFor();
  await page.keyboard.press('Escape');

  const { context: other, reader } = await readerAt(path);
  const files = mine(reader, 'What are these files?').getByRole('list', { name: 'Files' });
  await until('the image is shown', () =>
    files.getByRole('img', { name: 'pixel.png' }).evaluate((image) => image.complete && image.naturalWidth === 1),
  );
  const saving = reader.waitForEvent('download');
  await files.getByRole('link', { name: 'report.pdf' }).click();
  assert.equal((await saving).suggestedFilename(), 'report.pdf');
  await ask(page, 'And later?');
  await page.locator('article.turn').nth(1).waitFor();
  await finished(page);
  await reader.reload();
  await mine(reader, 'And later?').waitFor();

  await reader.goto(dev.url + without);
  await reader.getByText('Files are not included').waitFor();
  await mine(reader, 'What are these files?').waitFor();
  await eventually(async () => assert.equal(await reader.getByRole('list', { name: 'Files' }).count(), 0));
  await eventually(async () => assert.equal(await mine(reader, 'And later?').count(), 0));
  await other.close();
  await context.close();
});

test('a long chat is read page by page', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  await shareButton(page).click();
  const path = await created(page);
  const reader = await context.newPage();
  // As if there were more than one response has.
  await reader.route('**/api/shared/*/messages*', (route) => {
    const url = new URL(route.request().url());
    url.searchParams.set('limit', '1');
    return route.continue({ url: url.href });
  });
  await reader.goto(dev.url + path);
  await mine(reader, 'hello').waitFor();
  await eventually(async () => assert.equal(await answers(reader).count(), 0));
  const more = reader.getByRole('button', { name: 'Load more messages' });
  await more.click();
  await answers(reader).getByText('Well.').waitFor();
  await more.waitFor({ state: 'detached' });
  await context.close();
});

test('a link that the server does not know is reported, and so is a lifetime that it does not allow', {
  skip,
}, async () => {
  for (const path of ['/shared/unknown', '/shared/']) {
    const { context, reader } = await readerAt(path);
    await gone(reader).waitFor();
    await context.close();
  }
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  await shareButton(page).click();
  const expires = dialog(page).getByLabel('Expires after');
  await expires.selectOption({ label: '1 year' });
  await dialog(page).getByRole('button', { name: 'Create link' }).click();
  await dialog(page).getByRole('alert').getByText('Choose a shorter time.').waitFor();
  await created(page, { expires: '1 day' });
  await context.close();
});

test('a key that is read-only shares nothing, and the page explains why', { skip }, async () => {
  const writes = another(dev, 'rita');
  const made = await fetch(`${dev.url}/api/conversations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${writes.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ title: 'To be read' }),
  });
  const { id } = await made.json();
  const { context, page } = await signedIn(browser, another(dev, 'rita', { scopes: 'read' }));
  await page.goto(`${dev.url}/c/${id}`);
  await page.getByRole('heading', { level: 1, name: 'To be read' }).waitFor();
  await shareButton(page).click();
  await dialog(page).getByText('Your key is read-only.').waitFor();
  await eventually(async () =>
    assert.equal(await dialog(page).getByRole('button', { name: 'Create link' }).count(), 0),
  );
  await context.close();
});
