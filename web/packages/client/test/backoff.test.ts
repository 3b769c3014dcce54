import { expect, test } from 'vitest';

import { BASE_MS, MAX_MS, pauseMs } from '../src/backoff.js';

const widest = () => 1;

test('windows double up to a limit', () => {
  const windows = Array.from({ length: 10 }, (_, attempt) => pauseMs(attempt, 0, widest));
  expect(windows).toEqual([250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000]);
  expect(pauseMs(1e9, 0, widest)).toBe(MAX_MS);
});

test('a pause is anything from nothing to the window', () => {
  expect(pauseMs(3, 0, () => 0)).toBe(0);
  expect(pauseMs(0, 0, () => 0.5)).toBe(BASE_MS / 2);
  const pauses = Array.from({ length: 1000 }, () => pauseMs(2));
  expect(Math.min(...pauses)).toBeLessThan(100);
  expect(Math.max(...pauses)).toBeGreaterThan(900);
});

test('the server widens narrow windows, never beyond the limit', () => {
  expect(pauseMs(0, 2000, widest)).toBe(2000);
  expect(pauseMs(4, 2000, widest)).toBe(4000);
  expect(pauseMs(0, 60_000, widest)).toBe(MAX_MS);
});
