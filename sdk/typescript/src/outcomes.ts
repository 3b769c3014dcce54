/** How a function has ended, as what the API records: results and errors become JSON. Pure. */
import { CallCancelledError, RetryCall, ToolFailure } from './errors.js';

export const OUTPUT_MAX_BYTES = 1_000_000;
export const CHECKPOINT_MAX_BYTES = 256 * 1024;
/** A stack in a message would fill the context of the model. */
export const TEXT_MAX = 16_000;

/** The function has returned. */
export interface Completed {
  readonly kind: 'completed';
  /** Its result, as JSON. */
  readonly output: unknown;
}

/** The call ends as an error. */
export interface Failed {
  readonly kind: 'failed';
  /** What the model reads. */
  readonly error: string;
  /** Nothing has happened, and the call is to be handed out again. */
  readonly retry: boolean;
}

/** The function was stopped. What it has done is not known. */
export interface Interrupted {
  readonly kind: 'interrupted';
}

/** The function waits for these steps, and begins again when they have ended. */
export interface Suspended {
  readonly kind: 'suspended';
  readonly steps: readonly Wait[];
}

/** A step that others execute. */
export interface Wait {
  readonly number: number;
  readonly name: string;
  /** Its kind, and what it asks for, as the API expects it. */
  readonly wait: unknown;
}

export type Outcome = Completed | Failed | Interrupted | Suspended;

export function failed(error: string, retry = false): Failed {
  return { kind: 'failed', error: text(error), retry };
}

/** Returns the outcome of a function that has returned this. */
export function ofResult(result: unknown): Completed | Failed {
  try {
    const { value, bytes } = toJson(result === undefined ? null : result);
    if (bytes > OUTPUT_MAX_BYTES)
      return failed(`The tool has completed, but its output has ${bytes} bytes, and the limit is ${OUTPUT_MAX_BYTES}.`);
    return { kind: 'completed', output: value };
  } catch (error) {
    return failed(`The tool has completed, but its output is not JSON: ${messageOf(error)}`);
  }
}

/** Returns the outcome of a function that has thrown this. */
export function ofError(error: unknown): Failed {
  if (error instanceof ToolFailure || error instanceof RetryCall)
    return failed(messageOf(error) || error.name, error instanceof RetryCall);
  const message = messageOf(error);
  const name = nameOf(error);
  return failed(name && message ? `${name}: ${message}` : name || message);
}

/** Returns a checkpoint as JSON. Throws a `TypeError` or a `RangeError` if it can't be stored. */
export function checkpointJson(checkpoint: unknown): unknown {
  if (checkpoint === null || checkpoint === undefined)
    throw new TypeError('a checkpoint is any JSON but null, which means that there is none');
  return limitedJson('the checkpoint', checkpoint, CHECKPOINT_MAX_BYTES);
}

/** Returns a value as JSON. Throws a `TypeError` or a `RangeError` if it is not JSON or too large. */
export function limitedJson(what: string, value: unknown, maxBytes: number): unknown {
  let json: Json;
  try {
    json = toJson(value);
  } catch (error) {
    throw new TypeError(`${what} is not JSON: ${messageOf(error)}`, { cause: error });
  }
  if (json.bytes > maxBytes) throw new RangeError(`${what} has ${json.bytes} bytes, and the limit is ${maxBytes}`);
  return json.value;
}

/** Whether code of a tool has thrown this because its signal was aborted. Some libraries throw errors of their own then. */
export function isOfAbort(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  if (error === signal.reason || error instanceof CallCancelledError) return true;
  return error instanceof Error && (error.name === 'AbortError' || error.cause === signal.reason);
}

/** Returns a text that the API can store: valid Unicode without NUL. */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}

/** Returns a text that the API can store, of limited length. */
export function text(message: string): string {
  const valid = storable(message);
  // A pair of surrogates may be cut in two.
  return valid.length <= TEXT_MAX ? valid : `${valid.slice(0, TEXT_MAX - 1).toWellFormed()}…`;
}

interface Json {
  readonly value: unknown;
  readonly bytes: number;
}

/** An escaped backslash, or half of a pair of surrogates, which `JSON.stringify` escapes only if the other half is missing. */
const LONE_SURROGATE = /\\\\|\\ud[89a-f][0-9a-f]{2}/g;

function toJson(value: unknown): Json {
  const written: string | undefined = JSON.stringify(value, onlyJson);
  if (written === undefined) throw new TypeError(`it is a ${typeof value}`);
  const json = written.replace(LONE_SURROGATE, (found) => (found === '\\\\' ? found : '\uFFFD'));
  return { value: JSON.parse(json), bytes: new TextEncoder().encode(json).length };
}

/** Refuses what `JSON.stringify` would write as an empty object. */
function onlyJson(_: string, value: unknown): unknown {
  if (value instanceof Map) throw new TypeError('a Map; use Object.fromEntries(map)');
  if (value instanceof Set) throw new TypeError('a Set; use [...set]');
  if (value instanceof Promise) throw new TypeError('a Promise; await it');
  return value;
}

function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  // A class that does not set its name.
  return error.name === 'Error' ? error.constructor.name : error.name;
}

function messageOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    // The text is made by code of the tool.
    return '';
  }
}
