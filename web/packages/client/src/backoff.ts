/** Computes the pause between retries with full jitter, so that clients that lost the same server do not all return at once. */

/** The first window [ms]. */
export const BASE_MS = 250;
/** The widest one [ms]. */
export const MAX_MS = 10_000;

/** The pause before try number `attempt` (0: the first again). A server's `retry:` makes narrower windows as wide as it says. */
export function pauseMs(attempt: number, retryMs = 0, random: () => number = Math.random): number {
  return random() * Math.min(MAX_MS, Math.max(retryMs, BASE_MS * 2 ** Math.min(attempt, 16)));
}
