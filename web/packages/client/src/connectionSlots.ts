/**
 * Limits the streams of one browser to a few connection slots, shared by all of its tabs.
 *
 * A browser opens six connections to an HTTP/1.1 server, for all tabs together. If streams took all of them, further streams and every
 * other request would wait forever. The slots are Web Locks, which the tabs of an origin share. A stream that finds no free slot polls
 * instead. Node and pages without Web Locks (loaded without TLS) have no slots and no limit.
 */

/** Number of slots. Leaves two connections for requests. */
const SLOTS = 4;
/** Poll interval of a stream without a slot, in milliseconds. */
export const POLL_MS = 1_000;

/** Releases the slot. */
export type Release = () => void;

/** Acquires a slot. Resolves to `undefined` if all slots are taken. */
export async function acquireSlot(): Promise<Release | undefined> {
  const locks = globalThis.navigator?.locks;
  if (globalThis.document === undefined || !locks) return () => {};
  for (let slot = 0; slot < SLOTS; slot++) {
    const acquired = await new Promise<Release | undefined>((resolve) => {
      // The name of the lock is shared with tabs that run an older version: it must not change.
      const held = locks.request(`rejoin-seat-${slot}`, { ifAvailable: true }, (lock) => {
        if (lock === null) return resolve(undefined);
        return new Promise<void>((release) => resolve(release));
      });
      // A browser that refuses locks (the page is unloading) has no limit either.
      held.catch(() => resolve(() => {}));
    });
    if (acquired) return acquired;
  }
  return undefined;
}
