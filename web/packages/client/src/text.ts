/**
 * A text that arrives in pieces and can be cut back to an event. Appending is linear in the appended text; the pieces are joined on
 * the first read.
 */
export class GrowingText {
  #joined = '';
  #pending: string[] = [];
  #length = 0;
  /** The number of each piece's event, and where it begins. */
  #seqs: number[] = [];
  #starts: number[] = [];

  push(seq: number, piece: string): void {
    this.#seqs.push(seq);
    this.#starts.push(this.#length);
    this.#pending.push(piece);
    this.#length += piece.length;
  }

  /** Forgets the pieces with a larger number. */
  cut(afterSeq: number): void {
    const first = this.#seqs.findLastIndex((seq) => seq <= afterSeq) + 1;
    const length = this.#starts[first];
    if (length === undefined) return;
    this.#joined = this.toString().slice(0, length);
    this.#length = length;
    this.#seqs.length = this.#starts.length = first;
  }

  /** The text will not be cut again: forgets where the pieces begin. */
  settle(): void {
    this.#seqs = [];
    this.#starts = [];
  }

  toString(): string {
    if (this.#pending.length > 0) {
      this.#joined += this.#pending.join('');
      this.#pending = [];
    }
    return this.#joined;
  }
}
