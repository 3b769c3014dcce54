/** What a tool's function can know and do about its call: its second argument. */
import { Answer, type Emitted, eventOf, type Piece } from './answers.js';
import { StepFailedError } from './errors.js';
import {
  type ModelAnswer,
  type ModelOptions,
  type ModelOutputOf,
  modelAnswerOf,
  modelCall,
  type Prompt,
} from './modelCalls.js';
import { checkpointJson, isOfAbort } from './outcomes.js';
import type { Schema } from './schemas.js';
import * as steps from './steps.js';
import {
  type AgentResult,
  type AskOptions,
  type EndedStep,
  Journal,
  type NextStep,
  type StepKind,
  Suspend,
} from './steps.js';

/** How a context reaches its worker. */
export interface Link {
  progress(message: string): void;
  store(checkpoint: unknown): Promise<void>;
  record(step: EndedStep): Promise<void>;
  write(piece: Piece): Promise<void>;
}

/** The fields of a context, for unit tests of tools: `new CallContext({ attempt: 2 })`. */
export interface CallFields {
  readonly id?: string;
  readonly attempt?: number;
  readonly idempotencyKey?: string;
  readonly runId?: string | null;
  readonly conversationId?: string | null;
  readonly tool?: string;
  readonly version?: string;
  readonly timeoutS?: number;
  readonly checkpoint?: unknown;
  readonly signal?: AbortSignal;
  /** Has the results of steps: `new Journal([{ number: 1, name: 'sleep', kind: 'sleep', status: 'completed' }])`. */
  readonly journal?: Journal;
}

export interface StepOptions {
  /** The step may be repeated, so that it is not recorded before it begins. */
  readonly idempotent?: boolean;
}

export interface EventOptions {
  /** How long the function waits, in seconds, at most a year. Default: without a limit. */
  readonly timeoutS?: number;
}

export interface SpawnOptions {
  /** Seconds after which the agent must sum up. */
  readonly timeoutS?: number;
  /** What its answer is to match: a schema of zod, or a JSON Schema. */
  readonly outputSchema?: Schema;
}

/**
 * The context of a call. Made by hand it is one for unit tests, which sends nothing.
 *
 * A wait (`sleep`, `waitForEvent`, `askUser`, `model`, `spawn`, `map`) leaves the function: without a recorded result, it rejects with an object that is
 * not an `Error`; if code catches it, the call waits all the same, whatever the function returns or throws then.
 */
export class CallContext {
  /** The call. All its attempts have the same id. */
  readonly id: string;
  /** How often the call was handed out. */
  readonly attempt: number;
  /** A key for the systems that the function changes: the same in all attempts. */
  readonly idempotencyKey: string;
  /** The run of the agent that has called. Null: an MCP client has called. */
  readonly runId: string | null;
  /** The conversation of that run, if it has one. */
  readonly conversationId: string | null;
  /** The name of the tool. */
  readonly tool: string;
  /** The version of the tool. */
  readonly version: string;
  /** Maximum duration of this attempt, in seconds. */
  readonly timeoutS: number;
  /**
   * Aborted when the function should stop: its run was cancelled, its time is used up, the worker ends, or another attempt has the call.
   * Pass it to `fetch` and to everything else that takes one; the reason is a `CallCancelledError`.
   */
  readonly signal: AbortSignal;
  /** The steps of this execution. */
  readonly journal: Journal;
  readonly #link: Link | undefined;
  readonly #answer: Answer;
  #checkpoint: unknown;

  constructor(fields: CallFields = {}, link?: Link) {
    this.id = fields.id ?? 'call';
    this.attempt = fields.attempt ?? 1;
    this.idempotencyKey = fields.idempotencyKey ?? this.id;
    this.runId = fields.runId ?? null;
    this.conversationId = fields.conversationId ?? null;
    this.tool = fields.tool ?? '';
    this.version = fields.version ?? '1';
    this.timeoutS = fields.timeoutS ?? 60;
    this.signal = fields.signal ?? new AbortController().signal;
    this.journal = fields.journal ?? new Journal();
    this.#checkpoint = fields.checkpoint ?? null;
    this.#link = link;
    this.#answer = new Answer(link && ((piece) => link.write(piece)), !link || this.runId !== null);
  }

  /** What was stored last, by this attempt or an earlier one. Null: nothing. */
  get checkpoint(): unknown {
    return this.#checkpoint;
  }

  /** Shows a message to people. It does not wait: if messages follow each other fast, the newest is sent. */
  readonly progress = (message: string): void => {
    this.journal.throwIfSuspended();
    this.#link?.progress(message);
  };

