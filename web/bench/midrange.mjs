// A mid-range device: a processor like that of a Pixel 5, and a network like "Fast 4G" in Chromium's developer tools. How many times the processor
// must be slowed down for that depends on the machine, and on what else it does; so it is measured each time, as the developer tools do.
import { median } from './statistics.mjs';

/** What the developer tools' calibration of a "mid-tier mobile" aims at: the score of a Pixel 5. */
export const DEVICE_SCORE = 1_000;
const SCORE_ROUNDS = 3;
/** Of each half of a round. */
const SCORE_MS = 125;
/** What the developer tools make of 9 Mbit/s down, 1.5 Mbit/s up and 60 ms: throughput [bytes/s], latency [ms]. */
const NETWORK = {
  downloadThroughput: ((9 * 1_000_000) / 8) * 0.9,
  uploadThroughput: ((1.5 * 1_000_000) / 8) * 0.9,
  latency: 60 * 2.75,
};

/** What this machine's processor scored each time. */
const scores = [];

/**
 * In the page: how fast it executes JavaScript, as Lighthouse defines its BenchmarkIndex. The mean of two rates, each a tenth of times a second:
 * a string of 10,000 characters is built one by one, and 100,000 integers are copied to another array.
 */
function score(forMs) {
  const rate = (act) => {
    const began = performance.now();
    let times = 0;
    while (performance.now() - began < forMs) act(times++);
    return times / 10 / ((performance.now() - began) / 1_000);
  };
  const built = (length) => {
    let text = '';
    for (let nth = 0; nth < length; nth++) text += 'a';
    return text.length;
  };
  const arrays = [0, 1].map(() => Array.from({ length: 100_000 }, (_, nth) => nth));
  const copied = (from, to) => {
    for (let nth = 0; nth < from.length; nth++) to[nth] = from[nth];
  };
  return (rate(() => built(10_000)) + rate((nth) => copied(arrays[nth % 2], arrays[(nth + 1) % 2]))) / 2;
}

/** How many times as fast as such a device this machine is now. */
async function timesAsFast(context) {
  const page = await context.newPage();
  // The first is slower: its code is not compiled yet.
  await page.evaluate(score, SCORE_MS);
  const found = [];
  for (let round = 0; round < SCORE_ROUNDS; round++) found.push(await page.evaluate(score, SCORE_MS));
  await page.close();
  scores.push(median(found));
  return Math.max(1, median(found) / DEVICE_SCORE);
}

/** Makes a page one of such a device. Its service worker keeps the fast network. */
export async function slowDown(page) {
  const rate = await timesAsFast(page.context());
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Emulation.setCPUThrottlingRate', { rate });
  await devtools.send('Network.enable');
  await devtools.send('Network.emulateNetworkConditions', { offline: false, ...NETWORK });
}

/** The least, the middle and the greatest score of this machine so far; none, if nothing was slowed down. */
export function machineScores() {
  return scores.length === 0 ? undefined : [Math.min(...scores), median(scores), Math.max(...scores)];
}
