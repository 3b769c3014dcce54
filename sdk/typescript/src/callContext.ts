/** What a tool's function can know and do about its call: its second argument. */
import { checkpointJson } from './outcomes.js';

/** How a context reaches its worker. */
export interface Link {
  progress(message: string): void;
  store(checkpoint: unknown): Promise<void>;
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
}

/** The context of a call. Made by hand it is one for unit tests, which sends nothing. */
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
  readonly #link: Link | undefined;
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
    this.#checkpoint = fields.checkpoint ?? null;
    this.#link = link;
  }

  /** What was stored last, by this attempt or an earlier one. Null: nothing. */
  get checkpoint(): unknown {
    return this.#checkpoint;
  }

  /** Shows a message to people. It does not wait: if messages follow each other fast, the newest is sent. */
  readonly progress = (message: string): void => {
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
    const checkpoint = checkpointJson(value);
    await this.#link?.store(checkpoint);
    this.#checkpoint = checkpoint;
  };
}
