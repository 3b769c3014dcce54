// What a model has written. It is never HTML; its pictures are not fetched, and its links lead away only when they are clicked.
import { Link } from '@tanstack/react-router';
import { memo, type ReactNode, useDeferredValue, useState } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { CopyButton } from '../ui/parts';
import { CITED, remarkCitations } from './citations';

const PLUGINS = [remarkGfm, remarkCitations];

const COMPONENTS: Components = {
  a: ({ href, children }) =>
    href?.startsWith(CITED) ? (
      <Link to="/graph" search={{ q: new URL(href, location.origin).searchParams.get('q') ?? '' }}>
        {children}
      </Link>
    ) : (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
        {children}
      </a>
    ),
  // A picture of another host tells that host who reads: it is a link instead.
  img: ({ src, alt }) => (
    <a href={typeof src === 'string' ? src : undefined} target="_blank" rel="noopener noreferrer nofollow ugc">
      [picture: {alt || 'without a name'}]
    </a>
  ),
  pre: ({ children }) => <Code>{children}</Code>,
};

function Code({ children }: { children: ReactNode }) {
  return (
    <div className="code">
      <CopyButton text={() => textOf(children)} />
      <pre>{children}</pre>
    </div>
  );
}

/** Stretches of a text that are dressed at once, counted from its end: what is in sight, and a bit more. */
const AT_ONCE = 2;
/** Blocks of a stretch: what is laid out, or left alone while it is far from sight, together. */
const STRETCH = 16;

interface Props {
  text: string;
  /** More of it is coming. */
  isLive: boolean;
  /** It is where somebody looks first. The rest is plain text until there is time for it. */
  isNear?: boolean;
}

/**
 * Finished blocks are read once: while an answer of thousands of words grows, only its last block is read again. Of a long text that is
 * there already, the end is dressed first.
 */
export const Markdown = memo(function Markdown({ text, isLive, isNear = true }: Props) {
  const [splitter] = useState(() => new Splitter());
  const stretches = splitter.split(text);
  // So many wait for their dress until what is urgent is done: at first those before the end, then none.
  const waiting = useDeferredValue(0, isLive ? 0 : Math.max(0, stretches.length - (isNear ? AT_ONCE : 0)));
  return (
    <div className="markdown">
      {stretches.map((blocks, nth) => (
        <Stretch key={nth} blocks={blocks} isPlain={nth < waiting} isGrowing={isLive && nth === stretches.length - 1} />
      ))}
      {isLive ? <span className="cursor" aria-hidden="true" /> : null}
    </div>
  );
});

const Stretch = memo(function Stretch({ blocks, isPlain, isGrowing }: { blocks: readonly string[]; isPlain: boolean; isGrowing: boolean }) {
  return (
    <div className="stretch">
      {isPlain ? (
        <p className="undressed">{blocks.join('').trim()}</p>
      ) : (
        blocks.map((block, nth) => <Block key={nth} text={block} isGrowing={isGrowing && nth === blocks.length - 1} />)
      )}
    </div>
  );
});

const Block = memo(function Block({ text, isGrowing }: { text: string; isGrowing: boolean }) {
  return isGrowing ? grow(text) : dress(text);
});

/** Code that is still being written: nothing in it is Markdown, however long it gets. */
const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[^\n`]*\n/;

function grow(text: string): ReactNode {
  const fence = OPEN_FENCE.exec(text);
  const code = fence && text.slice(fence[0].length);
  if (!fence || code === null || code.includes(`\n${fence[1]}`) || code.startsWith(fence[1] ?? '')) return read(text);
  return (
    <Code>
      <code>{linesOf(code)}</code>
    </Code>
  );
}

/** Lines that are laid out together: of code that grows, only the last ones are laid out anew. */
const LINES = 64;

function linesOf(code: string): ReactNode[] {
  const lines = code.split('\n');
  return Array.from({ length: Math.ceil(lines.length / LINES) }, (_, nth) => {
    const end = (nth + 1) * LINES;
    return (
      <span key={nth} className="lines">
        {lines.slice(nth * LINES, end).join('\n') + (end < lines.length ? '\n' : '')}
      </span>
    );
  });
}

function read(text: string): ReactNode {
  return ReactMarkdown({ remarkPlugins: PLUGINS, components: COMPONENTS, children: text });
}

/** Blocks whose reading is kept: a text that is shown anew, in other pieces, is not read again. */
const KEPT = 4_000;
const kept = new Map<string, ReactNode>();

function dress(text: string): ReactNode {
  let block = kept.get(text);
  if (block === undefined) {
    block = read(text);
    const oldest = kept.keys().next();
    if (kept.size >= KEPT && !oldest.done) kept.delete(oldest.value);
    kept.set(text, block);
  }
  return block;
}

/**
 * Where one paragraph ends and another begins, outside of fences and lists, and which of them make a stretch. Of a text that grows, only
 * what is behind its last finished block is looked at again; stretches that have not changed are the same arrays as before.
 */
export class Splitter {
  /** All blocks but the last. */
  #finished: string[][] = [];
  /** Their text. */
  #before = '';

  split(text: string): readonly (readonly string[])[] {
    if (!text.startsWith(this.#before)) {
      this.#finished = [];
      this.#before = '';
    }
    let block = '';
    let fence: string | null = null;
    const lines = text.slice(this.#before.length).split('\n');
    for (const [nth, line] of lines.entries()) {
      const isLast = nth === lines.length - 1;
      // What the last line will be, nobody knows yet.
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
    if (block.trim() === '') return this.#finished;
    const last = this.#finished.at(-1);
    return last && last.length < STRETCH ? [...this.#finished.slice(0, -1), [...last, block]] : [...this.#finished, [block]];
  }

  #finish(block: string): void {
    const last = this.#finished.at(-1);
    this.#before += block;
    if (last && last.length < STRETCH) this.#finished = [...this.#finished.slice(0, -1), [...last, block]];
    else this.#finished = [...this.#finished, [block]];
  }
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string' || typeof node === 'number') return String(node);
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (node && typeof node === 'object' && 'props' in node) return textOf((node.props as { children?: ReactNode }).children);
  return '';
}
