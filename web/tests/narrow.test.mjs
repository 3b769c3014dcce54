// All views on narrow screens and enlarged, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { cutOff, settled, smallTargets, unreachable } from './support/layout.mjs';
import { skip, stage } from './support/stage.mjs';
import { answerOf, everyView } from './support/views.mjs';

const { dev, browser } = await stage(answerOf);
const every = skip ? { views: [] } : await everyView(dev);

/** A window of 1280 by 800 pixels whose pages are enlarged to 200 %. */
const ENLARGED = { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 };

/** What a look at each view finds, by its address. */
async function foundIn(page, look) {
  const found = {};
  for (const [path, shown] of every.views) {
    await page.goto(dev.url + path);
    await page.locator(shown).filter({ visible: true }).first().waitFor();
    const here = await settled(look);
    if (here.length > 0) found[path] = here;
  }
  return found;
}

const views = (page) => page.getByRole('navigation', { name: 'Views', exact: true });
const opener = (page) => page.getByRole('button', { name: 'Show sidebar' });
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test('on a narrow screen the sidebar is a drawer, for keys, too', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, {
    bypassCSP: true,
    viewport: { width: 420, height: 800 },
  });
  await eventually(async () => assert.equal(await views(page).isVisible(), false));
  await accessible(page, 'a narrow page');
  await opener(page).focus();
  await page.keyboard.press('Enter');
  await views(page).waitFor();
  await eventually(async () => assert.equal(await views(page).getByRole('link').count(), 10));
  await eventually(async () =>
    assert.equal(await page.evaluate(() => document.activeElement?.closest('#sidebar') !== null), true),
  );
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the drawer, ${colorScheme}`);
  }
  // Escape closes it, and the focus is where it was.
  await page.keyboard.press('Escape');
  await views(page).waitFor({ state: 'hidden' });
  await eventually(async () =>
    assert.equal(await opener(page).evaluate((button) => button === document.activeElement), true),
  );
  // A link closes it, too.
  await page.keyboard.press('Enter');
  await views(page).getByRole('link', { name: 'Runs' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/runs$/);
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await views(page).waitFor({ state: 'hidden' });
  await eventually(async () => assert.equal(await overflow(page), 0));
  // So does a touch beside it. The theme, and the way out.
  await opener(page).click();
  await page.mouse.click(410, 400);
  await views(page).waitFor({ state: 'hidden' });
  await opener(page).click();
  await page.getByRole('button', { name: /^User menu/ }).click();
  await page.getByRole('menuitemradio', { name: 'Dark' }).click();
  await eventually(async () => assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark'));
  assert.deepEqual(faults, []);
  await page.getByRole('button', { name: /^User menu/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  await context.close();
});

test('nothing sticks out at any width, and the sidebar can be reached', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 1280, height: 800 } });
  for (const path of ['/', '/runs', '/operations', '/settings?part=keys']) {
    await page.goto(dev.url + path);
    await page.locator('#main').waitFor();
    for (const width of [1280, 1000, 840, 830, 740, 560, 420, 320]) {
      await page.setViewportSize({ width, height: 800 });
      await eventually(async () =>
        assert.notEqual(await views(page).isVisible(), await opener(page).isVisible(), `one of both at ${width}`),
      );
      await eventually(async () => assert.equal(await overflow(page), 0, `nothing sticks out of ${path} at ${width}`));
    }
  }
  // A drawer that is open when the window gets wider becomes the sidebar.
  await opener(page).click();
  await page.setViewportSize({ width: 1280, height: 800 });
  await views(page).getByRole('link', { name: 'Projects' }).click();
  await page.waitForURL(/\/work/);
  await context.close();
});

test('at 200 % zoom nothing is cut off in any view, and main actions are reached', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, ENLARGED);
  const found = await foundIn(page, async () => [
    ...(await cutOff(page)),
    ...(await smallTargets(page)),
    ...(await unreachable(page, '#main .primary')),
  ]);
  assert.deepEqual(found, {});
  await context.close();
});

test('at 400 % zoom nothing is cut off in any view', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, {
    viewport: { width: 320, height: 640 },
    deviceScaleFactor: 4,
  });
  assert.deepEqual(await foundIn(page, () => cutOff(page)), {});
  await context.close();
});

test('at 200 % zoom a chat has room for its messages above the field, and dialogs fit', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, ENLARGED);
  const fits = async (controls) => {
    assert.deepEqual(await settled(() => cutOff(page)), []);
    assert.deepEqual(await settled(() => unreachable(page, controls)), []);
  };
  await page.goto(dev.url + every.chat);
  await page.locator('article.turn .markdown table').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('one\ntwo\nthree');
  await fits('.composer :is(textarea, button, select), .head button');
  const { height } = await page.getByRole('log', { name: 'Messages' }).boundingBox();
  assert.ok(height >= 100, `the messages have ${height} of 400 pixels`);
  await page.getByRole('button', { name: 'Chat actions' }).click();
  await page.getByRole('menuitem', { name: 'Export as JSON' }).waitFor();
  await fits('[role="menuitem"]');
  await page.keyboard.press('Escape');
  await page.getByRole('menu').waitFor({ state: 'detached' });
  for (const [opens, name] of [
    [() => page.getByRole('button', { name: 'Share', exact: true }).click(), 'Share chat'],
    [() => page.keyboard.press('Control+k'), 'Search and commands'],
    [() => page.keyboard.press('?'), 'Keyboard shortcuts'],
  ]) {
    await opens();
    await page.getByRole('dialog', { name }).waitFor();
    await fits('dialog[open] :is(button, input, select, [role="option"])');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog', { name }).waitFor({ state: 'detached' });
  }
  await page.goto(dev.url + every.week);
  await page.getByRole('button', { name: 'New event', exact: true }).click();
  await page.getByRole('dialog').getByLabel('Title').waitFor();
  await fits('dialog[open] :is(button, input, select, textarea)');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await opener(page).click();
  await page.getByRole('button', { name: /^User menu/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).waitFor();
  await fits('[role="menuitem"], [role="menuitemradio"]');
  assert.deepEqual(faults, []);
  await context.close();
});
