/** The registration of a worker, and its requests to the API. */

import { sleep } from './changes.js';
import { now } from './clock.js';
import { APIError, RejoinError, ResponseError } from './errors.js';
import type { Http } from './http.js';
import { type Limits, Pauses } from './limits.js';
import type { Logger } from './logger.js';
import type { Announcement, Registration, Request } from './requests.js';
import * as requests from './requests.js';

/** Beyond the time that a response may take, for its transfer. */
const TRANSFER_MS = 5000;

/** Whether the API itself has refused, so that the same request will not succeed later. */
export function isFinal(error: unknown): boolean {
  return !(error instanceof RejoinError) || (error instanceof APIError && error.final);
}

/** Whether the API does not know the registration. */
export function isUnknownWorker(error: unknown): boolean {
  return error instanceof APIError && error.status === 404 && error.code === 'worker_unknown';
}

/** A worker's connection to the API. `ended`: aborted when nothing more is to be sent; then requests reject with its reason. */
export class Connection {
  #registration: Registration | undefined;
  #registering: Promise<void> = Promise.resolve();
  #awaySinceMs: number | undefined;

  constructor(
    private readonly http: Http,
    readonly queue: string,
    private readonly announcement: Announcement,
    readonly limits: Limits,
    readonly logger: Logger,
    readonly ended: AbortSignal,
  ) {}

  get registration(): Registration {
    if (!this.#registration) throw new Error('the worker is not registered yet');
    return this.#registration;
  }

  get leaseMs(): number {
    return this.registration.leaseS * 1000;
  }

  get heartbeatMs(): number {
    return this.registration.heartbeatS * 1000;
  }

  /** Returns the pauses between the attempts of one request. They leave time for another attempt within a lease. */
  pauses(): Pauses {
    const pauseMaxMs = Math.min(this.limits.pauseMaxMs, this.#registration ? this.heartbeatMs : Infinity);
    return new Pauses({ ...this.limits, pauseMaxMs });
  }

  /** Registers, and waits for the API as long as it is away. `unknown`: the registration to replace, unless that has happened. */
  register(unknown?: Registration): Promise<void> {
    const registered = this.#registering.then(async () => {
      if (this.#registration === unknown) await this.#register(unknown === undefined);
    });
    this.#registering = registered.catch(() => undefined);
    return registered;
  }

  async #register(first: boolean): Promise<void> {
    const pauses = this.pauses();
    for (;;) {
      try {
        this.#registration = await this.run(requests.register(this.queue, this.announcement));
        break;
      } catch (error) {
        // A worker that has never been registered may have the URL of something else.
        if (isFinal(error) || (first && !(error as RejoinError).temporary)) throw error;
        await this.wait(pauses, error);
      }
    }
    this.logger.info(`worker ${this.announcement.name} serves queue ${this.queue} as ${this.#registration.workerId}`);
  }

  /** Sends a request once. */
  async run<T>(request: Request<T>, limitMs = this.limits.answerMs + TRANSFER_MS, signal = this.ended): Promise<T> {
    const response = await this.http.run(request, limitMs, signal);
    if (this.#awaySinceMs !== undefined) {
      this.logger.warn(`the API is back after ${((now() - this.#awaySinceMs) / 1000).toFixed(1)} s`);
      this.#awaySinceMs = undefined;
    }
    return response;
  }

  /** Claims calls, waiting for them at most as long as their leases surely last after they are here. */
  async claim(max: number, registration: Registration, signal: AbortSignal): Promise<requests.ClaimedCall[]> {
    const waitS = Math.min(registration.claimWaitMaxS, Math.max(1, Math.floor((registration.leaseS * 2) / 3)));
    const request = requests.claim(this.queue, registration.workerId, max, waitS);
    return (await this.run(request, waitS * 1000 + this.limits.answerMs + TRANSFER_MS, signal)).calls;
  }

  /** Waits before the next attempt after this error. */
  async wait(pauses: Pauses, error: unknown, longestMs = Infinity): Promise<void> {
    if (this.ended.aborted) return;
    const away = error instanceof RejoinError && (error.temporary || error instanceof ResponseError);
    if (this.#awaySinceMs === undefined && away) {
      this.#awaySinceMs = now();
      this.logger.warn(`${error.message}; trying again`);
    }
    const askedMs = error instanceof APIError ? (error.retryAfterS ?? 0) * 1000 : 0;
    await sleep(Math.min(longestMs, pauses.nextMs(Math.min(askedMs, this.limits.retryAfterMaxMs))), this.ended);
  }

  /** Ends the registration, if the API can be reached. Otherwise its lease expires. */
  async leave(limitMs: number): Promise<void> {
    const left = this.#registration;
    if (!left) return;
    try {
      // Also after the end.
      await this.run(requests.leave(this.queue, left.workerId), limitMs, new AbortController().signal);
    } catch (error) {
      if (error instanceof APIError && error.status === 404)
        this.logger.info('the API has removed the registration before');
      else this.logger.warn(`the worker could not sign off; the API notices within ${left.leaseS} s: ${String(error)}`);
    }
  }
}
