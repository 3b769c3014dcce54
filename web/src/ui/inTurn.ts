// Does small pieces of work one after the other, so that no number of them keeps the page from answering.

/** After this much work the browser has its turn, in milliseconds. */
const SLICE_MS = 8;

const waiting = new Set<() => void>();
let isScheduled = false;

/** Does it when its turn comes. Returns how to withdraw it. */
export function inTurn(work: () => void): () => void {
  waiting.add(work);
  schedule();
  return () => void waiting.delete(work);
}

function schedule(): void {
  if (isScheduled || waiting.size === 0) return;
  isScheduled = true;
  setTimeout(doSome);
}

function doSome(): void {
  const end = performance.now() + SLICE_MS;
  isScheduled = false;
  for (const work of waiting) {
    waiting.delete(work);
    work();
    if (performance.now() >= end) break;
  }
  schedule();
}
