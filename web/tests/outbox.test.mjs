// What the user has written is never lost: messages while the server is away, answers of it that are lost, drafts. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, finished, signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

const field = (page) => page.getByRole('textbox', { name: 'Message', exact: true });
const button = (page, name) => page.getByRole('button', { name, exact: true });
const mine = (page, words) => page.getByRole('article', { name: 'You', exact: true }).filter({ hasText: words });
const conversationOf = (page) => page.url().split('/c/')[1];

/** The user's messages that are stored in a conversation. */
async function storedMessages(conversation) {
  const { body } = await dev.api(`/api/conversations/${conversation}/messages?limit=100`);
  return body.items.filter(({ role }) => role === 'user').map(({ content }) => content);
}

/** How many runs were asked this. */
async function runsOf(words) {
  const { body } = await dev.api(`/api/projects/${dev.projectId}/agent-runs?limit=100`);
  const runs = await Promise.all(body.items.map(({ id }) => dev.api(`/api/runs/${id}`)));
  return runs.filter((run) => run.body.input === words).length;
}

test('messages that are written while the server is away are kept through the page, and stored once and in order when it is back', {
  skip,
  timeout: 180_000,
}, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  const conversation = conversationOf(page);
  await dev.halt();
  await ask(page, 'first while away');
  await mine(page, 'first while away').waitFor();
  await eventually(async () => assert.equal(await field(page).inputValue(), ''));
  await ask(page, 'second while away');
  await mine(page, 'second while away').waitFor();
  await mine(page, 'first while away').getByText('Not sent.').waitFor();
  await page.getByRole('link', { name: 'New chat' }).click();
  await ask(page, 'the first of its own');
  await ask(page, 'the second of its own');
  await mine(page, 'the second of its own').waitFor();
  await mine(page, 'the first of its own').getByText('Not sent.').waitFor();
  // A view that was not loaded yet can't be shown now; the page stays.
  await page.getByRole('link', { name: 'Calendar', exact: true }).click();
  await page.getByText("Can't reach the server.").waitFor();
  await button(page, 'Retry').click();
  await page.getByText("Can't reach the server.").waitFor();
  await page.getByRole('link', { name: 'New chat' }).click();
  await field(page).fill('a draft');
  await page.reload().catch(() => {});
  await eventually(async () => assert.equal(await field(page).count(), 0, 'the page is gone'));

  await dev.resume();
  const [one, other] = [await context.newPage(), await context.newPage()];
  await Promise.all([
    page.goto(`${dev.url}/c/${conversation}`),
    one.goto(`${dev.url}/c/${conversation}`),
    other.goto(dev.url),
  ]);
  await until('all is stored', async () => (await storedMessages(conversation)).length === 3);
  await eventually(async () =>
    assert.deepEqual(await storedMessages(conversation), ['hello', 'first while away', 'second while away']),
  );
  const { body } = await dev.api('/api/conversations?limit=100');
  const begun = body.items.filter(({ title }) => title.endsWith('of its own'));
  assert.equal(begun.length, 1, JSON.stringify(begun));
  await until('the new one is stored, too', async () => (await storedMessages(begun[0].id)).length === 2);
  await eventually(async () =>
    assert.deepEqual(await storedMessages(begun[0].id), ['the first of its own', 'the second of its own']),
  );
  await finished(page);
  for (const words of ['first while away', 'second while away', 'the first of its own', 'the second of its own'])
    await eventually(async () => assert.equal(await runsOf(words), 1, words));
  // It is shown once, too, in every tab; and what was being written is there.
  for (const tab of [page, one]) {
    await mine(tab, 'second while away').waitFor();
    await tab.getByText('Not sent').waitFor({ state: 'detached' });
    await eventually(async () => assert.equal(await mine(tab, 'first while away').count(), 1));
  }
  await eventually(async () => assert.equal(await field(other).inputValue(), 'a draft'));
  await context.close();
});

test('a message whose answer is lost is stored once', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  let lost = 0;
  await page.route('**/api/chat/stream*', async (route) => {
    if (lost > 0) return route.fallback();
    lost += 1;
    // The server has taken it, and the page never hears of that.
    await route.fetch();
    await route.abort();
  });
  await ask(page, 'said once');
  await page.waitForURL(/\/c\//);
  await finished(page);
  assert.equal(lost, 1);
  await eventually(async () => assert.deepEqual(await storedMessages(conversationOf(page)), ['said once']));
  await eventually(async () => assert.equal(await runsOf('said once'), 1));
  await eventually(async () => assert.equal(await mine(page, 'said once').count(), 1));
  await context.close();
});

