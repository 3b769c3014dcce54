// The app on touch screens: how large controls are, and what taps and swipes do. In a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signedIn } from './support/browser.mjs';
import { eventually, until } from './support/dev.mjs';
import { cutOff, settled, smallTargets } from './support/layout.mjs';
import { skip, stage } from './support/stage.mjs';
import { answerOf, everyView } from './support/views.mjs';

const { dev, browser } = await stage(answerOf);
const every = skip ? { views: [] } : await everyView(dev);

/** A telephone: there is no hover. */
const PHONE = { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true };

/** Movements that a swipe consists of. */
const SWIPE_STEPS = 10;

const chats = (page) => page.getByRole('navigation', { name: 'Chats' });
const views = (page) => page.getByRole('navigation', { name: 'Views', exact: true });
const openDrawer = (page) => page.getByRole('button', { name: 'Show sidebar' }).tap();
const middleOf = async (locator) => {
  const { x, y, width, height } = await locator.boundingBox();
  return { x: x + width / 2, y: y + height / 2 };
};

/** Swipes from a place: by how many pixels the finger moves. */
async function swipe(page, { x, y }, { right = 0, down = 0 }) {
  const touches = await page.context().newCDPSession(page);
  const touch = (type, ...touchPoints) => touches.send('Input.dispatchTouchEvent', { type, touchPoints });
  await touch('touchStart', { x, y });
  for (let nth = 1; nth <= SWIPE_STEPS; nth += 1)
    await touch('touchMove', { x: x + (right * nth) / SWIPE_STEPS, y: y + (down * nth) / SWIPE_STEPS });
  await touch('touchEnd');
  await touches.detach();
}

test('in every view of a telephone controls are large enough, and nothing is cut off', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, PHONE);
  const found = {};
  for (const [path, shown] of every.views) {
    await page.goto(dev.url + path);
    await page.locator(shown).filter({ visible: true }).first().waitFor();
    const here = await settled(async () => [...(await smallTargets(page)), ...(await cutOff(page))]);
    if (here.length > 0) found[path] = here;
  }
  await page.goto(dev.url);
  await openDrawer(page);
  await chats(page).getByRole('link').first().waitFor();
  const inDrawer = await settled(async () => [...(await smallTargets(page)), ...(await cutOff(page))]);
  assert.deepEqual({ ...found, drawer: inDrawer }, { drawer: [] });
  await context.close();
});

test('a tap beside the drawer closes it, and does nothing else', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, PHONE);
  await page.goto(`${dev.url}/runs`);
  const row = page.locator('#main tbody tr').first();
  await row.waitFor();
  const { y } = await middleOf(row);
  // Behind the drawer's edge, above the end of the row.
  const beside = { x: PHONE.viewport.width - 40, y };
  await openDrawer(page);
  await views(page).waitFor();
  await page.evaluate(() => {
    globalThis.clicked = [];
    addEventListener('click', ({ target }) => globalThis.clicked.push(target.className), true);
  });
  await page.touchscreen.tap(beside.x, beside.y);
  await views(page).waitFor({ state: 'hidden' });
  await eventually(async () => assert.deepEqual(await page.evaluate(() => globalThis.clicked), ['veil']));
  assert.equal(new URL(page.url()).pathname, '/runs');
  // The row is there: a second tap opens it.
  await page.touchscreen.tap(beside.x, beside.y);
  await page.waitForURL(/\/runs\/[\w-]+$/);
  await openDrawer(page);
  await views(page).getByRole('link', { name: 'Runs' }).tap();
  await page.waitForURL(/\/runs$/);
  await views(page).waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await context.close();
});

