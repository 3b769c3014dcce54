/** Timeouts and retries of a worker, and the pauses between retries. Pure: random numbers are an argument. */

export interface Limits {
  /** Longest wait for a response, beyond the time that a claim may wait. */
  readonly answerMs: number;
  /** How long the result of a call is sent again while the API is unreachable or busy. */
  readonly retryMs: number;
  /** Largest pause before the first retry. It doubles with each further one; the pause is a random part of it. */
  readonly pauseMinMs: number;
  /** Largest pause between two retries, unless the server sends `Retry-After`. */
  readonly pauseMaxMs: number;
  /** Largest `Retry-After` that is respected. */
  readonly retryAfterMaxMs: number;
}

export const LIMITS: Limits = {
  answerMs: 30_000,
  retryMs: 120_000,
  pauseMinMs: 250,
  pauseMaxMs: 10_000,
  retryAfterMaxMs: 30_000,
};

const DOUBLINGS_MAX = 16;

/** The pauses between the attempts of one request. They are random, so that workers that lost the same server do not all return at once. */
export class Pauses {
  #attempt = 0;

  constructor(
    private readonly limits: Pick<Limits, 'pauseMinMs' | 'pauseMaxMs'>,
    private readonly random: () => number = Math.random,
  ) {}

  /** The last attempt was successful. */
  reset(): void {
    this.#attempt = 0;
  }

  /** Returns the next pause. `atLeastMs` is the server's `Retry-After`. */
  nextMs(atLeastMs = 0): number {
    const window = this.limits.pauseMinMs * 2 ** Math.min(this.#attempt++, DOUBLINGS_MAX);
    return Math.max(atLeastMs, this.random() * Math.min(this.limits.pauseMaxMs, window));
  }
}
