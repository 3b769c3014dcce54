// Visits of somebody who was never here, with nothing cached: the chat, and the finished answer.
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { LAST_WORDS } from './answer.mjs';
import { watchLoad, watchWords } from './in-page.mjs';
import { slowDown } from './midrange.mjs';
import { median, sum } from './statistics.mjs';

async function repeated(times, measure) {
  const all = [];
  for (let nth = 0; nth < times; nth++) all.push(await measure());
  return all;
}

async function visitor(browser, { state, viewport, isMidrange }) {
  const context = await browser.newContext({ storageState: state, viewport });
  const page = await context.newPage();
  if (isMidrange) await slowDown(page);
  return { context, page };
}

/** The first visit of the chat. */
async function load(browser, dev, options) {
  const { context, page } = await visitor(browser, options);
  const scripts = new Set();
  page.on('response', (response) => {
    if (new URL(response.url()).pathname.endsWith('.js')) scripts.add(response.url());
  });
  await page.addInitScript(watchLoad);
  await page.goto(dev.url);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  // A second without a long task, as Lighthouse waits: what the page loads by itself is loaded then.
  const seen = await page.evaluate(() => globalThis.loadSeen());
  await context.close();
  return { ...seen, scripts: [...scripts] };
}

export async function loads(browser, dev, { visits, ...options }) {
  const all = await repeated(visits, () => load(browser, dev, options));
  const [{ scripts }] = all;
  const contents = await Promise.all(scripts.map(async (url) => Buffer.from(await (await fetch(url)).arrayBuffer())));
  return {
    scripts: scripts.length,
    script_gzip: sum(contents.map((content) => gzipSync(content, { level: 9 }).length)),
    script_brotli: sum(contents.map((content) => brotliCompressSync(content).length)),
    first_paint_ms: median(all.map(({ firstMs }) => firstMs)),
    largest_paint_ms: median(all.map(({ paintMs }) => paintMs)),
    blocked_ms: median(all.map(({ blockedMs }) => blockedMs)),
  };
}

/** Opens the finished conversation. */
async function open(browser, { address, calls, ...options }) {
  const { context, page } = await visitor(browser, options);
  await page.addInitScript(watchWords, LAST_WORDS);
  await page.goto(address);
  await page.waitForFunction(() => globalThis.wordsSeenAt !== undefined, undefined, { timeout: 60_000 });
  const words = await page.evaluate(() => globalThis.wordsSeenAt);
  await page.waitForFunction(
    (calls) => document.querySelectorAll('article.turn .folded > summary code').length === calls,
    calls,
    { timeout: 60_000 },
  );
  const whole = await page.evaluate(() => performance.now());
  await context.close();
  return { words, whole };
}

export async function openings(browser, { visits, ...options }) {
  const all = await repeated(visits, () => open(browser, options));
  return { words_ms: median(all.map(({ words }) => words)), whole_ms: median(all.map(({ whole }) => whole)) };
}
