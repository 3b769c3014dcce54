import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Frames } from '../src/frames.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Calls within a second in which each call takes `workMs`, if the next one is asked for at once. */
async function callsOf(workMs: number): Promise<number> {
  /** What the calls have taken: the timers' clock stands still meanwhile. */
  let workedMs = 0;
  const begun = Date.now();
  const frames = new Frames(() => Date.now() + workedMs);
  let calls = 0;
  const again = () =>
    frames.next(() => {
      calls += 1;
      workedMs += workMs;
      again();
    });
  again();
  while (Date.now() - begun + workedMs < 1_000) await vi.advanceTimersByTimeAsync(1);
  return calls;
}

test('a call whose work is short comes with each frame', async () => {
  expect(await callsOf(0)).toBeGreaterThan(50);
});

test('after long work the next call waits as long as the work took', async () => {
  const calls = await callsOf(50);
  expect(calls).toBeGreaterThan(5);
  expect(calls * 50).toBeLessThanOrEqual(500);
});

test('very long work delays the next call for a quarter of a second', async () => {
  const calls = vi.fn();
  let workedMs = 0;
  const frames = new Frames(() => Date.now() + workedMs);
  frames.run(() => {
    workedMs += 10_000;
  });
  await vi.advanceTimersByTimeAsync(1);
  frames.next(calls);
  await vi.advanceTimersByTimeAsync(240);
  expect(calls).toHaveBeenCalledTimes(0);
  await vi.advanceTimersByTimeAsync(60);
  expect(calls).toHaveBeenCalledTimes(1);
});

test('a call that is taken back does not come, also while the page rests', async () => {
  const calls = vi.fn();
  let workedMs = 0;
  const frames = new Frames(() => Date.now() + workedMs);
  frames.next(calls)();
  frames.run(() => {
    workedMs += 100;
  });
  await vi.advanceTimersByTimeAsync(1);
  const back = frames.next(calls);
  await vi.advanceTimersByTimeAsync(50);
  back();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(calls).toHaveBeenCalledTimes(0);
});
