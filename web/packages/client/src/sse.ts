/**
 * Server-sent events: bytes become frames, wherever the network has cut them.
 *
 * Invariant: the frames depend on the bytes alone, not on how they were cut. A frame that its stream does not finish is never
 * handed out.
 */

/** One event of a stream. */
export interface Frame {
  id?: string;
  event?: string;
  data: string;
}

/** Longest line [characters]: a snapshot holds a long conversation. */
const LINE_MAX_CHARS = 64 * 1024 * 1024;

export class SseParser {
  /** How long to wait before the next connection, as the stream last requested, in milliseconds. */
  retryMs?: number;
  // Decodes across cuts; a byte order mark at the beginning goes.
  readonly #decoder = new TextDecoder();
  /** Of a line that is not complete: joined when it is, for a snapshot's line comes in many. */
  #pieces: string[] = [];
  #length = 0;
  #afterCr = false;
  #frame: Frame = { data: '' };
  #hasData = false;

  /** The frames that these bytes complete. Throws where a line is longer than any that a server sends. */
  push(bytes: Uint8Array): Frame[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    const frames: Frame[] = [];
    if (!text) return frames;
    // A LF behind a CR belongs to it, even if it comes in the next bytes.
    let from = this.#afterCr && text[0] === '\n' ? 1 : 0;
    this.#afterCr = text.endsWith('\r');
    const ends = /\r\n?|\n/g;
    ends.lastIndex = from;
    for (let end = ends.exec(text); end; end = ends.exec(text)) {
      let line = text.slice(from, end.index);
      if (this.#length > 0) {
        line = this.#pieces.join('') + line;
        this.#pieces = [];
        this.#length = 0;
      }
      from = ends.lastIndex;
      this.#endLine(line, frames);
    }
    if (from < text.length) {
      this.#pieces.push(text.slice(from));
      this.#length += text.length - from;
    }
    if (this.#length > LINE_MAX_CHARS) throw new Error('a line of the stream is too long');
    return frames;
  }

  #endLine(line: string, frames: Frame[]): void {
    if (!line) {
      if (this.#hasData) frames.push(this.#frame);
      this.#frame = { data: '' };
      this.#hasData = false;
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'data') {
      this.#frame.data = this.#hasData ? `${this.#frame.data}\n${value}` : value;
      this.#hasData = true;
    } else if (field === 'id') {
      if (!value.includes('\0')) this.#frame.id = value;
    } else if (field === 'event') {
      this.#frame.event = value;
    } else if (field === 'retry' && /^\d+$/.test(value)) {
      this.retryMs = Number(value);
    }
    // Comments (an empty field), and what is not invented yet, are passed over.
  }
}
