// The list of chats: how it is arranged, several chats at once, the search over messages, and what is unread. In a real browser over a real
// `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, agree, answer, ask, finished, signedIn } from './support/browser.mjs';
import { lastQuestion } from './support/chat.mjs';
import { chronicle } from './support/database.mjs';
import { eventually, until } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage((messages) =>
  lastQuestion(messages).includes('zanzibar')
    ? { text: 'The <b>Zanzibar</b> papers are upstairs.', paceMs: 0 }
    : { text: 'Well.', paceMs: 0 },
);

const chats = (page) => page.getByRole('navigation', { name: 'Chats' });
const group = (page, name) => chats(page).getByRole('region', { name, exact: true });
const link = (page, name) => chats(page).getByRole('link', { name, exact: true });
const button = (page, name) => chats(page).getByRole('button', { name, exact: true });
const box = (page, name) => chats(page).getByRole('checkbox', { name, exact: true });
const dialog = (page, name) => page.getByRole('dialog', { name, exact: true });
const notice = (page, words) => page.getByRole('status', { name: 'Notices' }).getByText(words, { exact: true });
const search = (page) => chats(page).getByRole('searchbox', { name: 'Search chats' });

/** The title of the row that has the focus. */
const focusedRow = (page) =>
  page.evaluate(() => document.activeElement?.closest('[data-row]')?.querySelector('.name')?.textContent ?? '');

async function chat(title) {
  const made = await dev.api('/api/conversations', { method: 'POST', body: { title } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.id;
}

const stored = async (id) => (await dev.api(`/api/conversations/${id}`)).body;

/** Chooses what is done with a chat, in its menu. */
async function choose(page, title, item) {
  await link(page, title).hover();
  await button(page, `Actions for ${title}`).click();
  await page.getByRole('menuitem', { name: item, exact: true }).click();
}

async function listOption(page, item) {
  await button(page, 'List options').click();
  await page.getByRole('menuitem', { name: item, exact: true }).click();
}

test('a chat is pinned, archived and restored by its menu, and the focus stays in the list', { skip }, async () => {
  const alpha = await chat('Alpha');
  const beta = await chat('Beta');
  await chat('Gamma');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await choose(page, 'Beta', 'Pin');
  await group(page, 'Pinned').getByRole('link', { name: 'Beta', exact: true }).waitFor();
  await until('the focus is at the pinned chat', async () => (await focusedRow(page)) === 'Beta');
  await eventually(async () => assert.equal((await stored(beta)).marks.pinned, true));
  await eventually(async () =>
    assert.equal(await chats(page).getByRole('region').first().getAttribute('aria-label'), 'Pinned'),
  );
  await choose(page, 'Beta', 'Unpin');
  await group(page, 'Pinned').waitFor({ state: 'detached' });

  await choose(page, 'Beta', 'Archive');
  await notice(page, 'Chat archived.').waitFor();
  await link(page, 'Beta').waitFor({ state: 'detached' });
  await until('the focus is at the neighbour', async () => (await focusedRow(page)) === 'Alpha');
  await choose(page, 'Alpha', 'Archive');
  await link(page, 'Alpha').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await stored(alpha)).marks.archived, true));

  await listOption(page, 'Archived chats');
  await group(page, 'Archived chats').getByRole('link', { name: 'Alpha', exact: true }).waitFor();
  await eventually(async () => assert.equal(await link(page, 'Gamma').count(), 0));
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `archived chats, ${colorScheme}`);
  }
  await choose(page, 'Alpha', 'Unarchive');
  await choose(page, 'Beta', 'Unarchive');
  await chats(page).getByText('No archived chats.').waitFor();
  await button(page, 'Back to all chats').click();
  await link(page, 'Alpha').waitFor();
  await until('the focus is in the list', async () => (await focusedRow(page)) !== '');
  assert.deepEqual(faults, []);
  await context.close();
});

