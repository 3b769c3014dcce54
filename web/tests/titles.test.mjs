// Titles that a model writes after the first answer, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask, finished, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const asksForTitle = (messages) => String(messages[0].content).includes('the title of a conversation');
const { dev, browser, model } = await stage(
  (messages) => ({ text: asksForTitle(messages) ? '"Upgrading the TLS library."' : 'With apt.', paceMs: 0 }),
  { workers: 1, env: { REJOIN_TITLE_MODEL: 'default' } },
);

test('a title that a model writes is shown without a reload', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev);
  const chats = page.getByRole('navigation', { name: 'Chats' });
  const [first, written] = ['How do I upgrade libssl3?', 'Upgrading the TLS library'];
  const release = model.hold('the title of a conversation', 0);
  await ask(page, first);
  await finished(page);
  await chats.getByRole('link', { name: first, exact: true }).waitFor();
  await page.getByRole('heading', { level: 1, name: first, exact: true }).waitFor();
  await page.evaluate(() => {
    globalThis.isSamePage = true;
  });
  release();
  await chats.getByRole('link', { name: written, exact: true }).waitFor();
  await page.getByRole('heading', { level: 1, name: written, exact: true }).waitFor();
  await eventually(async () => assert.equal(await page.title(), `${written} · Rejoin`));
  await eventually(async () => assert.equal(await chats.getByRole('link', { name: first, exact: true }).count(), 0));
  assert.equal(await page.evaluate(() => globalThis.isSamePage), true, 'the page was not loaded again');
  assert.deepEqual(faults, []);
  await context.close();
});
