// The frame of all views on narrow screens, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

/** One row of the bar is lower than this [px]. */
const ONE_ROW = 60;

const height = (page) => page.locator('.bar').evaluate((bar) => bar.getBoundingClientRect().height);
const views = (page) => page.getByRole('navigation', { name: 'Views' });

test('on a narrow screen the bar is one row, and what does not fit is a menu for keys, too', { skip }, async () => {
  const { context, page, faults } = await signedIn(browser, dev, {
    bypassCSP: true,
    viewport: { width: 420, height: 800 },
  });
  const more = page.getByRole('button', { name: 'More', exact: true });
  assert.ok((await height(page)) < ONE_ROW, `${await height(page)} px`);
  assert.equal(await views(page).isVisible(), false);
  await accessible(page, 'a narrow bar');
  await more.focus();
  await page.keyboard.press('Enter');
  await views(page).waitFor();
  assert.equal(await views(page).getByRole('link').count(), 8);
  assert.equal(await views(page).getByRole('link', { name: 'Chat' }).getAttribute('aria-current'), 'page');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `the menu of a narrow bar, ${colorScheme}`);
  }
  // It is left by Escape, and the focus is where it was; the next key goes into it.
  await page.keyboard.press('Escape');
  await views(page).waitFor({ state: 'hidden' });
  assert.equal(await more.evaluate((button) => button === document.activeElement), true);
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/runs$/);
  await page.getByRole('heading', { name: 'Runs' }).waitFor();
  await views(page).waitFor({ state: 'hidden' });
  // The theme, and the way out.
  await more.click();
  await page.getByLabel('Theme').selectOption('dark');
  assert.equal(await page.locator('html').getAttribute('data-theme'), 'dark');
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.equal(overflow, 0);
  assert.deepEqual(faults, []);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'More', exact: true }).waitFor({ state: 'detached' });
  await context.close();
});

test('the bar is one row at every width, and a menu only where it has to be', { skip }, async () => {
  const { context, page } = await signedIn(browser, dev, { viewport: { width: 1280, height: 800 } });
  for (const width of [1280, 1000, 930, 920, 800, 740, 560, 420, 320]) {
    await page.setViewportSize({ width, height: 800 });
    assert.ok((await height(page)) < ONE_ROW, `${await height(page)} px at ${width}`);
    assert.notEqual(
      await views(page).isVisible(),
      await page.getByRole('button', { name: 'More', exact: true }).isVisible(),
      `one of both at ${width}`,
    );
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    assert.equal(overflow, 0, `nothing sticks out at ${width}`);
  }
  // A menu that is open when the window gets wider can still be left.
  await page.getByRole('button', { name: 'More', exact: true }).click();
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press('Escape');
  await views(page).getByRole('link', { name: 'Settings' }).click();
  await page.waitForURL(/\/settings/);
  await context.close();
});
