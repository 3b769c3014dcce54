/** The answer that a function of an agent writes while it works: sent in pieces, one after the other. */
import { storable } from './outcomes.js';

/** Maximum length of a piece, in UTF-16 code units: never more characters than a server accepts. */
export const PIECE_MAX = 20_000;
/** How much text may wait to be sent, until the function waits, too. */
const PENDING_MAX = 100_000;

/** Text that readers get at once. */
export interface Piece {
  readonly step: number;
  /** Order within the step, from 1. */
  readonly piece: number;
  readonly text: string;
}

/** What the steps of one execution write. While a piece is sent, the text that follows is collected. */
export class Answer {
  readonly #send: ((piece: Piece) => Promise<void>) | undefined;
  readonly #running = new Set<number>();
  readonly #pieces = new Map<number, number>();
  #writing: number | undefined;
  #pending = '';
  #sending: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;
  #written = '';

  constructor(send: ((piece: Piece) => Promise<void>) | undefined) {
    this.#send = send;
  }

  /** What was written in this execution. */
  get written(): string {
    return this.#written;
  }

  stepBegins(number: number): void {
    this.#running.add(number);
  }

  /** A step has ended. Fulfilled when all that it has written is sent; without `keep`, what was not sent yet is dropped. */
  async stepEnds(number: number, keep: boolean): Promise<void> {
    this.#running.delete(number);
    if (this.#writing !== number) return;
    if (!keep) this.#pending = '';
    await this.#sending;
    this.#writing = undefined;
    const failure = this.#failure;
    this.#failure = undefined;
    if (keep && failure) throw failure.error;
  }

  /** Writes text. Fulfilled when it is time for more. Rejects with what has become of earlier pieces. */
  async write(more: string): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    const [step] = this.#running;
    if (step === undefined)
      throw new Error(
        'text is written within a step, `call.step(name, run)`: what a step has written stays, or is taken back, with it',
      );
    if (this.#running.size > 1) throw new Error("text can't be written while several steps run");
    const text = storable(more);
    this.#writing = step;
    this.#written += text;
    if (!this.#send) return;
    this.#pending += text;
    this.#sending ??= this.#sendAll(this.#send, step);
    if (this.#pending.length > PENDING_MAX) await this.#sending;
  }

  /** Sends what waits. It never rejects. */
  async #sendAll(send: (piece: Piece) => Promise<void>, step: number): Promise<void> {
    while (this.#pending !== '') {
      const text = first(this.#pending);
      this.#pending = this.#pending.slice(text.length);
      const piece = (this.#pieces.get(step) ?? 0) + 1;
      this.#pieces.set(step, piece);
      try {
        await send({ step, piece, text });
      } catch (error) {
        this.#failure = { error };
        this.#pending = '';
      }
    }
    this.#sending = undefined;
  }
}

/** Returns the beginning of a text, as long as a piece may be, without half a character. */
function first(text: string): string {
  if (text.length <= PIECE_MAX) return text;
  const last = text.charCodeAt(PIECE_MAX - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? PIECE_MAX - 1 : PIECE_MAX);
}
