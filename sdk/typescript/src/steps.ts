/**
 * Steps of a durable function: what it has done and what it waits for, recorded once. Pure.
 *
 * A function that begins again, after a lost worker or after a wait, gets the recorded results.
 *
 * Invariants:
 * - The n-th step of a function is the same in all its executions. `Journal` throws a `StepChangedError` where it is not.
 * - A function that waits asks for no further steps: `Journal` throws the same `Suspend` again.
 */
import { z } from 'zod';
import { SignalTimeoutError, StepChangedError, StepFailedError, StepOutcomeUnknownError } from './errors.js';
import { limitedJson, ofError, text, type Wait } from './outcomes.js';
import { type Schema, shapeOf } from './schemas.js';

/** Maximum size of a step's output, and of what a step asks for, in bytes of JSON. */
export const STEP_MAX_BYTES = 256 * 1024;
export const STEPS_MAX = 1000;
/** Maximum length of a step's name, in characters. */
export const NAME_MAX = 200;
/** Maximum duration of a sleep and of a wait for a signal: a year. */
const WAIT_MAX_S = 365 * 86_400;

export type StepKind = 'function' | 'sleep' | 'event' | 'question' | 'agent' | 'model';

/** A step that an earlier execution has recorded. */
export interface RecordedStep {
  readonly number: number;
  readonly name: string;
  /** `function`, `sleep`, `event`, `question`, `agent` or `model`. */
  readonly kind: string;
  /** `begun`, `completed` or `error`. */
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string | null | undefined;
}

/** A step that the worker executes: it begins, or has ended. */
export interface EndedStep {
  readonly number: number;
  readonly name: string;
  readonly status: 'begun' | 'completed' | 'error';
  readonly output?: unknown;
  readonly error?: string;
}

/** A step that a function asks for. */
export interface NextStep {
  readonly number: number;
  readonly name: string;
  /** Undefined: no earlier execution has recorded it. */
  readonly recorded: RecordedStep | undefined;
}

/** What an agent has done that a function started. */
export interface AgentResult {
  readonly runId: string;
  readonly agent: string | null;
  /** `completed`, `paused`, `failed` or `cancelled`. */
  readonly status: string;
  /** Its answer. */
  readonly summary: string | null;
  /** How many steps it took. */
  readonly steps: number;
  /** Why it failed. */
  readonly error: string | null;
}

/** An answer to choose from. */
export interface QuestionOption {
  readonly label: string;
  readonly value: string;
  readonly description?: string;
}

export interface AskOptions {
  /** Answers to choose from: texts, or labels with values. Without them, the user writes a text. */
  readonly options?: readonly (string | QuestionOption)[];
  /** The user may choose several options. */
  readonly multiple?: boolean;
  /** Shown while the text is empty. */
  readonly placeholder?: string;
  /** Maximum length of the text, in characters. */
  readonly maxLength?: number;
}

/**
 * Leaves a function that waits: its call is handed back until these steps have ended, and the function begins again then.
 *
 * Not an `Error`, so that code that looks for errors does not take it for one.
 */
export class Suspend {
  constructor(readonly steps: readonly Wait[]) {}

  toString(): string {
    return `the function waits for ${this.steps.map(({ name }) => name).join(', ')}, and begins again then`;
  }
}

/** The steps of one execution. In a unit test of a tool: `new Journal([{ number: 1, … }])` has the results of waits. */
export class Journal {
  readonly #recorded: ReadonlyMap<number, RecordedStep>;
  readonly #executing = new Set<Promise<unknown>>();
  #last = 0;
  #suspension: Suspend | undefined;

  constructor(recorded: Iterable<RecordedStep> = []) {
    this.#recorded = new Map([...recorded].map((step) => [step.number, step]));
  }

