/**
 * One call, from its claim to its recorded result.
 *
 * Invariants:
 * - A function begins only while the lease of its call surely lasts.
 * - A function begins with all the steps that earlier executions have recorded.
 * - A result is sent until the API has confirmed or refused it. What is sent twice, or too late, the API recognizes by the attempt.
 */
import { CallContext } from './callContext.js';
import type { Changes } from './changes.js';
import { now } from './clock.js';
import { type Connection, isFinal } from './connection.js';
import { APIError, CallCancelledError, ResponseError } from './errors.js';
import { type AnyTool, callTool } from './handler.js';
import type { HeldCall, HeldCalls, Stop } from './heldCalls.js';
import { type Completed, type Failed, failed, type Outcome, type Suspended, text } from './outcomes.js';
import { Records } from './records.js';
import * as requests from './requests.js';
import { Journal, type RecordedStep } from './steps.js';

/** How long a result waits for a message about progress that was sent before it. */
const PROGRESS_LIMIT_MS = 2000;
/** Statuses by which the API refuses an output, or what a function waits for. */
const REFUSED = [400, 409, 413, 415, 422];

/** Executes calls. */
export class Execution {
  /** Whether further calls are handed back. */
  draining = false;
  readonly #running = new Set<HeldCall>();
  /** The next message of each call that has one, or is sending one. */
  readonly #messages = new Map<HeldCall, string | undefined>();
  readonly #records = new Records(
    (request) => this.connection.run(request, this.connection.leaseMs),
    () => this.connection.registration.recordsMax,
  );

  constructor(
    private readonly connection: Connection,
    private readonly tools: ReadonlyMap<string, AnyTool>,
    private readonly held: HeldCalls,
    private readonly changes: Changes,
    /** Asks for a heartbeat at once. */
    private readonly beat: () => void,
  ) {}

  /** Begins to execute a call. */
  accept(call: requests.ClaimedCall, workerId: string, leaseUntilMs: number): void {
    const held = this.held.add(call, workerId, leaseUntilMs);
    if (!held) return;
    for (const earlier of this.held.earlier(held)) this.stop(earlier, 'lost');
    void this.#execute(held);
    this.changes.notify();
  }

  /** Stops a call's function. */
  stop(held: HeldCall, why: Stop): void {
    if (held.askToStop(why) && this.#running.has(held))
      this.connection.logger.warn((held.signal.reason as Error).message);
    this.changes.notify();
  }

  /** Stops all functions. */
  close(): void {
    for (const held of this.held.all()) this.stop(held, 'leaving');
  }

  get #ended(): boolean {
    return this.connection.ended.aborted;
  }

  async #execute(held: HeldCall): Promise<void> {
    try {
      await this.#record(held, await this.#outcome(held));
    } catch (error) {
      if (!this.#ended) this.connection.logger.error(`${held} has failed in the worker`, error);
    } finally {
      this.held.remove(held);
      this.changes.notify();
    }
  }

  async #outcome(held: HeldCall): Promise<Outcome> {
    const { call } = held;
    const tool = this.tools.get(call.tool);
    if (tool?.version !== call.version)
      return failed(`This worker does not have version ${call.version} of the tool ${call.tool}.`, true);
    if (this.draining) return failed('The worker was stopping when it got the call.', true);
    let recorded: RecordedStep[];
    try {
      recorded = await this.#recordedSteps(held);
    } catch (error) {
      if (this.#ended || error instanceof CallCancelledError) return { kind: 'interrupted' };
      return failed(`The steps of this call could not be read: ${(error as Error).message}`, true);
    }
    if (now() >= held.leaseUntilMs) {
      // The process was paused, or the response took long. A heartbeat finds out whether the call is still here.
      this.beat();
      await this.changes.until(() => held.stop !== undefined || now() < held.leaseUntilMs);
    }
    if (held.stop !== undefined) return { kind: 'interrupted' };
    const context = new CallContext(
      {
        ...call,
        runId: call.runId ?? null,
        conversationId: call.conversationId ?? null,
        signal: held.signal,
        journal: new Journal(recorded),
      },
      {
        progress: (message) => this.#report(held, message),
        store: (checkpoint) => this.#store(held, requests.checkpoint(this.#attempt(held), checkpoint)),
        record: (step) => this.#store(held, requests.step(this.#attempt(held), step)),
        write: (piece) => this.#store(held, requests.write(this.#attempt(held), piece)),
      },
    );
    this.#running.add(held);
    const timer = setTimeout(() => this.stop(held, 'timed out'), call.timeoutS * 1000);
    try {
      return await callTool(tool, call.input, context, this.connection.logger);
    } finally {
      clearTimeout(timer);
      this.#running.delete(held);
    }
  }

  /** Sends the result. */
  async #record(held: HeldCall, outcome: Outcome): Promise<void> {
    await this.changes.until(() => !this.#messages.has(held), PROGRESS_LIMIT_MS);
    const result = held.toRecord(outcome);
    const instead = result && (await this.#recordOne(held, result));
    if (instead) await this.#recordOne(held, instead);
  }

  /** Sends a result. If the API refuses it, returns what to send instead. */
  async #recordOne(held: HeldCall, result: Completed | Failed | Suspended): Promise<Failed | undefined> {
    const { logger } = this.connection;
    try {
      await this.#sendSurely(held, requests.result(this.#attempt(held), result));
    } catch (error) {
      if (this.#ended) return undefined;
      if (error instanceof CallCancelledError) logger.warn(`a result is not sent again: ${error.message}`);
      else return this.#afterRefusal(held, result, error);
    }
    return undefined;
  }

  /** Returns what to send instead of a result that the API has not recorded. Undefined: nothing. */
  #afterRefusal(held: HeldCall, result: Completed | Failed | Suspended, error: unknown): Failed | undefined {
    const { logger } = this.connection;
    if (result.kind !== 'failed' && error instanceof APIError && REFUSED.includes(error.status)) {
      if (result.kind === 'completed') {
        logger.error(`${held}: the API refuses its output: ${error.message}`);
        return failed(`The tool has completed, but its output was refused: ${error.detail}`);
      }
      logger.error(`${held}: the API refuses what it waits for: ${error.message}`);
      const names = new Set(result.steps.map(({ name }) => name));
      return failed(`The tool can't wait for ${[...names].join(', ')}: ${error.detail}`);
    }
    logger.error(`${held}: its result can't be recorded: ${String(error)}`);
    return undefined;
  }

  /** Returns the steps that earlier executions of a call have recorded. */
  async #recordedSteps(held: HeldCall): Promise<RecordedStep[]> {
    const found: RecordedStep[] = [];
    while (found.length < held.call.steps) {
      const page = await this.#sendSurely(held, requests.steps(this.#attempt(held), found.at(-1)?.number ?? 0));
      // A function that lacks some would repeat them.
      if (page.items.length === 0)
        throw new ResponseError(`the call has ${held.call.steps} steps, and only ${found.length} are listed`);
      found.push(...page.items);
    }
    return found;
  }

  #attempt({ workerId, call }: HeldCall): requests.Attempt {
    return { queue: this.connection.queue, workerId, id: call.id, attempt: call.attempt };
  }

  /**
   * Sends a request about a call until it is confirmed, and returns the response. Rejects with a `CallCancelledError` if nothing is to be
   * sent, and with the error if the API refuses the request, or is away for too long.
   */
  async #sendSurely<T>(held: HeldCall, request: requests.Request<T>): Promise<T> {
    const limitMs = now() + this.connection.limits.retryMs;
    const pauses = this.connection.pauses();
    for (;;) {
      if (held.isVoid) throw held.signal.reason;
      this.connection.ended.throwIfAborted();
      try {
        return await this.#records.send(request);
      } catch (error) {
        if (isStale(error)) {
          this.stop(held, 'lost');
          throw new CallCancelledError(`${held} was lost: ${error.message}`, { cause: error });
        }
        // The lease is renewed while only this request fails. Later than that, the API decides whether the result comes too late.
        if (isFinal(error) || now() > Math.max(limitMs, held.leaseUntilMs)) throw error;
        await this.connection.wait(pauses, error);
      }
    }
  }

  /** Sends a message about progress. It replaces one that was not sent yet. */
  #report(held: HeldCall, message: string): void {
    if (held.isVoid || !this.#running.has(held)) return;
    const isSending = this.#messages.has(held);
    this.#messages.set(held, text(String(message)));
    if (!isSending) void this.#sendMessages(held);
  }

  async #sendMessages(held: HeldCall): Promise<void> {
    for (;;) {
      const message = this.#messages.get(held);
      if (message === undefined || held.isVoid || this.#ended) break;
      this.#messages.set(held, undefined);
      try {
        await this.connection.run(requests.progress(this.#attempt(held), message), this.connection.leaseMs);
      } catch (error) {
        if (isStale(error)) this.stop(held, 'lost');
        else if (!this.#ended) this.connection.logger.info(`${held}: a message was not sent: ${String(error)}`);
      }
    }
    this.#messages.delete(held);
    this.changes.notify();
  }

  /** Stores a checkpoint or a step. */
  async #store(held: HeldCall, request: requests.Request<unknown>): Promise<void> {
    if (!this.#running.has(held)) throw new CallCancelledError(`${held} has ended`);
    await this.#sendSurely(held, request);
  }
}

/** Whether the attempt no longer has its call. */
function isStale(error: unknown): error is APIError {
  return error instanceof APIError && error.code === 'stale_attempt';
}
