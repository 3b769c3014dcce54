// The answer as it streams into a page, which is looked at, or used: somebody types and clicks.
import assert from 'node:assert/strict';
import { ask, launch, signedIn } from '../tests/support/browser.mjs';
import { LAST_WORDS } from './answer.mjs';
import { placeOf, watchFrames, watchInteractions } from './in-page.mjs';
import { slowDown } from './midrange.mjs';
import { greatest, median, quantile, sum } from './statistics.mjs';

/** A browser that draws as often as it can: frames that wait for a display are as long as its clock says, however quick the page is. */
const WITHOUT_CLOCK = ['--disable-frame-rate-limit', '--disable-gpu-vsync'];
/** Between two keys, and after a click [ms]. */
const KEY_MS = 60;
const CLICK_MS = 300;
/** What is typed; then it is removed again. */
const WORDS = 'and what about the others ';
const FIELD = '#words';
const CALL = 'article.turn .folded > summary';
const MENU = '.head button[aria-haspopup="menu"]';
const IS_OVER = 'article.turn[aria-busy="false"]';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Types into the message field, opens and closes calls of the answer and the menu of the chat, until the answer is over. Returns how often. */
async function use(page) {
  let made = 0;
  const press = async (key) => {
    await page.keyboard.press(key);
    made += 1;
    await pause(KEY_MS);
  };
  // By its place: what grows never holds still, as a click on an element would wait for.
  const click = async (selector) => {
    const place = await page.evaluate(placeOf, selector);
    if (!place) return;
    await page.mouse.click(place.x, place.y);
    made += 1;
    await pause(CLICK_MS);
  };
  do {
    await click(FIELD);
    for (const letter of WORDS) await press(letter === ' ' ? 'Space' : letter);
    await press('Control+A');
    await press('Backspace');
    for (const selector of [CALL, CALL, MENU, MENU]) await click(selector);
  } while ((await page.locator(IS_OVER).count()) === 0);
  return made;
}

/**
 * The time that the 98th percentile of the interactions took until the next frame, as "interaction to next paint" is defined [ms]. The browser
 * reports those of 16 ms and more.
 */
function interactionToNextPaint(slow, count) {
  const durations = slow.map(({ duration }) => duration).sort((one, other) => other - one);
  return durations[Math.floor(count / 50)] ?? 16;
}

export async function stream(browser, dev, { agent, calls, viewport, isUsed = false, isMidrange = false }) {
  const { context, page, faults } = await signedIn(browser, dev, { viewport });
  if (isMidrange) await slowDown(page);
  const devtools = await context.newCDPSession(page);
  await devtools.send('Performance.enable');
  const busy = async () =>
    Object.fromEntries((await devtools.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
  await page.getByLabel('Agent', { exact: true }).selectOption(agent);
  await ask(page, 'Tell me all of it.');
  await page.locator('article.turn .markdown').first().waitFor();
  const before = await busy();
  await page.evaluate(watchFrames);
  await page.evaluate(watchInteractions);
  const made = isUsed ? await use(page) : 0;
  await page.locator(IS_OVER).waitFor({ timeout: 1_200_000 });
  const { frames, work, long } = await page.evaluate(() => globalThis.framesSeen());
  const { slow, count } = await page.evaluate(() => globalThis.interactionsSeen());
  const after = await busy();
  assert.equal(await page.locator(`${CALL} code`).count(), calls, 'all calls are shown');
  assert.match(await page.locator('article.turn').innerText(), new RegExp(LAST_WORDS));
  assert.deepEqual(faults, []);
  const address = page.url();
  await context.close();
  return {
    address,
    measured: {
      streamed_s: sum(frames) / 1000,
      frames: frames.length,
      frame_median_ms: median(frames),
      frame_p95_ms: quantile(frames, 0.95),
      frame_longest_ms: greatest(frames),
      work_median_ms: median(work),
      work_p95_ms: quantile(work, 0.95),
      main_thread_share: (after.TaskDuration - before.TaskDuration) / (after.Timestamp - before.Timestamp),
      long_tasks: long.length,
      long_task_longest_ms: greatest(long),
      heap_mb: after.JSHeapUsedSize / 1e6,
      elements: after.Nodes,
      ...(isUsed && {
        interactions: count ?? made,
        inp_ms: interactionToNextPaint(slow, count ?? made),
        interaction_longest_ms: greatest(slow.map(({ duration }) => duration)),
        // Where to look if it is too long.
        slowest: slow.toSorted((one, other) => other.duration - one.duration).slice(0, 5),
      }),
    },
  };
}

/** The same answer in a browser that waits for no display. Most of its frames have nothing new to show: the median shows how soon the next one could. */
export async function streamUnclocked(dev, options) {
  const browser = await launch(WITHOUT_CLOCK);
  try {
    return (await stream(browser, dev, options)).measured;
  } finally {
    await browser.close();
  }
}
