/**
 * A browser opens six connections to a server that speaks HTTP/1.1, for all of its tabs together: with more streams than that, they and
 * every other request would wait for ever. So the streams of one browser share a few seats, by its locks; who finds them taken looks in
 * now and then. In Node, and where the page has no locks (it was loaded without TLS), there are no seats and no bounds.
 */

/** Leaves two connections for requests. */
const SEATS = 4;
/** From one look to the next, for whoever has no seat [ms]. */
export const LOOK_MS = 1_000;

/** Gives the seat back. */
export type Release = () => void;

/** A seat, once it is known whether one is free; `undefined`: all are taken. */
export async function takeSeat(): Promise<Release | undefined> {
  const locks = globalThis.navigator?.locks;
  if (globalThis.document === undefined || !locks) return () => {};
  for (let seat = 0; seat < SEATS; seat++) {
    const taken = await new Promise<Release | undefined>((resolve) => {
      const held = locks.request(`rejoin-seat-${seat}`, { ifAvailable: true }, (lock) => {
        if (lock === null) return resolve(undefined);
        return new Promise<void>((release) => resolve(release));
      });
      // A browser that refuses its locks (a page that is going away) has no bounds either.
      held.catch(() => resolve(() => {}));
    });
    if (taken) return taken;
  }
  return undefined;
}
