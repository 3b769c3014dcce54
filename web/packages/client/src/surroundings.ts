/** Reports whether the page is visible and online. In Node it always is. */

export const isOffline = (): boolean => globalThis.navigator?.onLine === false;
export const isHidden = (): boolean => globalThis.document?.visibilityState === 'hidden';

/** Calls back whenever either may have changed. Returns how to stop that. */
export function watchSurroundings(changed: () => void): () => void {
  const watched: [EventTarget | undefined, string][] = [
    [globalThis.window, 'online'],
    [globalThis.window, 'offline'],
    [globalThis.document, 'visibilitychange'],
  ];
  for (const [target, event] of watched) target?.addEventListener(event, changed);
  return () => {
    for (const [target, event] of watched) target?.removeEventListener(event, changed);
  };
}

/** Waits; ends early where the network comes back. Throws the signal's reason where it is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      globalThis.window?.removeEventListener('online', end);
      signal?.removeEventListener('abort', end);
      if (signal?.aborted) reject(signal.reason as Error);
      else resolve();
    };
    const timer = setTimeout(end, ms);
    globalThis.window?.addEventListener('online', end);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}

/** Calls at the next frame of the screen, or after 16 ms where there is none. Returns how not to. */
export function nextFrame(call: () => void): () => void {
  if (typeof requestAnimationFrame === 'function' && !isHidden()) {
    const frame = requestAnimationFrame(call);
    return () => cancelAnimationFrame(frame);
  }
  const timer = setTimeout(call, 16);
  return () => clearTimeout(timer);
}

/** Calls a listener of the application. An exception in it is reported as uncaught. */
export function safely(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
