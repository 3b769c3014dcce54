// The frame of all views: the sidebar, the command palette, the shortcuts and the themes. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { accessible, answer, ask, finished, signedIn } from './support/browser.mjs';
import { storyReply } from './support/chat.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { model, dev, browser } = await stage((messages) => storyReply(String(messages.at(-1).content), { long: 400 }));

const chats = (page) => page.getByRole('navigation', { name: 'Chats' });
const views = (page) => page.getByRole('navigation', { name: 'Views', exact: true });
const palette = (page) => page.getByRole('dialog', { name: 'Search and commands' });
const focused = (page) => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');

test('chats are listed by day, those at work first, with a mark', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await dev.api('/api/conversations', { method: 'POST', body: { title: 'An idle chat' } });
  const goOn = model.hold('a story of long');
  await ask(page, 'a story of long');
  await answer(page).locator('.markdown').waitFor();
  const running = chats(page).getByRole('region', { name: 'Running' });
  await running.getByRole('link', { name: /a story of long/ }).waitFor();
  await running.getByRole('img', { name: 'Running' }).waitFor();
  await chats(page).getByRole('region', { name: 'Today' }).getByRole('link', { name: 'An idle chat' }).waitFor();
  goOn();
  await finished(page);
  await running.waitFor({ state: 'detached' });
  await context.close();
});

test('a list of chats is one stop of the Tab key, and arrows walk it', { skip }, async () => {
  for (const title of ['First', 'Second', 'Third'])
    await dev.api('/api/conversations', { method: 'POST', body: { title } });
  const { context, page } = await signedIn(browser, dev);
  const link = (name) => chats(page).getByRole('link', { name, exact: true });
  const isFocused = (locator) => locator.evaluate((element) => element === document.activeElement);
  await link('Third').waitFor();
  await chats(page).getByRole('searchbox').focus();
  await page.keyboard.press('Tab');
  await eventually(async () => assert.ok(await isFocused(link('Third'))));
  await page.keyboard.press('ArrowDown');
  await eventually(async () => assert.ok(await isFocused(link('Second'))));
  await page.keyboard.press('ArrowRight');
  await eventually(async () => assert.equal(await focused(page), 'Actions for Second'));
  await page.keyboard.press('Enter');
  const rename = page.getByRole('menuitem', { name: 'Rename' });
  await rename.waitFor();
  await page.keyboard.press('Escape');
  await rename.waitFor({ state: 'detached' });
  await until('the focus is back at the button', async () => (await focused(page)) === 'Actions for Second');
  await page.keyboard.press('Tab');
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.activeElement?.closest('[aria-label="Views"]') !== null), true),
  );
  await context.close();
});

test('the palette finds views, chats and actions, by keys alone', { skip }, async () => {
  await dev.api('/api/conversations', { method: 'POST', body: { title: 'About a needle' } });
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await page.keyboard.press('Control+k');
  await palette(page).getByRole('option', { name: 'New chat' }).waitFor();
  await accessible(page, 'the palette');
  await page.keyboard.type('operat');
  await palette(page).getByRole('option', { name: 'Operations' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/operations$/);
  await palette(page).waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search views' }).waitFor();
  await page.keyboard.type('needle');
  await palette(page).getByRole('option', { name: 'About a needle' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'About a needle' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search views' }).waitFor();
  await page.keyboard.type('high contrast');
  await page.keyboard.press('Enter');
  await eventually(async () => assert.equal(await page.locator('html').getAttribute('data-contrast'), 'more'));
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search views' }).waitFor();
  await page.keyboard.type('nothing is called this');
  await palette(page).getByText('No results for').waitFor();
  await page.keyboard.press('Escape');
  await palette(page).waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
  await context.close();
});

test('shortcuts lead to views, and letters in a field are only text', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.goto(`${dev.url}/runs`);
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('p');
  await page.waitForURL(/\/work$/);
  await page.keyboard.press('?');
  const keys = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
  await keys.getByText('Search and commands').waitFor();
  await page.keyboard.press('Escape');
  await keys.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+Shift+o');
  await page.waitForURL((url) => url.pathname === '/');
  const field = page.getByRole('textbox', { name: 'Message' });
  await field.fill('');
  await page.keyboard.type('gp?');
  await eventually(async () => assert.equal(await field.inputValue(), 'gp?'));
  assert.equal(new URL(page.url()).pathname, '/');
  await context.close();
});

test('the sidebar is hidden and shown, also after a reload', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.getByRole('button', { name: 'Hide sidebar' }).click();
  await views(page).waitFor({ state: 'hidden' });
  await page.reload();
  await page.getByRole('button', { name: 'Show sidebar' }).waitFor();
  await eventually(async () => assert.equal(await views(page).isVisible(), false));
  await page.keyboard.press('Control+Shift+s');
  await views(page).waitFor();
  await context.close();
});

test('a bar above each page shows its place, and leads back', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of places');
  await finished(page);
  await answer(page).getByRole('link', { name: 'View trace' }).click();
  const crumbs = page.getByRole('navigation', { name: 'Breadcrumbs' });
  await crumbs.getByText(/^Run of/).waitFor();
  await eventually(async () =>
    assert.deepEqual((await crumbs.getByRole('listitem').allInnerTexts()).slice(0, 2), ['Observe', 'Runs']),
  );
  await crumbs.getByRole('link', { name: 'Runs' }).click();
  await page.waitForURL(/\/runs$/);
  await context.close();
});