  /**
   * Stores any JSON but null, at most 256 KiB, for the next attempt. It is stored when the promise is fulfilled.
   *
   * A call with a checkpoint is handed out again after a lost worker: begin by looking at `checkpoint`, and continue from there.
   *
   * Rejects with a `CallCancelledError` if the call was cancelled, or another attempt has it, and with a `TypeError` or `RangeError` if the
   * value is not JSON or too large.
   */
  readonly saveCheckpoint = async (value: unknown): Promise<void> => {
    this.journal.throwIfSuspended();
    const checkpoint = checkpointJson(value);
    await this.#link?.store(checkpoint);
    this.#checkpoint = checkpoint;
  };

  /** What this execution has written of its answer, for unit tests. */
  get written(): string {
    return this.#answer.written;
  }

  /**
   * Adds text to the answer of an agent: its readers get it at once, as the tokens of a model. It is time for more when the promise is fulfilled.
   *
   * It is called within a step. What a step has written stays when it completes, and is taken back if it fails or its worker is lost. The
   * result of the function follows what was written; it may be undefined, or the same text.
   *
   * Rejects outside of a step and while several run, and with an `APIError` if the function is not that of an agent.
   */
  readonly write = async (text: string): Promise<void> => {
    this.journal.throwIfSuspended();
    this.signal.throwIfAborted();
    await this.#answer.write(text);
  };

  /** The events that this execution has emitted, for unit tests. */
  get emitted(): readonly Emitted[] {
    return this.#answer.emitted;
  }

  /**
   * Puts an event into the log of the run: its readers get it at once, in order with the answer, as `custom`. It is time for more when the promise
   * is fulfilled; outside of a step, the event is published then.
   *
   * `name`: 1 to 64 letters, digits, `_`, `.`, `:` and `-`. `data`: any JSON, at most 256 KiB. A call of an MCP client has no readers.
   *
   * What a function emits again after a lost worker or a wait is not published twice: the n-th event of a step, and the n-th one outside of steps,
   * is the same in all executions. In the function of an agent, what a step has emitted is taken back with its text if the step fails or its
   * worker is lost.
   *
   * Rejects while several steps run, with a `TypeError` or a `RangeError` if the event can't be sent, with a `CallCancelledError` if the call was
   * cancelled or another attempt has it, and with an `APIError` if the API refuses the event.
   */
  readonly emit = async (name: string, data?: unknown): Promise<void> => {
    this.journal.throwIfSuspended();
    this.signal.throwIfAborted();
    await this.#answer.emit(eventOf(name, data));
  };