test('after a deletion the focus goes to the neighbour, after a cancelled one it stays', { skip }, async () => {
  for (const title of ['Third left', 'Second left', 'First left']) await chat(title);
  const { context, page } = await signedIn(browser, dev);
  await choose(page, 'Second left', 'Delete');
  await dialog(page, 'Delete “Second left”?').waitFor();
  await page.keyboard.press('Escape');
  await dialog(page, 'Delete “Second left”?').waitFor({ state: 'detached' });
  await until('the focus is at the chat', async () => (await focusedRow(page)) === 'Second left');
  await choose(page, 'Second left', 'Delete');
  await agree(page, 'Delete chat');
  await link(page, 'Second left').waitFor({ state: 'detached' });
  await until('the focus is at the neighbour', async () => (await focusedRow(page)) === 'Third left');
  await page.keyboard.press('ArrowUp');
  await eventually(async () => assert.equal(await focusedRow(page), 'First left'));
  await context.close();
});

test('folders are created, opened, renamed and deleted, and keep their chats', { skip }, async () => {
  const id = await chat('To be filed');
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await listOption(page, 'New folder');
  const name = dialog(page, 'New folder').getByRole('textbox', { name: 'Name' });
  await until('the field has the focus', () => name.evaluate((element) => element === document.activeElement));
  await page.keyboard.type('Work');
  await page.keyboard.press('Enter');
  await button(page, 'Work').waitFor();
  // A name that is taken is an error in the dialog, and nothing that was typed is lost.
  await listOption(page, 'New folder');
  await name.fill('Work');
  await dialog(page, 'New folder').getByRole('button', { name: 'Create folder' }).click();
  await dialog(page, 'New folder').getByRole('alert').getByText('you already have a folder named Work').waitFor();
  await eventually(async () => assert.equal(await name.inputValue(), 'Work'));
  await accessible(page, 'the dialog of a new folder');
  await page.keyboard.press('Escape');
  await dialog(page, 'New folder').waitFor({ state: 'detached' });

  await choose(page, 'To be filed', 'Move to folder');
  await dialog(page, 'Move “To be filed”').getByRole('radio', { name: 'Work' }).check();
  await dialog(page, 'Move “To be filed”').getByRole('button', { name: 'Move' }).click();
  await link(page, 'To be filed').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await button(page, 'Work').getAttribute('aria-expanded'), 'false'));
  await button(page, 'Work').click();
  const inside = (folder) => group(page, `Folder ${folder}`).getByRole('link', { name: 'To be filed', exact: true });
  await inside('Work').waitFor();
  await page.reload();
  await inside('Work').waitFor();
  await accessible(page, 'an open folder');

  await button(page, 'Work').hover();
  await button(page, 'Actions for the folder Work').click();
  await page.getByRole('menuitem', { name: 'Rename folder' }).click();
  await dialog(page, 'Rename folder').getByRole('textbox', { name: 'Name' }).fill('Home');
  await dialog(page, 'Rename folder').getByRole('button', { name: 'Rename folder' }).click();
  await inside('Home').waitFor();

  // A new folder can be created while a chat is moved.
  await choose(page, 'To be filed', 'Move to folder');
  const move = dialog(page, 'Move “To be filed”');
  await eventually(async () => assert.equal(await move.getByRole('radio', { name: 'Home' }).isChecked(), true));
  await move.getByRole('radio', { name: 'New folder' }).check();
  await move.getByRole('textbox', { name: 'Name of the new folder' }).fill('Garden');
  await move.getByRole('button', { name: 'Move' }).click();
  await button(page, 'Garden').click();
  await inside('Garden').waitFor();
  await group(page, 'Folder Home').getByText('No chats in this folder.').waitFor();

  await button(page, 'Garden').hover();
  await button(page, 'Actions for the folder Garden').click();
  await page.getByRole('menuitem', { name: 'Delete folder' }).click();
  await dialog(page, 'Delete the folder “Garden”?').getByText('Its chat is kept, without a folder.').waitFor();
  await agree(page, 'Delete folder');
  await button(page, 'Garden').waitFor({ state: 'detached' });
  await group(page, 'Today').getByRole('link', { name: 'To be filed', exact: true }).waitFor();
  await eventually(async () => assert.equal((await stored(id)).marks.folderId, null));
  // What was refused here was asked for.
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('409')),
    [],
  );
  await context.close();
});

