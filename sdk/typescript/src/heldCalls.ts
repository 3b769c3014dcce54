/**
 * The calls that this worker has: their leases, and why they are stopped. Pure: times are arguments.
 *
 * A call occupies its slot until its function has ended and its result is recorded or void, even if it was cancelled or lost before.
 *
 * Invariant: of a call that was cancelled or lost, nothing more is sent.
 */
import { CallCancelledError } from './errors.js';
import { type Completed, type Failed, failed, type Outcome, type Suspended } from './outcomes.js';
import type { ClaimedCall, HeartbeatAnswer } from './requests.js';

/** Why a function is stopped. */
export type Stop = 'cancelled' | 'timed out' | 'leaving' | 'lost';

const REASONS: Record<Stop, string> = {
  cancelled: 'its run does not want the result',
  'timed out': 'its time is used up',
  leaving: 'the worker ends',
  lost: 'another attempt has the call, or it has ended',
};

/** After these, the API does not want the result. */
const VOID: readonly Stop[] = ['cancelled', 'lost'];

/** One attempt of a call. */
export class HeldCall {
  readonly #cancellation = new AbortController();
  #stop: Stop | undefined;

  constructor(
    readonly call: ClaimedCall,
    /** The registration that has claimed it. */
    readonly workerId: string,
    /** When the API may give the call to another worker, unless a heartbeat renews the lease. It may do so later, never earlier. */
    public leaseUntilMs: number,
  ) {}

  /** Undefined: the function may go on. */
  get stop(): Stop | undefined {
    return this.#stop;
  }

  /** Whether nothing is to be sent. */
  get isVoid(): boolean {
    return this.#stop !== undefined && VOID.includes(this.#stop);
  }

  /** The function's view of `stop`. */
  get signal(): AbortSignal {
    return this.#cancellation.signal;
  }

  toString(): string {
    return `${this.call.tool} (call ${this.call.id}, attempt ${this.call.attempt})`;
  }

  /** Notes that the function should stop. Returns false if that is known; a call that is void remains so. */
  askToStop(why: Stop): boolean {
    const known = this.#stop !== undefined;
    if (!known || (!this.isVoid && VOID.includes(why))) this.#stop = why;
    this.#cancellation.abort(new CallCancelledError(`${this} should stop: ${REASONS[why]}`));
    return !known;
  }

  /** Returns what to record of this outcome. Undefined: nothing. */
  toRecord(outcome: Outcome): Completed | Failed | Suspended | undefined {
    if (this.isVoid) return undefined;
    if (outcome.kind !== 'interrupted') return outcome;
    if (this.#stop !== 'timed out') return undefined;
    return failed(`The tool did not end within ${this.call.timeoutS} s and was stopped. It may have had an effect.`);
  }
}

/** The attempts that occupy the slots of a worker. */
export class HeldCalls {
  readonly #held = new Map<string, HeldCall>();

  constructor(private readonly slots: number) {}

  get size(): number {
    return this.#held.size;
  }

  /** How many calls there is room for. */
  get free(): number {
    return Math.max(0, this.slots - this.#held.size);
  }

  all(): HeldCall[] {
    return [...this.#held.values()];
  }

  /** Adds a claimed call. Undefined: it is here already. */
  add(call: ClaimedCall, workerId: string, leaseUntilMs: number): HeldCall | undefined {
    if (this.#held.has(keyOf(call))) return undefined;
    const held = new HeldCall(call, workerId, leaseUntilMs);
    this.#held.set(keyOf(call), held);
    return held;
  }

  /** Returns earlier attempts of the same call: that this one was handed out means that they were lost. */
  earlier(held: HeldCall): HeldCall[] {
    return this.all().filter(({ call }) => call.id === held.call.id && call.attempt < held.call.attempt);
  }

  /** Frees the slot. */
  remove(held: HeldCall): void {
    this.#held.delete(keyOf(held.call));
  }

  /** Returns the attempts that a heartbeat names. */
  toRenew(): HeldCall[] {
    return this.all().filter((held) => !held.isVoid);
  }
}

/** Applies the response to a heartbeat that has named these attempts. Returns those to stop. */
export function renewed(sent: readonly HeldCall[], answer: HeartbeatAnswer, leaseUntilMs: number): [HeldCall, Stop][] {
  const stops: [HeldCall, Stop][] = [];
  for (const held of sent) {
    if (answer.lost.includes(held.call.id)) stops.push([held, 'lost']);
    else if (answer.cancelled.includes(held.call.id)) stops.push([held, 'cancelled']);
    else held.leaseUntilMs = leaseUntilMs;
  }
  return stops;
}

function keyOf(call: ClaimedCall): string {
  return `${call.id} ${call.attempt}`;
}