test('a message that the server refuses is sent again or deleted, and those behind it wait', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  const refusal = {
    status: 403,
    contentType: 'application/problem+json',
    body: JSON.stringify({ code: 'quota_exceeded', detail: 'Nothing is left for today.' }),
  };
  await page.route('**/api/chat/stream*', (route) => route.fulfill(refusal));
  await ask(page, 'refused once');
  await mine(page, 'refused once').getByText('Nothing is left for today.').waitFor();
  await ask(page, 'not any more');
  await ask(page, 'behind it');
  await mine(page, 'behind it').getByText('Waiting for the previous message.').waitFor();
  // It stays through a reload.
  await page.reload();
  await mine(page, 'refused once').getByText('Not sent.').waitFor();
  await page.unroute('**/api/chat/stream*');
  await page.locator('.unsent').filter({ hasText: 'not any more' }).waitFor();
  await eventually(async () => assert.deepEqual(await storedMessages(conversationOf(page)), ['hello']));
  await mine(page, 'refused once').getByRole('button', { name: 'Retry' }).click();
  await until('all is stored', async () => (await storedMessages(conversationOf(page))).length === 4);
  await eventually(async () =>
    assert.deepEqual(await storedMessages(conversationOf(page)), [
      'hello',
      'refused once',
      'not any more',
      'behind it',
    ]),
  );
  await page.route('**/api/chat/stream*', (route) => route.fulfill(refusal));
  await ask(page, 'deleted');
  await mine(page, 'deleted').getByRole('button', { name: 'Delete' }).click();
  await mine(page, 'deleted').waitFor({ state: 'detached' });
  await eventually(async () =>
    assert.equal(
      await page.evaluate(() => Object.keys(localStorage).filter((key) => key.includes('.outbox.')).length),
      0,
    ),
  );
  await context.close();
});

test('a browser without room keeps the text in the field until the server has it, and says so', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  await page.evaluate(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError');
    };
  });
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route('**/api/chat/stream*', async (route) => {
    await held;
    await route.fallback();
  });
  await ask(page, 'without room');
  await page.getByText('its storage is full or blocked').waitFor();
  await eventually(async () => assert.equal(await field(page).inputValue(), 'without room'));
  release();
  await until('the field is empty', async () => (await field(page).inputValue()) === '');
  await eventually(async () => assert.deepEqual(await storedMessages(conversationOf(page)), ['hello', 'without room']));
  await page.unroute('**/api/chat/stream*');
  await page.route('**/api/chat/stream*', (route) =>
    route.fulfill({
      status: 400,
      contentType: 'application/problem+json',
      body: JSON.stringify({ code: 'no', detail: 'Not like this.' }),
    }),
  );
  await ask(page, 'refused without room');
  await page.getByRole('alert').getByText('Not like this.').waitFor();
  await eventually(async () => assert.equal(await field(page).inputValue(), 'refused without room'));
  await context.close();
});

test('what is being written is kept per conversation, through other views and reloads', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'hello');
  await finished(page);
  const conversation = page.url();
  await field(page).fill('the next question');
  await page
    .getByLabel('Attach files')
    .setInputFiles({ name: 'notes.md', mimeType: 'text/plain', buffer: Buffer.from('a line') });
  await page.getByText('6 characters').waitFor();
  await page.getByRole('link', { name: 'New chat' }).click();
  await page.waitForURL((url) => url.pathname === '/');
  await eventually(async () => assert.equal(await field(page).inputValue(), '', 'what was sent is no draft'));
  await field(page).fill('another question');
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await page.getByRole('link', { name: 'New chat' }).click();
  await until('it is there', async () => (await field(page).inputValue()) === 'another question');
  await page.reload();
  await until('it is there', async () => (await field(page).inputValue()) === 'another question');
  await page.goto(conversation);
  await until('the other is there', async () => (await field(page).inputValue()) === 'the next question');
  await page.getByText('6 characters').waitFor();
  await field(page).press('Enter');
  await mine(page, 'the next question').getByText('notes.md').first().waitFor();
  await finished(page);
  await page.reload();
  await finished(page);
  await eventually(async () => assert.equal(await field(page).inputValue(), ''));
  await context.close();
});
