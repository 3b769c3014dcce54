// How a browser is signed in, and by whom it is not: links with codes and keys, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { accessible, signedIn, signInLink } from './support/browser.mjs';
import { BINARY } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

/** Another user of the same project: an attacker who wants others to sign in as this user. */
function another(handle) {
  const options = [
    '--project',
    dev.projectId,
    '--user',
    handle,
    '--create',
    '--database-url',
    dev.databaseUrl,
    '--json',
  ];
  return { ...dev, apiKey: JSON.parse(execFileSync(BINARY, ['keys', 'create', ...options], { encoding: 'utf8' })).key };
}

const message = (page) => page.getByRole('textbox', { name: 'Message' });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const user = (page) => page.evaluate(async () => (await (await fetch('/api/me')).json()).handle);

/** Opens a link as if it were clicked elsewhere: the page is reloaded. */
async function open(page, link) {
  await page.goto('about:blank');
  await page.goto(link);
}

test('the address that rejoin dev prints signs a browser in once, and holds no key', { skip }, async () => {
  assert.match(dev.signInUrl, /\/#code=[\w-]{43}$/);
  assert.ok(!dev.signInUrl.includes(dev.apiKey));
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await page.goto(dev.signInUrl);
  await message(page).waitFor();
  assert.equal(await user(page), 'demo');
  assert.equal(new URL(page.url()).hash, '', 'the code is taken out of the address');
  const other = await (await browser.newContext()).newPage();
  await other.goto(dev.signInUrl);
  await other.getByText('the sign-in code is unknown, used or expired').waitFor();
  await other.getByLabel('API key').waitFor();
  await other.context().close();
  await context.close();
});

test('another user’s link asks the user who is signed in, and changes nothing by itself', { skip }, async () => {
  const eve = another('eve');
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  for (const link of [`${dev.url}/#key=${eve.apiKey}`, await signInLink(eve)]) {
    await open(page, link);
    await page.getByRole('heading', { name: 'Sign in as eve instead?' }).waitFor();
    await page.getByText('You are signed in as demo.').waitFor();
    await accessible(page, 'the question');
    assert.equal(new URL(page.url()).hash, '');
    assert.equal(await user(page), 'demo');
    await button(page, 'Stay signed in as demo').click();
    await message(page).waitFor();
    assert.equal(await user(page), 'demo');
  }
  await open(page, await signInLink(eve));
  await button(page, 'Sign in as eve').click();
  await message(page).waitFor();
  assert.equal(await user(page), 'eve');
  await context.close();
});

test('a key in the address is asked about also without a signed-in user', { skip }, async () => {
  const eve = another('eva');
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${dev.url}/#key=${eve.apiKey}`);
  await page.getByRole('heading', { name: 'Sign in as eva?' }).waitFor();
  await button(page, 'Cancel').click();
  await page.getByLabel('API key').waitFor();
  await open(page, `${dev.url}/#key=${eve.apiKey}`);
  await button(page, 'Sign in as eva').click();
  await message(page).waitFor();
  assert.equal(await user(page), 'eva');
  await context.close();
});
