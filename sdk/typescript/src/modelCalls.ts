/** Calls of language models by durable functions: what is asked, and what has been answered. Pure. */
import { z } from 'zod';
import { type Schema, type Shape, shapeOf } from './schemas.js';

const MESSAGES_MAX = 1000;
const TEMPERATURE_MAX = 2;

/** A message to a model, or an earlier answer of one. Its text may be named `content`, as other libraries name it. */
export type ModelMessage = {
  readonly role: 'user' | 'assistant';
} & ({ readonly text: string } | { readonly content: string });

/** What a model is asked: a text, or messages, the newest last. */
export type Prompt = string | readonly ModelMessage[];

export interface ModelOptions<S extends Schema | undefined = undefined> {
  /** What the model has to do, and how. */
  readonly system?: string;
  /** `provider:model`, or a well-known name. Default: the model of plain conversations. */
  readonly model?: string;
  /** What the answer matches: `z.object({…})`, or the JSON Schema of an object. Default: any text. */
  readonly outputSchema?: S;
  /** Maximum length of the answer, including reasoning, in tokens. */
  readonly maxTokens?: number;
  /** The sampling temperature, 0 to 2. */
  readonly temperature?: number;
  /** The name of the step, under which readers see the answer. Default: `model`. */
  readonly name?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: what a JSON Schema describes, only the author of the function knows
type AnyObject = Record<string, any>;

/** The answer as data: what the schema of zod returns, or any object; null without a schema. */
export type ModelOutputOf<S> = S extends undefined ? null : S extends z.core.$ZodType ? z.output<S> : AnyObject;

/** Tokens and dollars. */
export interface ModelUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens?: number | undefined;
  readonly cacheWriteTokens?: number | undefined;
  readonly reasoningTokens?: number | undefined;
  /** Undefined: the price of the model is unknown. */
  readonly costUsd?: number | undefined;
}

/** What a language model has answered. */
export interface ModelAnswer<O = unknown> {
  /** The answer. With an output schema, it is JSON. */
  readonly text: string;
  /** The answer as data, as zod has parsed it. Null: no output schema was given. */
  readonly output: O;
  /** The model that was asked, as `provider:model`. */
  readonly model: string | null;
  readonly usage: ModelUsage;
  /** The run that has answered: its history has the whole call. */
  readonly runId: string;
}

/** A call of a model, as the API expects it, and how its answer is read. */
export interface ModelCall {
  readonly wait: object;
  /** Undefined: any text. */
  readonly shape: Shape | undefined;
}

/** Asks a language model. Throws a `TypeError` or a `RangeError`, with what to change, if it can't be asked this. */
export function modelCall(prompt: Prompt, options: Omit<ModelOptions<Schema | undefined>, 'name'>): ModelCall {
  const { system, model, outputSchema, maxTokens, temperature } = options;
  if (model !== undefined && (typeof model !== 'string' || model.trim() === ''))
    throw new TypeError('the name of the model is empty; write one, or leave it out');
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens >= 1))
    throw new RangeError(`maxTokens is ${maxTokens}; choose a whole number from 1`);
  if (temperature !== undefined && !(temperature >= 0 && temperature <= TEMPERATURE_MAX))
    throw new RangeError(`temperature is ${temperature}; choose 0 to ${TEMPERATURE_MAX}`);
  // The answer, before zod parses it.
  const shape = outputSchema && shapeOf(outputSchema, 'input', 'outputSchema');
  if (shape && shape.jsonSchema.type !== 'object')
    throw new TypeError("outputSchema is that of an object; write z.object({…}), or a JSON Schema with type: 'object'");
  const messages = messagesOf(prompt);
  const wait = { kind: 'model', messages, system, model, outputSchema: shape?.jsonSchema, maxTokens, temperature };
  return { wait, shape };
}

const usage = z.object({
  inputTokens: z.number().default(0),
  outputTokens: z.number().default(0),
  cachedTokens: z.number().optional(),
  cacheWriteTokens: z.number().optional(),
  reasoningTokens: z.number().optional(),
  costUsd: z.number().optional(),
});
const answer = z.object({
  text: z.string(),
  output: z.unknown(),
  model: z.string().nullable().default(null),
  usage: usage.default({ inputTokens: 0, outputTokens: 0 }),
  runId: z.string(),
});

/** Returns what a model has answered. Rejects, with the places, if the schema of zod asks for more than its JSON Schema. */
export async function modelAnswerOf(recorded: unknown, shape: Shape | undefined): Promise<ModelAnswer> {
  const { output, ...others } = answer.parse(recorded);
  return { ...others, output: shape ? await shape.read(output) : null };
}

function messagesOf(prompt: Prompt): object[] {
  if (typeof prompt !== 'string' && !Array.isArray(prompt))
    throw new TypeError("a model is asked with a text, or with a list of messages: [{ role: 'user', text: '…' }]");
  const said = typeof prompt === 'string' ? [saidOf({ role: 'user', text: prompt }, 1)] : prompt.map(numbered);
  if (said.length < 1 || said.length > MESSAGES_MAX)
    throw new RangeError(`a model is asked with 1 to ${MESSAGES_MAX} messages, not ${said.length}`);
  if (said.at(-1)?.role !== 'user')
    throw new TypeError('the last message has the role assistant; a model answers one with the role user');
  return said;
}

function numbered(message: unknown, index: number): { role: string; text: string } {
  return saidOf(message, index + 1);
}

function saidOf(message: unknown, number: number): { role: string; text: string } {
  if (typeof message !== 'object' || message === null)
    throw new TypeError(`message ${number} is ${JSON.stringify(message)}; write { role: 'user', text: '…' }`);
  const { role, text, content } = message as { role?: unknown; text?: unknown; content?: unknown };
  const said = text ?? content;
  if (role === 'system')
    throw new TypeError(`message ${number} has the role system; pass its text as the option system`);
  if (role !== 'user' && role !== 'assistant')
    throw new TypeError(`message ${number} has the role ${JSON.stringify(role)}; write 'user' or 'assistant'`);
  if (typeof said !== 'string' || said.trim() === '') throw new TypeError(`message ${number} has no text`);
  return { role, text: said };
}
