// Splits a Markdown text into blocks that are rendered one by one.
import { definitionsIn } from './definitions';

/** Blocks of a stretch: what is laid out, or left alone while it is far from sight, together. */
const STRETCH = 16;
const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Where one paragraph ends and another begins, outside of fences and lists, and which of them make a stretch. Of a text that grows, only
 * what is behind its last finished block is looked at again; stretches that have not changed are the same arrays as before.
 */
export class Splitter {
  /** All blocks but the last. */
  #finished: string[][] = [];
  /** Their text. */
  #before = '';
  /** What the finished blocks define. */
  #defined = NONE;
  /** The last block, and what it defines with those before it. */
  #last: { block: string; before: ReadonlyMap<string, string>; all: ReadonlyMap<string, string> } | undefined;

  /** What the text defines: sources of footnotes and references by their labels. The same map until something else is defined. */
  get definitions(): ReadonlyMap<string, string> {
    return this.#last?.all ?? this.#defined;
  }

  /** `isGrowing`: its last block is not whole yet. */
  split(text: string, isGrowing = false): readonly (readonly string[])[] {
    if (!text.startsWith(this.#before)) {
      this.#finished = [];
      this.#before = '';
      this.#defined = NONE;
    }
    let block = '';
    let fence: string | null = null;
    const lines = text.slice(this.#before.length).split('\n');
    for (const [nth, line] of lines.entries()) {
      const isLast = nth === lines.length - 1;
      // The last line may still grow.
      const begins = fence === null && !isLast && line !== '' && !/^(\s|[-*+>|]|\d+[.)])/.test(line);
      if (begins && block.endsWith('\n\n') && block.trim() !== '') {
        this.#finish(block);
        block = '';
      }
      const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
      if (mark) {
        if (fence === null) fence = mark;
        else if (mark.startsWith(fence)) fence = null;
      }
      block += isLast ? line : `${line}\n`;
    }
    if (isGrowing) this.#last = undefined;
    else if (this.#last?.block !== block || this.#last.before !== this.#defined)
      this.#last = { block, before: this.#defined, all: merged(this.#defined, block) };
    if (block.trim() === '') return this.#finished;
    const last = this.#finished.at(-1);
    return last && last.length < STRETCH
      ? [...this.#finished.slice(0, -1), [...last, block]]
      : [...this.#finished, [block]];
  }

  #finish(block: string): void {
    const last = this.#finished.at(-1);
    this.#before += block;
    this.#defined = merged(this.#defined, block);
    if (last && last.length < STRETCH) this.#finished = [...this.#finished.slice(0, -1), [...last, block]];
    else this.#finished = [...this.#finished, [block]];
  }
}

/** What was defined first counts. */
function merged(known: ReadonlyMap<string, string>, block: string): ReadonlyMap<string, string> {
  const found = definitionsIn(block).filter(([label]) => !known.has(label));
  return found.length === 0 ? known : new Map([...found.reverse(), ...known]);
}