test('several chats are selected by keys and by the pointer, and changed together', { skip }, async () => {
  const ids = new Map();
  for (const nth of [5, 4, 3, 2, 1]) ids.set(nth, await chat(`Item ${nth}`));
  const { context, page, faults } = await signedIn(browser, dev, { bypassCSP: true });
  await link(page, 'Item 1').waitFor();
  await listOption(page, 'Select chats');
  const selected = chats(page).getByRole('group', { name: 'Selected chats' });
  await selected.getByText('Select chats.').waitFor();
  await until('the focus is at a check box', () =>
    page.evaluate(() => document.activeElement?.getAttribute('type') === 'checkbox'),
  );
  await accessible(page, 'selecting chats');
  await box(page, 'Item 1').focus();
  await page.keyboard.press('Space');
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Shift+ArrowDown');
  await selected.getByText('3 chats selected').waitFor();
  await eventually(async () => assert.equal(await box(page, 'Item 3').isChecked(), true));
  await eventually(async () => assert.equal(await box(page, 'Item 4').isChecked(), false));
  await page.keyboard.press('Space');
  await selected.getByText('2 chats selected').waitFor();
  await selected.getByRole('button', { name: 'Archive', exact: true }).click();
  await notice(page, '2 chats archived.').waitFor();
  await selected.waitFor({ state: 'detached' });
  await link(page, 'Item 1').waitFor({ state: 'detached' });
  await until('the focus is in the list', async () => (await focusedRow(page)) !== '');
  for (const [nth, isArchived] of [
    [1, true],
    [2, true],
    [3, false],
  ])
    await eventually(async () => assert.equal((await stored(ids.get(nth))).marks.archived, isArchived, `Item ${nth}`));

  await listOption(page, 'Select chats');
  await box(page, 'Item 3').click();
  await box(page, 'Item 5').click({ modifiers: ['Shift'] });
  await selected.getByText('3 chats selected').waitFor();
  await selected.getByRole('button', { name: 'Move', exact: true }).click();
  const move = dialog(page, 'Move 3 chats');
  await move.getByRole('radio', { name: 'New folder' }).check();
  await move.getByRole('textbox', { name: 'Name of the new folder' }).fill('Items');
  await move.getByRole('button', { name: 'Move' }).click();
  await notice(page, '3 chats moved.').waitFor();
  await button(page, 'Items').click();
  await group(page, 'Folder Items').getByRole('link', { name: 'Item 5', exact: true }).waitFor();

  // A deletion asks once, with the number.
  await listOption(page, 'Select chats');
  await box(page, 'Item 4').click();
  await box(page, 'Item 5').click();
  await selected.getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog(page, 'Delete 2 chats?').waitFor();
  await agree(page, 'Delete 2 chats');
  await notice(page, '2 chats deleted.').waitFor();
  await link(page, 'Item 4').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal((await dev.api(`/api/conversations/${ids.get(4)}`)).status, 404));
  await eventually(async () => assert.equal((await dev.api(`/api/conversations/${ids.get(3)}`)).status, 200));
  assert.deepEqual(faults, []);
  await context.close();
});

test('chats that could not be changed are named, and stay selected', { skip }, async () => {
  await chat('Left alone');
  await chat('Goes first');
  const { context, page } = await signedIn(browser, dev);
  await page.route('**/api/bulk/conversations', (route) => {
    const results = route
      .request()
      .postDataJSON()
      .ids.map((id, nth) => ({ id, status: nth === 0 ? 'done' : 'too_many' }));
    return route.fulfill({ json: { results } });
  });
  await link(page, 'Goes first').waitFor();
  await listOption(page, 'Select chats');
  await box(page, 'Goes first').click();
  await box(page, 'Left alone').click();
  const selected = chats(page).getByRole('group', { name: 'Selected chats' });
  await selected.getByRole('button', { name: 'Archive', exact: true }).click();
  await selected.getByRole('alert').getByText('Not archived: “Left alone”. The limit of changes per minute').waitFor();
  await selected.getByText('1 chat selected').waitFor();
  await eventually(async () => assert.equal(await box(page, 'Left alone').isChecked(), true));
  // A request that fails changes nothing, and is explained.
  await page.unroute('**/api/bulk/conversations');
  await page.route('**/api/bulk/conversations', (route) =>
    route.fulfill({ status: 403, json: { code: 'insufficient_scope', detail: 'your key is read-only' } }),
  );
  await selected.getByRole('button', { name: 'Archive', exact: true }).click();
  await selected.getByRole('alert').getByText('Not archived: “Left alone”. your key is read-only').waitFor();
  await box(page, 'Left alone').focus();
  await page.keyboard.press('Escape');
  await selected.waitFor({ state: 'detached' });
  await link(page, 'Left alone').waitFor();
  await context.close();
});