test('a member who is not an admin sees the chats and the workspace', { skip }, async () => {
  const made = await dev.api(`/api/admin/projects/${dev.projectId}/keys`, {
    method: 'POST',
    body: { name: 'member', scopes: ['read', 'write'] },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { context, page } = await signedIn(browser, { url: dev.url, apiKey: made.body.key });
  await eventually(async () =>
    assert.deepEqual(await views(page).getByRole('link').allInnerTexts(), ['Projects', 'Calendar', 'Knowledge graph']),
  );
  await page.goto(`${dev.url}/settings`);
  await page.getByRole('group', { name: 'Theme' }).getByRole('radio', { name: 'Dark' }).check();
  await eventually(async () => assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark'));
  await context.close();
});

test('the contrast follows the device, or what is chosen', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const contrast = () => page.locator('html').getAttribute('data-contrast');
  await eventually(async () => assert.equal(await contrast(), 'less'));
  await page.emulateMedia({ contrast: 'more' });
  await until('the page follows', async () => (await contrast()) === 'more');
  await page.goto(`${dev.url}/settings`);
  await page.getByRole('group', { name: 'Contrast' }).getByRole('radio', { name: 'Normal' }).check();
  await eventually(async () => assert.equal(await contrast(), 'less'));
  await page.reload();
  await page.getByRole('group', { name: 'Contrast' }).waitFor();
  await eventually(async () => assert.equal(await contrast(), 'less'));
  await context.close();
});

test('a new chat begins with a suggestion', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  const suggestions = page.getByRole('list', { name: 'Suggestions' });
  const first = suggestions.getByRole('button').first();
  const words = await first.innerText();
  await first.click();
  await page.getByRole('article', { name: 'You' }).getByText(words).waitFor();
  await finished(page);
  await context.close();
});

test('one who has scrolled away stays there, and a button leads to the end', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 900, height: 420 } });
  const goOn = model.hold('a story of long', 0.4);
  await ask(page, 'a story of long');
  await answer(page).getByText('long120 ').waitFor();
  const log = page.getByRole('log', { name: 'Messages' });
  await log.evaluate((element) => element.scrollTo({ top: 0 }));
  const jump = page.getByRole('button', { name: 'Jump to the newest' });
  await jump.waitFor();
  goOn();
  await answer(page).getByText('long180 ').waitFor();
  await eventually(async () => assert.equal(await log.evaluate((element) => element.scrollTop), 0));
  await jump.click();
  await jump.waitFor({ state: 'detached' });
  await finished(page);
  await eventually(async () =>
    assert.ok(await log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 80)),
  );
  await context.close();
});

test('a chat is exported, and answered again in a branch', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await ask(page, 'a story of exports');
  await finished(page);
  const before = page.url();
  await page.getByRole('button', { name: 'Chat actions' }).click();
  const download = page.waitForEvent('download');
  await page.getByRole('menuitem', { name: 'Export as Markdown' }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'a-story-of-exports.md');
  assert.match(
    readFileSync(await file.path(), 'utf8'),
    /^# a story of exports\n\n## User \([^)]+\)\n\na story of exports\n\n## /,
  );
  await page.getByRole('button', { name: 'Regenerate in a new branch' }).click();
  await page.waitForURL((url) => url.href !== before && url.pathname.startsWith('/c/'));
  await page.getByRole('heading', { level: 1, name: 'Branch: a story of exports' }).waitFor();
  await finished(page);
  await context.close();
});
