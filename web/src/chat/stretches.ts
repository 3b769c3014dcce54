// Cuts what a turn consists of into stretches.

/** Number of parts in a stretch. */
export const STRETCH = 16;

/** A stretch that has not changed is the same array as before, so that it is not rendered again while the last one grows. */
export class Stretches<Part> {
  #before: (readonly Part[])[] = [];

  of(parts: readonly Part[]): readonly (readonly Part[])[] {
    this.#before = Array.from({ length: Math.ceil(parts.length / STRETCH) }, (_, nth) => {
      const now = parts.slice(nth * STRETCH, (nth + 1) * STRETCH);
      const before = this.#before[nth];
      return before?.length === now.length && before.every((part, at) => part === now[at]) ? before : now;
    });
    return this.#before;
  }
}
