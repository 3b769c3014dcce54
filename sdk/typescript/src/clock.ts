/** Time that passes evenly: for leases and limits. */

/** Differences between the two clocks below this are corrections, not a suspended machine. */
const JUMP_MS = 1000;

/**
 * Returns a clock in milliseconds that never goes back. The monotonic clock stops while a machine is suspended, and the wall clock does not: if
 * that one jumps ahead, this clock follows, so that leases that have ended meanwhile are known to be in doubt.
 */
export function clock(monotonicMs: () => number, wallMs: () => number): () => number {
  let known = wallMs() - monotonicMs();
  let suspendedMs = 0;
  return () => {
    const nowMs = monotonicMs();
    const difference = wallMs() - nowMs;
    if (difference > known + JUMP_MS) suspendedMs += difference - known;
    known = difference;
    return nowMs + suspendedMs;
  };
}

export const now: () => number = clock(
  () => performance.now(),
  () => Date.now(),
);
