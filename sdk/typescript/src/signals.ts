/** SIGTERM and SIGINT, where the process has signals. */
import { thisProcess } from './surroundings.js';

const SIGNALS = ['SIGTERM', 'SIGINT'];
/** How long code after `run` may take if functions still run. */
const EXIT_MS = 1000;

/** Aborts `stop` at the first signal. A second one ends the process at once. */
export function onSignals(first: (name: string) => void): { readonly stop: AbortSignal; close(): void } {
  const stop = new AbortController();
  const process = thisProcess;
  if (!process) return { stop: stop.signal, close: () => undefined };
  const listeners = SIGNALS.map((name) => {
    const listener = () => {
      if (stop.signal.aborted) {
        // What it does without listeners: it ends the process.
        process.removeAllListeners(name);
        process.kill(process.pid, name);
        return;
      }
      first(name);
      stop.abort();
    };
    process.on(name, listener);
    return () => process.off(name, listener);
  });
  return {
    stop: stop.signal,
    close: () => {
      for (const remove of listeners) remove();
    },
  };
}

/** Ends the process soon, unless it ends by itself before. */
export function exitSoon(): void {
  // In Node.js and Bun, a timer can be one that does not keep the process.
  const timer = setTimeout(() => thisProcess?.exit(), EXIT_MS) as unknown as { unref?(): void };
  timer.unref?.();
}
