/** Waits for conditions and times. Invariant: after a wait, neither a timer nor a listener is left. */

/** Longer timers fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Waits for conditions about state that changes. Code that changes it calls `notify`. */
export class Changes {
  readonly #checks = new Set<() => void>();

  /** Something has changed. */
  notify(): void {
    for (const check of [...this.#checks]) check();
  }

  /** Waits until the condition is true, for at most `limitMs`. Returns whether it is. */
  until(condition: () => boolean, limitMs?: number): Promise<boolean> {
    if (condition()) return Promise.resolve(true);
    if (limitMs !== undefined && limitMs <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const end = (met: boolean) => {
        this.#checks.delete(check);
        clearTimeout(timer);
        resolve(met);
      };
      const check = () => {
        if (condition()) end(true);
      };
      this.#checks.add(check);
      if (limitMs !== undefined) timer = setTimeout(() => end(condition()), Math.min(limitMs, TIMER_MAX_MS));
    });
  }
}

/** Waits, and returns early if the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}