test('messages are found by their words, marked, filtered, and opened where they are', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await ask(page, 'Where are the papers of zanzibar?');
  await finished(page);
  await page.goto(dev.url);
  await search(page).fill('zanzibar');
  const hits = group(page, 'Messages').getByRole('listitem');
  await until('both messages are found', async () => (await hits.count()) === 2);
  await group(page, 'Chats').getByRole('link').first().waitFor();
  const said = hits.filter({ hasText: 'upstairs' });
  await eventually(async () => assert.deepEqual(await said.locator('mark').allInnerTexts(), ['Zanzibar']));
  await eventually(async () =>
    assert.match(await said.locator('.snippet').innerText(), /Zanzibar<\/b>/, 'a snippet is text'),
  );
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `found messages, ${colorScheme}`);
  }
  await chats(page).getByLabel('Author').selectOption('user');
  await until('the user’s message is found', async () => (await hits.count()) === 1);
  await eventually(async () => assert.match(await hits.innerText(), /Where are the/));
  await chats(page).getByLabel('Search in').selectOption('only');
  await chats(page).getByText('No messages match “zanzibar” with these filters.').waitFor();
  await chats(page).getByLabel('Search in').selectOption('');
  await chats(page).getByLabel('Author').selectOption('assistant');
  // By keys: from the field into what was found.
  await said.waitFor();
  await search(page).press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL((url) => url.searchParams.has('message'));
  const linked = page.locator('li.linked');
  await linked.getByText('papers are upstairs').waitFor();
  await until('it has the focus', () => linked.evaluate((element) => element === document.activeElement));
  await accessible(page, 'a linked message');
  // A message that the chat does not have is explained.
  const address = new URL(page.url());
  address.searchParams.set('message', '00000000-0000-4000-8000-000000000000');
  await page.goto(address.href);
  await page.getByText('The linked message was not found in this chat.').waitFor();
  await answer(page).getByText('papers are upstairs').waitFor();
  await context.close();
});

test('a search that fails shows why, and is repeated', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev);
  await page.route('**/api/messages/search*', (route) =>
    route.fulfill({ status: 400, json: { code: 'invalid_query', detail: 'this search is refused' } }),
  );
  await search(page).fill('anything');
  await group(page, 'Messages').getByRole('alert').getByText('this search is refused').waitFor();
  await page.unroute('**/api/messages/search*');
  await button(page, 'Retry').click();
  await chats(page).getByText('No chats match “anything”.').waitFor();
  await eventually(async () => assert.equal(await search(page).inputValue(), 'anything'));
  await context.close();
});

test('an old message is opened with the messages around it, and found messages are shown page by page', {
  skip,
}, async () => {
  const id = await chat('A long chronicle');
  chronicle(dev, id, 270);
  const { context, page } = await signedIn(browser, dev);
  await search(page).fill('chronicle');
  const hits = group(page, 'Messages').getByRole('listitem');
  await until('the first page is shown', async () => (await hits.count()) === 20);
  await button(page, 'Show more messages').click();
  await until('the second page is shown', async () => (await hits.count()) === 40);
  await search(page).fill('entry7');
  await until('one is found', async () => (await hits.count()) === 1);
  await hits.getByRole('link').click();
  // It is not among the newest 200, with which the page begins.
  const linked = page.locator('li.linked');
  await linked.getByText('entry7 of the chronicle').waitFor();
  await until('it has the focus', () => linked.evaluate((element) => element === document.activeElement));
  const earlier = page.getByRole('region', { name: 'Earlier messages' });
  await earlier.getByText('entry8 of the chronicle').waitFor();
  await until('it is in sight', () =>
    linked.evaluate((element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    }),
  );
  // Without a link, they are shown on request.
  await page.goto(`${dev.url}/c/${id}`);
  await page.getByText('entry270 of the chronicle').waitFor();
  await eventually(async () => assert.equal(await page.getByText('entry60 of the chronicle').count(), 0));
  await page.getByRole('button', { name: 'Show earlier messages' }).click();
  await earlier.getByText('entry60 of the chronicle').waitFor();
  await eventually(async () => assert.equal(await earlier.getByText('entry7 of the chronicle').count(), 0));
  await page.getByRole('button', { name: 'Show earlier messages' }).click();
  await earlier.getByText('entry7 of the chronicle').waitFor();
  await page.getByRole('button', { name: 'Show earlier messages' }).waitFor({ state: 'detached' });
  await context.close();
});

