/** One stay of a worker at the API: it registers, claims calls, sends heartbeats, and leaves in order. */
import { Changes } from './changes.js';
import { now } from './clock.js';
import { type Connection, isFinal, isUnknownWorker } from './connection.js';
import { Execution } from './execution.js';
import type { AnyTool } from './handler.js';
import { HeldCalls, renewed } from './heldCalls.js';
import type { Registration } from './requests.js';
import * as requests from './requests.js';

/** How long the response to a claim may take after the API has confirmed that the worker gets no further calls. */
const LAST_CLAIM_MS = 1000;
/** How long functions may take to stop when the worker leaves. */
const STOP_LIMIT_MS = 2000;
const LEAVE_LIMIT_MS = 3000;
/** The smallest duration of a claim without calls: a server that does not wait is not asked again and again. */
const CLAIM_MIN_MS = 250;

export class Session {
  readonly #changes = new Changes();
  readonly #held: HeldCalls;
  readonly #execution: Execution;
  readonly #claiming = new AbortController();
  #failure: { readonly error: unknown } | undefined;
  #registered = false;
  #beatNow = false;
  #drainConfirmed = false;
  #claimsEnded = false;

  constructor(
    private readonly connection: Connection,
    tools: ReadonlyMap<string, AnyTool>,
    slots: number,
    private readonly drainTimeoutMs: number,
    /** Ends the connection. */
    private readonly end: () => void,
  ) {
    this.#held = new HeldCalls(slots);
    this.#execution = new Execution(connection, tools, this.#held, this.#changes, () => this.#beat());
  }

  /**
   * Serves until `stop` is aborted, or until the API refuses the worker: rejects with its error. Returns how many functions have not ended.
   */
  async run(stop: AbortSignal | undefined): Promise<number> {
    const stopped = () => this.#changes.notify();
    stop?.addEventListener('abort', stopped);
    const live = this.#live();
    try {
      await this.#changes.until(() => stop?.aborted === true || this.#failure !== undefined);
      if (this.#registered && !this.#failure) await this.#drain();
    } finally {
      stop?.removeEventListener('abort', stopped);
      this.#execution.close();
      this.#claiming.abort();
      this.end();
      this.#changes.notify();
      await live;
      await this.connection.leave(LEAVE_LIMIT_MS);
    }
    if (this.#failure) throw this.#failure.error;
    return this.#held.size;
  }

  get #ended(): boolean {
    return this.connection.ended.aborted;
  }

  async #live(): Promise<void> {
    try {
      await this.connection.register();
      this.#registered = true;
      await Promise.all([this.#heartbeats(), this.#claims()]);
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!this.#ended) this.#failure ??= { error };
    this.#changes.notify();
  }

  /** Registers again if the API does not know the worker. Rejects if the worker has to end. */
  async #recover(error: unknown, registration: Registration): Promise<boolean> {
    if (isUnknownWorker(error)) {
      this.connection.logger.warn('the API has lost this registration; registering again');
      await this.connection.register(registration);
      return true;
    }
    if (isFinal(error)) throw error;
    return false;
  }

  #beat(): void {
    this.#beatNow = true;
    this.#changes.notify();
  }

  /** Sends heartbeats while there are calls, and when they are asked for. */
  async #heartbeats(): Promise<void> {
    const hasCalls = () => this.#held.toRenew().length > 0;
    const isDue = () => this.#ended || this.#beatNow;
    const pauses = this.connection.pauses();
    let nextMs = 0;
    while (!this.#ended) {
      if (!hasCalls()) {
        await this.#changes.until(() => isDue() || hasCalls());
        // The lease of a new call has just begun.
        nextMs = now() + this.connection.heartbeatMs;
      }
      await this.#changes.until(isDue, nextMs - now());
      if (this.#ended) return;
      if (!this.#beatNow && !hasCalls()) continue;
      this.#beatNow = false;
      nextMs = now() + this.connection.heartbeatMs;
      const { registration } = this.connection;
      try {
        await this.#heartbeat(registration);
        pauses.reset();
      } catch (error) {
        if (this.#ended) return;
        if (!(await this.#recover(error, registration)))
          await this.connection.wait(pauses, error, this.connection.heartbeatMs);
        this.#beatNow = true;
      }
    }
  }

  async #heartbeat({ workerId, leaseS }: Registration): Promise<void> {
    const beganMs = now();
    const sent = this.#held.toRenew();
    const { draining } = this.#execution;
    const calls = sent.map(({ call }) => call);
    const request = requests.heartbeat(this.connection.queue, workerId, calls, draining);
    const answer = await this.connection.run(request, (leaseS * 1000) / 2);
    for (const [held, why] of renewed(sent, answer, beganMs + leaseS * 1000)) this.#execution.stop(held, why);
    this.#drainConfirmed ||= draining;
    this.#changes.notify();
  }

  async #claims(): Promise<void> {
    try {
      await this.#claim();
    } finally {
      this.#claimsEnded = true;
      this.#changes.notify();
    }
  }

  async #claim(): Promise<void> {
    const pauses = this.connection.pauses();
    const isOver = () => this.#execution.draining || this.#ended;
    for (;;) {
      await this.#changes.until(() => isOver() || this.#held.free > 0);
      if (isOver()) return;
      const { registration, leaseMs } = this.connection;
      const beganMs = now();
      try {
        const calls = await this.connection.claim(this.#held.free, registration, this.#claiming.signal);
        pauses.reset();
        for (const call of calls) this.#execution.accept(call, registration.workerId, beganMs + leaseMs);
        if (calls.length === 0) await this.#changes.until(isOver, beganMs + CLAIM_MIN_MS - now());
      } catch (error) {
        if (this.#claiming.signal.aborted) return;
        if (!(await this.#recover(error, registration))) await this.connection.wait(pauses, error);
      }
    }
  }

  /** Ends the calls that are here, and takes no others. */
  async #drain(): Promise<void> {
    const { logger } = this.connection;
    this.#execution.draining = true;
    this.#beat();
    logger.info(`the worker stops; calls that are to end: ${this.#held.size}`);
    const untilMs = now() + this.drainTimeoutMs;
    const orFailure = (condition: () => boolean) => () => condition() || this.#failure !== undefined;
    const within = (limitMs: number) => Math.min(limitMs, untilMs - now());
    // A claim that is cut off might have calls in its response, which would be lost.
    const confirmed = orFailure(() => this.#drainConfirmed);
    const claimed = orFailure(() => this.#claimsEnded);
    if (await this.#changes.until(confirmed, within(this.connection.heartbeatMs)))
      await this.#changes.until(claimed, within(LAST_CLAIM_MS));
    this.#claiming.abort();
    const ended = orFailure(() => this.#held.size === 0);
    if (await this.#changes.until(ended, untilMs - now())) return;
    logger.warn(
      `calls that have not ended within ${this.drainTimeoutMs / 1000} s are left: ${this.#held.all().join(', ')}`,
    );
    this.#execution.close();
    await this.#changes.until(() => this.#held.size === 0, STOP_LIMIT_MS);
  }
}