test("a chat's menu is opened by a tap, and not by a swipe that begins at its button", { skip }, async () => {
  for (let nth = 0; nth < 30; nth += 1) {
    const made = await dev.api('/api/conversations', { method: 'POST', body: { title: `Swiped ${nth}` } });
    assert.equal(made.status, 201);
  }
  const { context, page, faults } = await signedIn(browser, dev, PHONE);
  await openDrawer(page);
  const button = (name) => chats(page).getByRole('button', { name: `Actions for ${name}`, exact: true });
  const menu = page.getByRole('menu');
  await button('Swiped 28').waitFor();
  await eventually(async () =>
    assert.equal(
      await button('Swiped 28').evaluate((element) => getComputedStyle(element.parentElement).opacity),
      '1',
      'it is seen without hover',
    ),
  );
  await swipe(page, await middleOf(button('Swiped 28')), { down: -100 });
  await until('the list was scrolled', async () =>
    chats(page)
      .locator('.listed')
      .evaluate((list) => list.scrollTop > 50),
  );
  await eventually(async () => assert.equal(await menu.count(), 0));
  await button('Swiped 20').tap();
  await menu.getByRole('menuitem', { name: 'Rename' }).waitFor();
  // A tap beside it closes it, and so does one at the button.
  await chats(page).getByRole('searchbox').tap();
  await menu.waitFor({ state: 'detached' });
  await button('Swiped 20').tap();
  await menu.getByRole('menuitem', { name: 'Rename' }).waitFor();
  await button('Swiped 20').tap();
  await menu.waitFor({ state: 'detached' });
  await button('Swiped 20').tap();
  await menu.getByRole('menuitem', { name: 'Rename' }).tap();
  const field = chats(page).getByRole('textbox', { name: 'New name' });
  await field.fill('Renamed by touch');
  await field.press('Enter');
  await chats(page).getByRole('link', { name: 'Renamed by touch', exact: true }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('the palette and a menu of the page close by a tap beside them', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, PHONE);
  await page.goto(dev.url + every.chat);
  await page.locator('article.turn .markdown table').waitFor();
  await page.getByRole('button', { name: 'Chat actions' }).tap();
  await page.getByRole('menuitem', { name: 'Copy link' }).waitFor();
  await page.touchscreen.tap(20, 600);
  await page.getByRole('menu').waitFor({ state: 'detached' });
  await openDrawer(page);
  await page.getByRole('button', { name: 'Search and commands' }).tap();
  const palette = page.getByRole('dialog', { name: 'Search and commands' });
  await palette.getByRole('option').first().waitFor();
  await page.touchscreen.tap(195, 780);
  await palette.waitFor({ state: 'detached' });
  assert.equal(new URL(page.url()).pathname, every.chat);
  assert.deepEqual(faults, []);
  await context.close();
});

test('on a telephone a task is moved by the menu of its card', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, PHONE);
  await page.goto(dev.url + every.board);
  const state = page.getByLabel('State of Paint the walls');
  await state.waitFor();
  const { height } = await state.boundingBox();
  assert.ok(height >= 24, `the menu is high enough to be touched: ${height}`);
  await state.selectOption('done');
  await page.getByRole('region', { name: 'Done', exact: true }).getByText('Paint the walls').waitFor();
  await page.getByText('Moved “Paint the walls” to Done.').waitFor();
  await page.getByRole('button', { name: 'New task in Done' }).tap();
  await page.getByRole('region', { name: 'Done', exact: true }).getByRole('textbox').waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test('a week is scrolled by touch, also from an event on, and a tap creates an event', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, { ...PHONE, timezoneId: 'Europe/Berlin' });
  await page.goto(dev.url + every.week);
  const week = page.getByRole('region', { name: 'Week', exact: true });
  const talk = week.getByRole('button', { name: /Talk about/ });
  await talk.scrollIntoViewIfNeeded();
  const place = () => week.evaluate(({ scrollTop, scrollLeft }) => ({ top: scrollTop, left: scrollLeft }));
  const before = await place();
  await swipe(page, await middleOf(talk), { down: -120 });
  await until('it was scrolled down', async () => (await place()).top > before.top + 60);
  await swipe(page, await middleOf(week), { right: -120 });
  await until('it was scrolled aside', async () => (await place()).left > before.left + 60);
  await eventually(async () => assert.equal(await page.getByRole('dialog').count(), 0));
  await eventually(async () => assert.equal(await page.locator('.ghost').count(), 0));
  const hour = week.getByRole('button', { name: 'New event on Thursday 12 March 2026 at 15:00' });
  await hour.scrollIntoViewIfNeeded();
  const { x, y, width } = await hour.boundingBox();
  await page.touchscreen.tap(x + width / 2, y + 6);
  await page.getByRole('dialog').getByLabel('Title').waitFor();
  await eventually(async () =>
    assert.equal(await page.getByRole('dialog').getByLabel('Start time').inputValue(), '15:00'),
  );
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).tap();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
  await context.close();
});