test('the palette finds messages, and leads to them', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { bypassCSP: true });
  await ask(page, 'Is the palette like zanzibar?');
  await finished(page);
  await page.goto(`${dev.url}/runs`);
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
  await page.keyboard.press('Control+k');
  const palette = page.getByRole('dialog', { name: 'Search and commands' });
  await palette.getByRole('combobox').waitFor();
  await page.keyboard.type('palette like zanzibar');
  const found = palette.getByRole('group', { name: 'Messages' }).getByRole('option').first();
  await found.locator('mark').first().waitFor();
  await accessible(page, 'messages in the palette');
  await found.click();
  await page.waitForURL((url) => url.searchParams.has('message'));
  await page.locator('li.linked').getByText('Is the palette like zanzibar?').waitFor();
  await context.close();
});

test('what is unread is the same in all browsers of a user', { skip }, async () => {
  const one = await signedIn(browser, dev);
  await ask(one.page, 'to be read twice');
  await finished(one.page);
  const id = one.page.url().split('/c/')[1];
  await until('it is stored as read', async () => (await stored(id)).marks.unread === 0);
  const other = await signedIn(browser, dev);
  const row = (page) => chats(page).getByRole('link', { name: /to be read twice/ });
  const mark = (page) => row(page).getByRole('img', { name: 'Unread' });
  await row(other.page).waitFor();
  await eventually(async () => assert.equal(await mark(other.page).count(), 0));
  await one.page.goto(dev.url);
  await choose(one.page, 'to be read twice', 'Mark as unread');
  await mark(one.page).waitFor();
  await other.page.reload();
  await mark(other.page).waitFor();
  await row(other.page).click();
  await finished(other.page);
  await until('it is stored as read', async () => (await stored(id)).marks.unread === 0);
  await one.page.reload();
  await row(one.page).waitFor();
  await eventually(async () => assert.equal(await mark(one.page).count(), 0));
  await one.context.close();
  await other.context.close();
});

test('on a telephone, chats are selected and found in the drawer', { skip }, async () => {
  await chat('In the drawer');
  const { context, page } = await signedIn(browser, dev, {
    bypassCSP: true,
    viewport: { width: 390, height: 800 },
    hasTouch: true,
    isMobile: true,
  });
  await page.getByRole('button', { name: 'Show sidebar' }).tap();
  await link(page, 'In the drawer').waitFor();
  await button(page, 'List options').tap();
  await page.getByRole('menuitem', { name: 'Select chats' }).tap();
  await box(page, 'In the drawer').tap();
  const selected = chats(page).getByRole('group', { name: 'Selected chats' });
  await selected.getByText('1 chat selected').waitFor();
  await accessible(page, 'selecting chats in the drawer');
  const { height } = await selected.getByRole('button', { name: 'Archive', exact: true }).boundingBox();
  assert.ok(height >= 40, `a button is high enough to be touched: ${height}`);
  // A dialog over the drawer closes alone.
  await selected.getByRole('button', { name: 'Move', exact: true }).tap();
  await dialog(page, 'Move 1 chat').waitFor();
  await page.keyboard.press('Escape');
  await dialog(page, 'Move 1 chat').waitFor({ state: 'detached' });
  await selected.getByRole('button', { name: 'Cancel', exact: true }).tap();
  await link(page, 'In the drawer').waitFor();
  await eventually(async () => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390));
  await link(page, 'In the drawer').tap();
  await page.getByRole('heading', { level: 1, name: 'In the drawer' }).waitFor();
  await chats(page).waitFor({ state: 'hidden' });
  await context.close();
});
