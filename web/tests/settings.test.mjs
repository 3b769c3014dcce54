// What admins set on the page, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { signedIn } from './support/browser.mjs';
import { until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

/** What the API says to whoever comes with this key. */
const status = async (key, path = '/api/conversations', method = 'GET') =>
  (await fetch(dev.url + path, { method, headers: { authorization: `Bearer ${key}` } })).status;

test('a key is made, shown once, lets its holder in as far as it may, and is revoked', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/settings?part=keys`);
  await page.getByLabel('Key name').fill('for the crawler');
  await page.getByRole('button', { name: 'Create key' }).click();
  const shown = page.getByRole('status').filter({ hasText: 'It will not be shown again' });
  const key = await shown.locator('code').innerText();
  assert.equal(await status(key), 200);
  assert.equal(await status(key, `/api/admin/projects/${dev.projectId}/keys`), 403, 'it may look, and no more');
  const row = page.getByRole('row', { name: /for the crawler/ });
  assert.match(await row.innerText(), /read/);
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(
    serious.map(({ id, nodes }) => [id, nodes.map((node) => node.html).slice(0, 5)]),
    [],
  );
  await page.reload();
  await row.waitFor();
  assert.equal((await page.locator('body').innerText()).includes(key), false, 'it is shown once');
  page.once('dialog', (dialog) => dialog.accept());
  await row.getByRole('button', { name: 'Revoke for the crawler' }).click();
  await row.getByText('revoked').waitFor();
  await until('nobody is let in with it', async () => (await status(key)) === 401);
  assert.deepEqual(faults, []);
  await context.close();
});

test('what was used up today is shown beside what is allowed', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  const posted = await dev.api('/api/chat/stream', { method: 'POST', body: { message: 'hello' } });
  assert.equal(posted.status, 202, JSON.stringify(posted.body));
  await page.goto(`${dev.url}/settings?part=usage`);
  await page.getByRole('row', { name: /^Runs started 1 Unlimited/ }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});
