/**
 * Calls at the frames of the screen, and leaves the page time for its user: after work that took longer than half a frame, the next call waits
 * as long as the work took. A slow device shows words less often, and still answers keys and clicks.
 */
import { nextFrame } from './surroundings.js';

/** Work that leaves a page of 60 frames a second enough time, in milliseconds. */
const WORK_MS = 8;
/** Longest rest, in milliseconds. */
const REST_MAX_MS = 250;

export class Frames {
  /** When the next call may come, in milliseconds of the clock. */
  #freeAt = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Calls at a frame. Returns how not to. */
  next(call: () => void): () => void {
    const look = (): void => {
      const restMs = this.#freeAt - this.now();
      if (restMs <= 0) {
        this.run(call);
        return;
      }
      const timer = setTimeout(() => {
        cancel = nextFrame(look);
      }, restMs);
      cancel = () => clearTimeout(timer);
    };
    let cancel = nextFrame(look);
    return () => cancel();
  }

  /** Calls at once, and measures the work: the call, and what the page renders after it. */
  run(call: () => void): void {
    const begun = this.now();
    call();
    // The next task: the frame's script, style and layout are over.
    setTimeout(() => {
      const workMs = this.now() - begun;
      this.#freeAt = workMs > WORK_MS ? begun + workMs + Math.min(workMs, REST_MAX_MS) : 0;
    });
  }
}
