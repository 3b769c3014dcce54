/** `tool`: a function, with what agents and their models know about it. */
import type { z } from 'zod';
import type { CallContext } from './callContext.js';
import { type JsonSchema, type Schema, type Shape, shapeOf } from './schemas.js';

/** Without a live worker, calls of the tool wait (`wait`), or it is not offered (`hide`). */
export type WhenAbsent = 'wait' | 'hide';

/** The arguments of a function: those of the schema of zod, or any object. */
// biome-ignore lint/suspicious/noExplicitAny: what a JSON Schema describes, only the author of the tool knows
export type ArgumentsOf<S> = S extends z.core.$ZodType ? z.output<S> : Record<string, any>;

/** What a function may return: what the schema of zod accepts, or anything that JSON has. */
export type ResultOf<O> = O extends z.core.$ZodType ? z.input<O> : unknown;

export interface ToolOptions<S extends Schema, O extends Schema | undefined, R extends ResultOf<O>> {
  /** The name by which agents know it: 1 to 64 letters, digits, `_` and `-`. */
  name: string;
  /** What it does, for the model. */
  description: string;
  /** The arguments: `z.object({…})`, or the JSON Schema of an object. */
  input: S;
  /** The output. It is announced, and an output that does not match is an error of the call. */
  output?: O;
  /** 1 to 32 letters, digits, `_`, `-` and `.`; default `1`. Change it with the schemas, to serve both versions during a rollout. */
  version?: string;
  /** It changes nothing, so a call may be repeated after a lost worker. */
  readOnly?: boolean;
  /** A repeated call has no further effect, so it may be repeated after a lost worker. */
  idempotent?: boolean;
  /**
   * All its effects are in steps of the call (`step`, `sleep`, `askUser`, `spawn`, …), so it begins again after a lost worker, and gets their
   * recorded results. It must ask for the same steps each time.
   */
  durable?: boolean;
  /** A user confirms each call. */
  confirm?: boolean;
  /** Maximum duration of one attempt, in whole seconds; default 60, at most 86,400. */
  timeoutS?: number;
  /** Default `wait`. */
  whenAbsent?: WhenAbsent;
  /** The function. */
  run(input: ArgumentsOf<S>, call: CallContext): R | Promise<R>;
}

/** Options whose function has these types. */
interface RunOptions<I, R> extends Omit<ToolOptions<Schema, Schema, unknown>, 'run'> {
  run(input: I, call: CallContext): R | Promise<R>;
}

const TIMEOUT_MAX_S = 86_400;
const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const VERSION = /^[A-Za-z0-9_.-]{1,32}$/;

/** A function that agents can call. Made by `tool`. */
export class Tool<I = never, R = unknown> {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly input: Shape;
  /** Undefined: any JSON. */
  readonly output: Shape | undefined;
  readonly readOnly: boolean;
  readonly idempotent: boolean;
  readonly durable: boolean;
  readonly confirm: boolean;
  readonly timeoutS: number;
  readonly whenAbsent: WhenAbsent;
  readonly #options: RunOptions<I, R>;

  constructor(options: RunOptions<I, R>) {
    const { name, version = '1', description, timeoutS = 60, whenAbsent = 'wait' } = options;
    if (!isToolName(name))
      throw new TypeError(`tool ${JSON.stringify(name)}: a name has 1 to 64 letters, digits, \`_\` and \`-\``);
    if (typeof version !== 'string' || !VERSION.test(version))
      throw new TypeError(
        `tool ${name}: the version ${JSON.stringify(version)} does not have 1 to 32 letters, digits, \`_\`, \`-\` and \`.\``,
      );
    if (!description) throw new TypeError(`tool ${name}: models choose a tool by its description; write one`);
    if (!Number.isInteger(timeoutS) || timeoutS < 1 || timeoutS > TIMEOUT_MAX_S)
      throw new RangeError(`tool ${name}: timeoutS is ${timeoutS}; choose 1 to ${TIMEOUT_MAX_S} whole seconds`);
    if (whenAbsent !== 'wait' && whenAbsent !== 'hide')
      throw new TypeError(`tool ${name}: whenAbsent is ${JSON.stringify(whenAbsent)}; choose 'wait' or 'hide'`);
    if (typeof options.run !== 'function') throw new TypeError(`tool ${name}: run is not a function`);
    this.name = name;
    this.version = version;
    this.description = description;
    this.input = shapeOf(options.input, 'input', `tool ${name}: the input`);
    if (this.input.jsonSchema.type !== 'object')
      throw new TypeError(
        `tool ${name}: the arguments are an object; write z.object({…}), or a JSON Schema with type: 'object'`,
      );
    this.output = options.output && shapeOf(options.output, 'output', `tool ${name}: the output`);
    this.readOnly = options.readOnly ?? false;
    this.idempotent = options.idempotent ?? false;
    this.durable = options.durable ?? false;
    this.confirm = options.confirm ?? false;
    this.timeoutS = timeoutS;
    this.whenAbsent = whenAbsent;
    this.#options = options;
  }

  /** Calls the function, as a program may. The worker checks arguments and outputs; this does not. */
  async run(input: I, call: CallContext): Promise<R> {
    return await this.#options.run(input, call);
  }

  /** Returns the tool as a registration has it. */
  definition(): ToolDefinition {
    const { name, version, description, readOnly, confirm, timeoutS, whenAbsent } = this;
    const idempotent = this.idempotent || this.durable;
    const schemas = { inputSchema: this.input.jsonSchema, outputSchema: this.output?.jsonSchema ?? null };
    return { name, version, description, ...schemas, readOnly, idempotent, confirm, timeoutS, whenAbsent };
  }
}

/** Whether a tool may have this name. */
export function isToolName(name: unknown): boolean {
  return typeof name === 'string' && NAME.test(name);
}

/** A tool as a registration has it. */
export interface ToolDefinition {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema: JsonSchema | null;
  readonly readOnly: boolean;
  readonly idempotent: boolean;
  readonly confirm: boolean;
  readonly timeoutS: number;
  readonly whenAbsent: WhenAbsent;
}

/**
 * Makes a tool of a function. The schema of its arguments gives their types.
 *
 * Throws a `TypeError` or a `RangeError`, with what to change, if it can't be a tool.
 */
export function tool<S extends Schema, O extends Schema | undefined = undefined, R extends ResultOf<O> = ResultOf<O>>(
  options: ToolOptions<S, O, R>,
): Tool<ArgumentsOf<S>, R> {
  return new Tool<ArgumentsOf<S>, R>(options as RunOptions<ArgumentsOf<S>, R>);
}
