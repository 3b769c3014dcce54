// What admins set on the page, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { agree, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion, story, storyReply } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { startMcp } from './support/mcp.mjs';
import { skip, stage } from './support/stage.mjs';

function reply(messages) {
  const text = lastQuestion(messages);
  return text.includes('story of') ? storyReply(text) : { text: 'Well.' };
}

const { dev, browser } = await stage(reply);

/** The status of the API's response to a request with this key. */
const status = async (key, path = '/api/conversations', method = 'GET') =>
  (await fetch(dev.url + path, { method, headers: { authorization: `Bearer ${key}` } })).status;

test('a key is made, shown once, lets its holder in as far as it may, and is revoked', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.goto(`${dev.url}/settings?part=keys`);
  await page.getByLabel('Key name').fill('for the crawler');
  await page.getByRole('button', { name: 'Create key' }).click();
  const shown = page.getByRole('status').filter({ hasText: 'It will not be shown again' });
  const key = await shown.locator('code').innerText();
  await eventually(async () => assert.equal(await status(key), 200));
  await eventually(async () =>
    assert.equal(await status(key, `/api/admin/projects/${dev.projectId}/keys`), 403, 'it may look, and no more'),
  );
  const row = page.getByRole('row', { name: /for the crawler/ });
  await eventually(async () => assert.match(await row.innerText(), /read/));
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'));
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(
    serious.map(({ id, nodes }) => [id, nodes.map((node) => node.html).slice(0, 5)]),
    [],
  );
  await page.reload();
  await row.waitFor();
  await eventually(async () =>
    assert.equal((await page.locator('body').innerText()).includes(key), false, 'it is shown once'),
  );
  await row.getByRole('button', { name: 'Revoke for the crawler' }).click();
  await agree(page, 'Revoke key');
  await row.getByText('revoked').waitFor();
  await until('the key is refused', async () => (await status(key)) === 401);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a program that serves tools is listed with its health', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/settings?part=programs`);
  await page.getByText('No programs of yours serve tools.').waitFor();
  const tool = { name: 'refund', description: 'Refunds an order.', inputSchema: { type: 'object' } };
  const body = { name: 'billing', version: '1.4.0', language: 'python', slots: 4, tools: [tool] };
  const registered = await dev.api('/api/workers/default/registrations', { method: 'POST', body });
  assert.equal(registered.status, 201, JSON.stringify(registered.body));
  await page.getByRole('row', { name: /billing python 1.4.0 active default refund@1 0 of 4/ }).waitFor();
  const path = `/api/workers/default/registrations/${registered.body.workerId}`;
  assert.equal((await dev.api(path, { method: 'DELETE' })).status, 204);
  await page.getByText('No programs of yours serve tools.').waitFor();
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

test('an agent is made, changed, and asked', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByRole('link', { name: 'Agents', exact: true }).click();
  await page.getByRole('link', { name: 'New agent' }).click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('teller');
  await page.getByRole('textbox', { name: 'Other configuration' }).fill('{');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('The configuration is not valid JSON').waitFor();
  await page.getByRole('textbox', { name: 'Other configuration' }).fill('{}');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('link', { name: 'teller' }).waitFor();
  await page.getByRole('textbox', { name: 'Test message' }).fill('a story of trials');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await eventually(async () => assert.equal((await finished(page)).join(''), story('trials')));
  await page.getByRole('textbox', { name: 'Description', exact: true }).fill('Tells stories.');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const { body } = await dev.api(`/api/projects/${dev.projectId}/agents`);
  assert.equal(body.items.find((one) => one.name === 'teller').description, 'Tells stories.');
  await page.getByRole('link', { name: 'New chat' }).click();
  await page.getByLabel('Agent', { exact: true }).selectOption('teller');
  await ask(page, 'a story of tellers');
  await eventually(async () => assert.equal((await finished(page)).join(''), story('tellers')));
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
  const saved = page.waitForResponse(
    (response) => response.request().method() !== 'GET' && response.url().includes('/mcp-servers/'),
  );
  await page.getByRole('button', { name: 'Save' }).click();
  await saved;
  await page.getByRole('button', { name: 'Test' }).click();
  await page.getByText('The test failed.').waitFor();
  await page.getByRole('button', { name: 'Remove' }).click();
  await agree(page, 'Remove server');
  await page.getByText('No MCP servers yet').waitFor();
  await context.close();
  await mcp.stop();
});

test('a project keeps its last owner, and says so', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/settings?part=members`);
  await page.getByLabel('Role of demo').selectOption('viewer');
  await page.getByRole('alert').getByText('owner').waitFor();
  await eventually(async () => assert.equal(await page.getByLabel('Role of demo').inputValue(), 'owner'));
  await context.close();
});
