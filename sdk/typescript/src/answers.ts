/** What a function publishes while it works: the answer of its agent, and its own events. Sent in pieces, one after the other. */
import { limitedJson, storable } from './outcomes.js';

/** Maximum length of a piece of text, in UTF-16 code units: never more characters than a server accepts. */
export const PIECE_MAX = 20_000;
/** How much may wait to be sent, in characters, until the function waits, too. */
const PENDING_MAX = 100_000;
/** Maximum size of the data of an event, in bytes of JSON. */
export const EVENT_MAX_BYTES = 256 * 1024;
/** The number of the step of events that are emitted outside of steps. */
const OUTSIDE = 0;

const EVENT_NAME = /^[a-zA-Z0-9_.:-]{1,64}$/;

/** An event that a function has emitted. */
export interface Emitted {
  readonly name: string;
  /** JSON. */
  readonly data: unknown;
}

/** A text or an event, that readers get at once. */
export interface Piece {
  readonly step: number;
  /** Order within the step, from 1. */
  readonly piece: number;
  readonly text?: string;
  readonly event?: Emitted;
}

/** What waits to be sent. */
interface Pending {
  readonly step: number;
  /** It grows. */
  text: string;
  readonly event?: Emitted;
  /** In characters. */
  readonly eventSize: number;
}

/** Returns an event that can be sent. Throws a `TypeError` or a `RangeError`. */
export function eventOf(name: string, data: unknown): Emitted {
  if (!EVENT_NAME.test(name))
    throw new TypeError(
      `the name of an event has 1 to 64 letters, digits, _, ., : and -, and is not ${JSON.stringify(name)}`,
    );
  const json = limitedJson(`the data of the event ${name}`, data === undefined ? null : data, EVENT_MAX_BYTES);
  return { name, data: json };
}

/** What one execution publishes. While a piece is sent, the text that follows is collected. */
export class Answer {
  readonly #send: ((piece: Piece) => Promise<void>) | undefined;
  readonly #hasRun: boolean;
  readonly #running = new Set<number>();
  readonly #pieces = new Map<number, number>();
  readonly #emitted: Emitted[] = [];
  #writing: number | undefined;
  #pending: Pending[] = [];
  #pendingSize = 0;
  #sending: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;
  #written = '';

  /** Without a run, events have no readers. */
  constructor(send: ((piece: Piece) => Promise<void>) | undefined, hasRun = true) {
    this.#send = send;
    this.#hasRun = hasRun;
  }

  /** The text that was written in this execution. */
  get written(): string {
    return this.#written;
  }

  /** The events that were emitted in this execution, if it sends nothing. */
  get emitted(): readonly Emitted[] {
    return [...this.#emitted];
  }

  stepBegins(number: number): void {
    this.#running.add(number);
  }

  /** A step has ended. Fulfilled when all that it has published is sent; without `keep`, what was not sent yet is dropped. */
  async stepEnds(number: number, keep: boolean): Promise<void> {
    this.#running.delete(number);
    if (this.#writing !== number) return;
    if (!keep) this.#keep(this.#pending.filter(({ step }) => step !== number));
    await this.#sending;
    this.#writing = undefined;
    const failure = this.#failure;
    this.#failure = undefined;
    if (keep && failure) throw failure.error;
  }

  /** Writes text. Fulfilled when it is time for more. Rejects with what has become of earlier pieces. */
  async write(more: string): Promise<void> {
    this.#throwFailure();
    const [step] = this.#running;
    if (step === undefined)
      throw new Error(
        'text is written within a step, `call.step(name, run)`: what a step has written stays, or is taken back, with it',
      );
    if (this.#running.size > 1) throw new Error("text can't be written while several steps run");
    const text = storable(more);
    this.#writing = step;
    this.#written += text;
    if (!this.#send || text === '') return;
    const last = this.#pending.at(-1);
    if (last?.step === step && last.event === undefined) last.text += text;
    else this.#pending.push({ step, text, eventSize: 0 });
    this.#pendingSize += text.length;
    await this.#sendPending(this.#send);
  }

  /**
   * Emits an event. Fulfilled when it is time for more; outside of a step, when the event is published. Rejects with what has become of earlier
   * pieces.
   */
  async emit(event: Emitted): Promise<void> {
    this.#throwFailure();
    if (this.#running.size > 1) throw new Error("events can't be emitted while several steps run");
    const [step = OUTSIDE] = this.#running;
    if (!this.#send) this.#emitted.push(event);
    if (!this.#send || !this.#hasRun) return;
    if (step !== OUTSIDE) this.#writing = step;
    const eventSize = JSON.stringify(event.data).length;
    this.#pending.push({ step, text: '', event, eventSize });
    this.#pendingSize += eventSize;
    await this.#sendPending(this.#send);
    if (step === OUTSIDE) {
      await this.#sending;
      this.#throwFailure();
    }
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure.error;
  }

  #keep(pending: Pending[]): void {
    this.#pending = pending;
    this.#pendingSize = pending.reduce((size, { text, eventSize }) => size + text.length + eventSize, 0);
  }

  /** Sends what waits, if nothing is on its way. Fulfilled when it is time for more. */
  async #sendPending(send: (piece: Piece) => Promise<void>): Promise<void> {
    this.#sending ??= this.#sendAll(send);
    if (this.#pendingSize > PENDING_MAX) await this.#sending;
  }

  /** Sends what waits. It never rejects. */
  async #sendAll(send: (piece: Piece) => Promise<void>): Promise<void> {
    for (let piece = this.#next(); piece; piece = this.#next()) {
      try {
        await send(piece);
      } catch (error) {
        this.#failure = { error };
        this.#keep([]);
      }
    }
    this.#sending = undefined;
  }

  /** Takes the next piece of what waits. */
  #next(): Piece | undefined {
    const [waiting] = this.#pending;
    if (!waiting) return undefined;
    const { step, event, eventSize } = waiting;
    const text = first(waiting.text);
    waiting.text = waiting.text.slice(text.length);
    if (waiting.text === '') this.#pending.shift();
    this.#pendingSize -= text.length + eventSize;
    const piece = (this.#pieces.get(step) ?? 0) + 1;
    this.#pieces.set(step, piece);
    return event ? { step, piece, event } : { step, piece, text };
  }
}

/** Returns the beginning of a text, as long as a piece may be, without half a character. */
function first(text: string): string {
  if (text.length <= PIECE_MAX) return text;
  const last = text.charCodeAt(PIECE_MAX - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? PIECE_MAX - 1 : PIECE_MAX);
}
