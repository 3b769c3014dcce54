/** How long it waits for an idle browser at most, in milliseconds. */
const LIMIT_MS = 2_000;

/** Calls once the browser has nothing urgent to do. Returns how not to. */
export function whenIdle(call: () => void): () => void {
  if ('requestIdleCallback' in globalThis) {
    const handle = requestIdleCallback(call, { timeout: LIMIT_MS });
    return () => cancelIdleCallback(handle);
  }
  const timer = setTimeout(call, LIMIT_MS);
  return () => clearTimeout(timer);
}