  /**
   * Returns the next step. Throws a `StepChangedError` if an earlier execution had another one here, a `RangeError` if its name is too long or
   * the function has too many steps, and `Suspend` if the function waits.
   */
  next(name: string, kind: StepKind): NextStep {
    if (this.#suspension) throw this.#suspension;
    // As it is recorded.
    const stored = text(name);
    const { length } = [...stored];
    if (length < 1 || length > NAME_MAX)
      throw new RangeError(`the name of a step has 1 to ${NAME_MAX} characters, not ${length}`);
    const number = ++this.#last;
    if (number > STEPS_MAX)
      throw new RangeError(`a function has at most ${STEPS_MAX} steps; start another tool or agent for the rest`);
    const recorded = this.#recorded.get(number);
    if (recorded && (recorded.name !== stored || recorded.kind !== kind))
      throw new StepChangedError(
        `step ${number} was ${JSON.stringify(recorded.name)} (${recorded.kind}) in an earlier execution, and is ` +
          `${JSON.stringify(stored)} (${kind}) now: a function must ask for the same steps each time. ` +
          'Give a changed function another version',
      );
    return { number, name: stored, recorded };
  }

  /** Notes that a step is executed: the call is not handed back before it has ended. */
  async executing<T>(step: Promise<T>): Promise<T> {
    this.#executing.add(step);
    try {
      return await step;
    } finally {
      this.#executing.delete(step);
    }
  }

  /** Notes that the function waits for these steps. Returns what to throw. */
  suspend(steps: readonly Wait[]): Suspend {
    this.#suspension = new Suspend(steps);
    return this.#suspension;
  }

  /** Whether the function waits. */
  get isSuspended(): boolean {
    return this.#suspension !== undefined;
  }

  /** Throws `Suspend` if the function waits, unless a step that it had begun before is still executed. */
  throwIfSuspended(): void {
    if (this.#suspension && this.#executing.size === 0) throw this.#suspension;
  }

  /** Returns what the function waits for, after the end of the steps that are executed. Undefined: it does not wait. */
  async suspended(): Promise<Suspend | undefined> {
    if (this.#suspension) await Promise.allSettled(this.#executing);
    return this.#suspension;
  }
}

/** Returns the output of a recorded step. Throws what it has thrown. */
export function resultOf({ number, name, status, output, error }: RecordedStep): unknown {
  if (status === 'begun')
    throw new StepOutcomeUnknownError(
      `the worker was lost during step ${number}, ${JSON.stringify(name)}, which may have taken effect; it was not repeated`,
    );
  if (status === 'error') throw new StepFailedError(error || `step ${JSON.stringify(name)} has failed`);
  return output ?? null;
}

/** Returns the result of a step as JSON. Throws a `TypeError` or a `RangeError` if it can't be recorded. */
export function outputJson(name: string, output: unknown): unknown {
  return limitedJson(
    `the result of step ${JSON.stringify(name)}`,
    output === undefined ? null : output,
    STEP_MAX_BYTES,
  );
}

/** Returns what is recorded of a step that has thrown this. */
export function failureText(error: unknown): string {
  if (error instanceof Suspend)
    return "A step can't contain steps: call step, sleep, waitForEvent, askUser, model, spawn and map outside of it.";
  return error instanceof StepFailedError ? text(error.message) : ofError(error).error;
}

/** Returns a step that others execute. Throws a `TypeError` or a `RangeError` if what it asks for can't be sent. */
export function waitOf({ number, name }: NextStep, wait: object): Wait {
  return { number, name, wait: limitedJson(`what step ${JSON.stringify(name)} asks for`, wait, STEP_MAX_BYTES) };
}

/** Waits for a time. One that has passed is a step, too: the next execution may find that it has. */
export function sleep(seconds: number): object {
  return { kind: 'sleep', seconds: secondsOf(Math.max(0, seconds)) };
}

/** Waits for a signal. */
export function event(name: string, timeoutS: number | undefined): object {
  return { kind: 'event', event: name, timeoutS: timeoutS === undefined ? undefined : secondsOf(timeoutS) };
}

/** Asks a user. */
export function question(asked: string, { options = [], multiple, placeholder, maxLength }: AskOptions): object {
  const choices = options.map((option) => (typeof option === 'string' ? { label: option, value: option } : option));
  const interactionType = multiple ? 'multi_select' : undefined;
  return { kind: 'question', question: asked, options: choices, interactionType, placeholder, maxLength };
}

/** Returns the name of the step that asks a question. */
export function questionName(asked: string): string {
  return [...asked].slice(0, NAME_MAX).join('');
}

/** Starts an agent. */
export function agent(name: string, task: string, timeoutS: number | undefined, schema: Schema | undefined): object {
  // Its answer, before zod parses it.
  const outputSchema = schema && shapeOf(schema, 'input', `agent ${name}: outputSchema`).jsonSchema;
  return { kind: 'agent', agent: name, task, timeoutS, outputSchema };
}

const answer = z.object({ answer: z.unknown() });
const signal = z.object({ data: z.unknown() });
const agentResult: z.ZodType<AgentResult> = z.object({
  runId: z.string(),
  agent: z.string().nullable().default(null),
  status: z.string(),
  summary: z.string().nullable().default(null),
  steps: z.number().default(0),
  error: z.string().nullable().default(null),
});

/** Returns what the user has answered. */
export function answerOf(output: unknown): unknown {
  return answer.parse(output).answer;
}

/** Returns the data of a signal. Throws a `SignalTimeoutError` if it did not come in time. */
export function dataOf(name: string, output: unknown): unknown {
  if (output === null) throw new SignalTimeoutError(`no signal ${JSON.stringify(name)} came in time`);
  return signal.parse(output).data;
}

/** Returns what an agent has done. */
export function agentResultOf(output: unknown): AgentResult {
  return agentResult.parse(output);
}

function secondsOf(seconds: number): number {
  if (!(seconds >= 0 && seconds <= WAIT_MAX_S))
    throw new RangeError(`a wait takes 0 to ${WAIT_MAX_S} seconds, which is a year, not ${seconds}`);
  return seconds;
}
