// Accounts at MCP servers, in a real browser over a real `rejoin dev`. What the API answers about them is played here, by interception: this is
// about what the page shows and sends.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

const LOGIN = 'https://login.example';
const OPTIONS = { bypassCSP: true, viewport: { width: 1280, height: 900 } };
const SERVER = '01920000-0000-7000-8000-000000000001';

const problem = (status, code, detail) => ({
  status,
  contentType: 'application/problem+json',
  body: JSON.stringify({ code, detail }),
});

/** The page of accounts. `requests`: what it has sent; `account`: the one at the server. */
async function opened(back = (state) => `state=${state}&code=a-code&iss=${encodeURIComponent(LOGIN)}`) {
  const { context, page, faults } = await signedIn(browser, dev, OPTIONS);
  const account = { serverId: SERVER, serverName: 'tracker', connected: false };
  const requests = [];
  const said = {};
  await page.route('**/api/mcp-accounts**', (route) => {
    const method = route.request().method();
    if (method === 'GET') return route.fulfill({ json: { items: [account] } });
    requests.push([method, new URL(route.request().url()).pathname]);
    if (method === 'POST') return route.fulfill({ status: 201, json: { url: `${LOGIN}/authorize?state=s1` } });
    account.connected = false;
    return route.fulfill({ status: 204 });
  });
  await page.route('**/api/mcp-consents', (route) => {
    requests.push(['POST /consents', route.request().postDataJSON()]);
    if (said.refusal) return route.fulfill(said.refusal);
    account.connected = true;
    account.authorizedAt = new Date().toISOString();
    return route.fulfill({ json: account });
  });
  // The authorization server's page, where people agree at once.
  await context.route(`${LOGIN}/**`, (route) => {
    const address = `${dev.url}/mcp/connect?${back(new URL(route.request().url()).searchParams.get('state'))}`;
    return route.fulfill({
      contentType: 'text/html',
      body: `<script>location.replace(${JSON.stringify(address)})</script>`,
    });
  });
  await page.goto(`${dev.url}/mcp/connect?server=${SERVER}`);
  await page.getByText('not connected').waitFor();
  return { context, page, faults, requests, said };
}

const button = (page, name) => page.getByRole('button', { name, exact: true });

test('an account is connected at its authorization server, and disconnected', { skip }, async () => {
  const { context, page, faults, requests } = await opened();
  await accessible(page, 'not connected');
  await button(page, 'Connect').click();
  await page.getByRole('status').getByText('Your account at tracker is connected').waitFor();
  assert.deepEqual(requests, [
    ['POST', `/api/mcp-accounts/${SERVER}`],
    ['POST /consents', { state: 's1', code: 'a-code', iss: LOGIN }],
  ]);
  assert.equal(page.url(), `${dev.url}/mcp/connect`, 'the address has not kept the code');
  await button(page, 'Disconnect').click();
  await page.getByText('not connected').waitFor();
  assert.deepEqual(requests[2], ['DELETE', `/api/mcp-accounts/${SERVER}`]);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a refusal is explained, and the account stays as it was', { skip }, async () => {
  const { context, page, requests, said } = await opened((state) => `state=${state}&error=access_denied`);
  said.refusal = problem(400, 'consent_refused', 'access was not granted, so no account was connected');
  await button(page, 'Connect').click();
  await page.getByText('To try again, connect it below.').waitFor();
  assert.deepEqual(requests[1], ['POST /consents', { state: 's1', error: 'access_denied' }]);
  await page.getByText('not connected').waitFor();
  await context.close();
});