  /**
   * Calls a function once, and returns its result as JSON, at most 256 KiB: a date becomes a text.
   *
   * The result is recorded: when this tool begins again, after a lost worker or a wait, the step returns it. A step that is not `idempotent`
   * is recorded before it begins, too: if the worker is lost in between, it is not repeated. A step can't contain other steps.
   *
   * Rejects with a `StepFailedError` if the function throws, now or in an earlier execution; with a `StepOutcomeUnknownError` if it may have
   * taken effect; and with a `StepChangedError` if an earlier execution of this call had another step here.
   */
  readonly step = <R>(name: string, run: () => R | Promise<R>, options: StepOptions = {}): Promise<R> =>
    asked(() => this.#result(this.journal.next(name, 'function'), run, options.idempotent ?? false));

  /** Waits, without a slot of a worker: the tool begins again when the time is over. At most a year. */
  readonly sleep = (seconds: number, name = 'sleep'): Promise<void> =>
    asked(() => void this.#output('sleep', name, steps.sleep(seconds)));

  /**
   * Waits until a program sends a signal of this name to the run, without a slot of a worker, and returns its data.
   *
   * Rejects with a `SignalTimeoutError` if it does not come in time.
   */
  readonly waitForEvent = (name: string, { timeoutS }: EventOptions = {}): Promise<unknown> =>
    asked(() => steps.dataOf(name, this.#output('event', name, steps.event(name, timeoutS))));

  /**
   * Asks the user of the run, waits without a slot of a worker, and returns the answer: a text, or the value of an option; with `multiple`, a
   * list of values.
   *
   * Rejects with a `StepFailedError` if there is none in time.
   */
  readonly askUser = <O extends AskOptions = Record<never, never>>(
    question: string,
    options?: O,
  ): Promise<AnswerOf<O>> =>
    asked(() => {
      const output = this.#output('question', steps.questionName(question), steps.question(question, options ?? {}));
      return steps.answerOf(output) as AnswerOf<O>;
    });

  /**
   * Asks a language model of the server, waits without a slot of a worker, and returns its answer.
   *
   * The server's keys, prices, limits and budgets apply; the program needs no key of a provider. Readers get the words at once, as those of a
   * sub-agent with the `name`. The answer is recorded: when this tool begins again, the model is not asked again. With `outputSchema`, the answer
   * has `output`, as zod has parsed it. What is asked has at most 256 KiB.
   *
   * Rejects with a `StepFailedError`, with the reason, if the model has not answered: there is no such model, it has no key, its provider has
   * failed, a limit is reached; and with a `TypeError` or a `RangeError`, with what to change, if it can't be asked this.
   */
  readonly model = <S extends Schema | undefined = undefined>(
    prompt: Prompt,
    options: ModelOptions<S> = {},
  ): Promise<ModelAnswer<ModelOutputOf<S>>> =>
    asked(() => {
      const { name = 'model', ...others } = options;
      const { wait, shape } = modelCall(prompt, others);
      const answer = modelAnswerOf(this.#output('model', name, wait), shape);
      return answer as Promise<ModelAnswer<ModelOutputOf<S>>>;
    });

  /** Starts an agent as a sub-agent of the run, waits without a slot of a worker, and returns its result. */
  readonly spawn = (agent: string, task: string, options: SpawnOptions = {}): Promise<AgentResult> =>
    asked(() => this.#agents(agent, [task], options)[0] as AgentResult);

  /** Starts an agent for each task, at most 100, in parallel. Returns the results in the order of the tasks. */
  readonly map = (agent: string, tasks: Iterable<string>, options: SpawnOptions = {}): Promise<AgentResult[]> =>
    asked(() => this.#agents(agent, tasks, options));

  async #result<R>(step: NextStep, run: () => R | Promise<R>, idempotent: boolean): Promise<R> {
    const { recorded } = step;
    if (recorded && !(recorded.status === 'begun' && idempotent)) return steps.resultOf(recorded) as R;
    this.signal.throwIfAborted();
    return (await this.journal.executing(this.#execute(step, run, idempotent))) as R;
  }

  async #execute({ number, name }: NextStep, run: () => unknown, idempotent: boolean): Promise<unknown> {
    if (!idempotent) await this.#link?.record({ number, name, status: 'begun' });
    let output: unknown;
    this.#answer.stepBegins(number);
    try {
      output = steps.outputJson(name, await run());
      await this.#answer.stepEnds(number, true);
    } catch (error) {
      await this.#answer.stepEnds(number, false);
      if (isOfAbort(error, this.signal)) throw error;
      const failure = steps.failureText(error);
      await this.#link?.record({ number, name, status: 'error', error: failure });
      throw error instanceof Suspend ? error : new StepFailedError(failure, { cause: error });
    }
    await this.#link?.record({ number, name, status: 'completed', output });
    return output;
  }

  #agents(agent: string, tasks: Iterable<string>, { timeoutS, outputSchema }: SpawnOptions): AgentResult[] {
    const named = [...tasks].map((task) => [agent, steps.agent(agent, task, timeoutS, outputSchema)] as const);
    return this.#outputs('agent', named).map(steps.agentResultOf);
  }

  #output(kind: StepKind, name: string, wait: object): unknown {
    return this.#outputs(kind, [[name, wait]])[0];
  }

  /** Returns the outputs of steps that others execute. Leaves the function if one has no record. */
  #outputs(kind: StepKind, named: readonly (readonly [name: string, wait: object])[]): unknown[] {
    const found = named.map(([name, wait]) => ({ ...this.journal.next(name, kind), wait }));
    const waits = found.filter(({ recorded }) => !recorded).map((step) => steps.waitOf(step, step.wait));
    if (waits.length > 0) throw this.journal.suspend(waits);
    return found.flatMap(({ recorded }) => (recorded ? [steps.resultOf(recorded)] : []));
  }
}

/** What a user answers: a text, or a list of values. */
export type AnswerOf<O extends AskOptions> = O extends { readonly multiple: true }
  ? string[]
  : 'multiple' extends keyof O
    ? O extends { readonly multiple?: false | undefined }
      ? string
      : string | string[]
    : string;

/** Returns what a method returns that asks for steps: rejects with what `ask` throws. */
function asked<T>(ask: () => T | Promise<T>): Promise<T> {
  let error: unknown;
  try {
    return Promise.resolve(ask());
  } catch (thrown) {
    error = thrown;
  }
  if (!(error instanceof Suspend)) return Promise.reject(error);
  // Later, so that code which catches it and tries again does not block the event loop.
  const left = new Promise<never>((_, reject) => setTimeout(() => reject(error)));
  // The context remembers it: code that does not wait for it does not end the process.
  left.catch(() => undefined);
  return left;
}
