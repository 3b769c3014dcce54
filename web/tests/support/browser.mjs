// Chromium. Tests prefer the one without windows, which starts and draws faster; measurements use the one that people have.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const PROGRAMS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].map(
  (name) => `/usr/bin/${name}`,
);

export const PROGRAM = process.env.REJOIN_TEST_CHROMIUM ?? PROGRAMS.find(existsSync);

/** How many times slower the pages' scripts run than they could: `REJOIN_TEST_SLOW=6` shows what only holds on a fast machine. */
const SLOWER = Number(process.env.REJOIN_TEST_SLOW ?? 1);

export async function launch(more = []) {
  const args = ['--no-sandbox', '--disable-dev-shm-usage', ...more];
  const browser = await chromium.launch({ executablePath: PROGRAM, args });
  if (SLOWER > 1) slowDown(browser);
  return browser;
}

function slowDown(browser) {
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.on('page', async (page) => {
      const session = await context.newCDPSession(page);
      await session.send('Emulation.setCPUThrottlingRate', { rate: SLOWER });
    });
    return context;
  };
}

/** An address that signs a browser in once, as the user of the key; in this project, if the key is for several. */
export async function signInLink({ url, apiKey, projectId }) {
  const response = await fetch(`${url}/api/sign-in-codes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, ...(projectId && { 'x-project-id': projectId }) },
  });
  return `${url}/#code=${(await response.json()).code}`;
}

/** A page that is signed in, with the errors on its console and its requests to other hosts. */
export async function signedIn(browser, dev, options = {}) {
  // A service worker would answer requests that tests answer themselves. Those of the worker allow it.
  const context = await browser.newContext({ serviceWorkers: 'block', ...options });
  const page = await context.newPage();
  const faults = [];
  const elsewhere = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(dev.url) && !request.url().startsWith('data:')) elsewhere.push(request.url());
  });
  await page.goto(await signInLink(dev));
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  return { context, page, faults, elsewhere };
}

export async function ask(page, words) {
  const field = page.getByRole('textbox', { name: 'Message' });
  await field.fill(words);
  await field.press('Enter');
}

/** Agrees to what the page asks before it does something; `action` is on the button. */
export async function agree(page, action) {
  await page.getByRole('dialog').last().getByRole('button', { name: action, exact: true }).click();
}

/** The last answer, as it is shown. */
export function answer(page) {
  return page.locator('article.turn').last();
}

/** Waits until the last answer is over; its words. */
export async function finished(page, timeout = 60_000) {
  await page.locator('article.turn[aria-busy="false"]').last().waitFor({ timeout });
  await page.waitForFunction(
    () => document.querySelectorAll('article.turn[aria-busy="true"]').length === 0,
    undefined,
    { timeout },
  );
  return answer(page).locator('.markdown').allInnerTexts();
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A page without serious faults for people with assistive technology, by all rules or these; the page's context bypasses its CSP. */
export async function accessible(page, place, rules) {
  // Not the colours of a transition.
  await page.evaluate(() =>
    Promise.allSettled(
      document
        .getAnimations()
        .filter(({ effect }) => effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY)
        .map(({ finished }) => finished),
    ),
  );
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(AXE);
  const { violations } = await page.evaluate(
    (runOnly) => globalThis.axe.run({ resultTypes: ['violations'], ...(runOnly && { runOnly }) }),
    rules,
  );
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(
    serious.map(({ id, nodes }) => [`${place}: ${id}`, nodes.map((node) => node.html).slice(0, 5)]),
    [],
  );
}
