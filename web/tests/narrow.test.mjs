// The frame of all views on narrow screens, in a real browser over a real `rejoin dev`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, signedIn } from './support/browser.mjs';
import { eventually } from './support/dev.mjs';
import { skip, stage } from './support/stage.mjs';

const { dev, browser } = await stage();

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
  await eventually(async () => assert.equal(await views(page).getByRole('link').count(), 9));
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
