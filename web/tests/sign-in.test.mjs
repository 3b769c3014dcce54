// How a browser is signed in, and by whom it is not: links with codes and keys, failed sign-ins, and sessions. In a real browser over a real
// `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, signedIn, signInLink } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';
import { another } from './support/users.mjs';

const { dev, browser } = await stage();

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
  await eventually(async () => assert.equal(await user(page), 'demo'));
  assert.equal(new URL(page.url()).hash, '', 'the code is taken out of the address');
  const other = await (await browser.newContext()).newPage();
  await other.goto(dev.signInUrl);
  await other.getByText('the sign-in code is unknown, used or expired').waitFor();
  await other.getByLabel('API key').waitFor();
  await other.context().close();
  await context.close();
});

test('another user’s link asks the user who is signed in, and changes nothing by itself', { skip }, async () => {
  const eve = another(dev, 'eve');
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  for (const link of [`${dev.url}/#key=${eve.apiKey}`, await signInLink(eve)]) {
    await open(page, link);
    await page.getByRole('heading', { name: 'Sign in as eve instead?' }).waitFor();
    await page.getByText('You are signed in as demo.').waitFor();
    await accessible(page, 'the question');
    assert.equal(new URL(page.url()).hash, '');
    await eventually(async () => assert.equal(await user(page), 'demo'));
    await button(page, 'Stay signed in as demo').click();
    await message(page).waitFor();
    await eventually(async () => assert.equal(await user(page), 'demo'));
  }
  await open(page, await signInLink(eve));
  await button(page, 'Sign in as eve').click();
  await message(page).waitFor();
  await eventually(async () => assert.equal(await user(page), 'eve'));
  await context.close();
});

test('a key in the address is asked about also without a signed-in user', { skip }, async () => {
  const eve = another(dev, 'eva');
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${dev.url}/#key=${eve.apiKey}`);
  await page.getByRole('heading', { name: 'Sign in as eva?' }).waitFor();
  await button(page, 'Cancel').click();
  await page.getByLabel('API key').waitFor();
  await open(page, `${dev.url}/#key=${eve.apiKey}`);
  await button(page, 'Sign in as eva').click();
  await message(page).waitFor();
  await eventually(async () => assert.equal(await user(page), 'eva'));
  await context.close();
});

test('a sign-in that failed at the identity provider is explained, by its code', { skip }, async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  for (const [code, words] of [
    ['sign_in_unknown', 'longer than ten minutes'],
    ['cross_site', 'Start it on this page.'],
    ['provider_refused', 'refused the sign-in'],
    ['code_refused', 'did not confirm the sign-in'],
    ['client_refused', 'check its client id'],
    ['token_invalid', 'not valid for this server'],
    ['issuer_unavailable', 'Try again in a few minutes.'],
    ['overloaded', 'The server is overloaded.'],
    ['user_unknown', 'Ask an owner of a workspace for an invitation.'],
    ['no_project', 'no access to a workspace'],
    ['email_not_allowed', 'not verified'],
    ['invitation_invalid', 'Ask the person who invited you for a new link.'],
    ['a_code_of_later', 'The sign-in failed.'],
  ]) {
    await open(page, `${dev.url}/#sign-in-error=${code}`);
    const alert = page.getByRole('alert');
    await alert.getByText(words).waitFor();
    await eventually(async () => assert.ok((await alert.innerText()).includes(`(${code})`)));
    assert.equal(new URL(page.url()).hash, '');
    await page.getByLabel('API key').waitFor();
  }
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `a failed sign-in, ${colorScheme}`);
  }
  // It is shown once.
  await page.reload();
  await page.getByLabel('API key').waitFor();
  await eventually(async () => assert.equal(await page.getByRole('alert').count(), 0));
  await context.close();
});

test('a user who is signed in stays so if a sign-in as another one fails', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await page.route('**/api/sign-in', (route) =>
    route.fulfill({ json: { sso: { name: 'Example ID', url: '/api/sign-in/sso' } } }),
  );
  await open(page, `${dev.url}/#sign-in-error=signed_in_as_another`);
  await page.getByRole('heading', { name: 'The sign-in failed' }).waitFor();
  await page.getByRole('alert').getByText('another user than in this browser').waitFor();
  const other = page.getByRole('link', { name: 'Sign in as another user' });
  await eventually(async () => assert.equal(await other.getAttribute('href'), '/api/sign-in/sso?replace=true'));
  await accessible(page, 'a failed sign-in of a user who is signed in');
  await button(page, 'Stay signed in as demo').click();
  await message(page).waitFor();
  await context.close();
});

test('an identity provider has a button, which leads back to the page', { skip }, async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await page.route('**/api/sign-in', (route) =>
    route.fulfill({ json: { sso: { name: 'Example ID', url: '/api/sign-in/sso' } } }),
  );
  await page.goto(`${dev.url}/settings?part=keys`);
  const link = page.getByRole('link', { name: 'Sign in with Example ID' });
  await eventually(async () =>
    assert.equal(await link.getAttribute('href'), '/api/sign-in/sso?returnTo=%2Fsettings%3Fpart%3Dkeys'),
  );
  await page.getByLabel('API key').waitFor();
  await accessible(page, 'the sign-in page with an identity provider');
  // Without an answer, there is still the key.
  await page.route('**/api/sign-in', (route) => route.abort());
  await page.reload();
  await page.getByLabel('API key').waitFor();
  await eventually(async () => assert.equal(await link.count(), 0));
  await context.close();
});

test('a user sees where they are signed in, and signs out there', { skip }, async () => {
  const fay = another(dev, 'fay');
  const [first, second, third] = [
    await signedIn(browser, fay, { bypassCSP: true }),
    await signedIn(browser, fay),
    await signedIn(browser, fay),
  ];
  const { page } = first;
  await page.goto(`${dev.url}/settings?part=sessions`);
  const rows = page.locator('tbody').getByRole('row');
  await until('all are listed', async () => (await rows.count()) === 3);
  await rows.filter({ hasText: 'This browser' }).getByText('Sign-in link').waitFor();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the sessions, ${colorScheme}`);
  }
  // The newest is listed first.
  await rows
    .first()
    .getByRole('button', { name: /^Sign out: Chrome on/ })
    .click();
  await until('it is gone', async () => (await rows.count()) === 2);
  await third.page.reload();
  await third.page.getByLabel('API key').waitFor();
  await second.page.reload();
  await message(second.page).waitFor();
  await button(page, 'Sign out everywhere else').click();
  await agree(page, 'Sign out elsewhere');
  await page.getByText('Signed out in 1 other browser.').waitFor();
  await until('only this one is left', async () => (await rows.count()) === 1);
  await second.page.reload();
  await second.page.getByLabel('API key').waitFor();
  await button(page, 'Sign out: this browser').click();
  await page.getByLabel('API key').waitFor();
  for (const { context } of [first, second, third]) await context.close();
});
