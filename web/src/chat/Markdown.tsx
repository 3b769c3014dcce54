// Renders a model's Markdown. It never renders HTML, never fetches images from other hosts, and follows links only on a click.
import { Link } from '@tanstack/react-router';
import { memo, type ReactNode, useContext, useDeferredValue, useMemo, useState } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import { t } from '../ui/language';
import { CodeBlock } from './CodeBlock';
import { CITED, LinksToGraph, remarkCitations } from './citations';
import { definitionsFor, footnotesOf, NOTE, remarkFootnotes } from './definitions';
import { Formula } from './Formula';
import { formulaOf, markFormulas, unmarked } from './formulas';
import { remarkGfm } from './gfm';
import { MarkdownTable } from './MarkdownTable';
import { Splitter } from './splitter';

/** What the blocks of a text share. */
interface Context {
  definitions: ReadonlyMap<string, string>;
  /** Of footnotes, by their labels. */
  numbers: ReadonlyMap<string, number>;
}

const COMPONENTS: Components = {
  a: ({ href, children }) =>
    href?.startsWith(CITED) ? (
      <Citation href={href}>{children}</Citation>
    ) : href?.startsWith(NOTE) ? (
      <NoteLink number={href.slice(NOTE.length)} />
    ) : (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
        {children}
      </a>
    ),
  // A picture of another host would reveal the reader to that host: it is a link instead.
  img: ({ src, alt }) => (
    <a href={typeof src === 'string' ? src : undefined} target="_blank" rel="noopener noreferrer nofollow ugc">
      {alt ? t('[image: {alt}]', { alt }) : t('[image: no description]')}
    </a>
  ),
  pre: ({ children }) => <CodeBlock language={languageOf(children)} code={unmarked(textOf(children))} />,
  code: ({ className, children }) => {
    const formula = formulaOf(textOf(children));
    return formula ? <Formula {...formula} /> : <code className={className}>{children}</code>;
  },
  table: ({ children }) => <MarkdownTable>{children}</MarkdownTable>,
  ul: ({ node: _, ...list }) => <ul dir="auto" {...list} />,
  ol: ({ node: _, ...list }) => <ol dir="auto" {...list} />,
  blockquote: ({ children }) => <blockquote dir="auto">{children}</blockquote>,
  input: ({ checked, type }) => (
    <input type={type} checked={checked} disabled aria-label={checked ? t('Done') : t('Not done')} />
  ),
  // The page has its own headings.
  h1: 'h3',
  h2: 'h4',
  h3: 'h5',
  h4: 'h6',
  h5: 'h6',
  h6: 'h6',
};

function Citation({ href, children }: { href: string; children: ReactNode }) {
  if (!useContext(LinksToGraph)) return children;
  return (
    <Link to="/graph" search={{ q: new URL(href, location.origin).searchParams.get('q') ?? '' }}>
      {children}
    </Link>
  );
}

/** Of a block that still grows. */
const GROWING: Components = {
  ...COMPONENTS,
  pre: ({ children }) => (
    <CodeBlock language={languageOf(children)} code={unmarked(textOf(children))}>
      <code>{unmarked(textOf(children))}</code>
    </CodeBlock>
  ),
};

/** Leads to a footnote, which has no address: several answers of a page may have one of this number. */
function NoteLink({ number }: { number: string }) {
  const go = (link: HTMLElement) => {
    const note = link
      .closest('.markdown')
      ?.querySelector<HTMLElement>(`.footnotes > ol > li:nth-child(${Number(number)})`);
    note?.scrollIntoView({ block: 'nearest' });
    note?.focus();
  };
  return (
    <sup>
      <button
        type="button"
        className="note-link"
        aria-label={t('Footnote {number}', { number })}
        onClick={(event) => go(event.currentTarget)}
      >
        {number}
      </button>
    </sup>
  );
}

/** The language that a fence names. */
function languageOf(code: ReactNode): string {
  if (!code || typeof code !== 'object' || !('props' in code)) return '';
  const { className } = code.props as { className?: string };
  return /language-(\S+)/.exec(className ?? '')?.[1] ?? '';
}

/** Stretches of a text that are dressed at once, counted from its end: what is in sight, and a bit more. */
const AT_ONCE = 2;

interface Props {
  text: string;
  /** More of it is coming. */
  isLive: boolean;
  /** The text is rendered first. The rest is plain text until the browser is idle. */
  isNear?: boolean;
}

/**
 * Finished blocks are read once: while an answer of thousands of words grows, only its last block is read again. Of a long text that is
 * there already, the end is dressed first.
 */
export const Markdown = memo(function Markdown({ text, isLive, isNear = true }: Props) {
  const [splitter] = useState(() => new Splitter());
  const stretches = splitter.split(text, isLive);
  const definitions = splitter.definitions;
  const notes = useMemo(() => footnotesOf(text, definitions), [text, definitions]);
  // Its blocks are read again when a footnote is added, and not with each word of one. No label has a line break.
  const labels = notes.map(({ label }) => label).join('\n');
  const context = useMemo(
    () => ({ definitions, numbers: new Map(labels.split('\n').map((label, nth) => [label, nth + 1])) }),
    [definitions, labels],
  );
  // So many wait for their dress until what is urgent is done: at first those before the end, then none.
  const waiting = useDeferredValue(0, isLive ? 0 : Math.max(0, stretches.length - (isNear ? AT_ONCE : 0)));
  return (
    <div className={isLive ? 'markdown live' : 'markdown'}>
      {stretches.map((blocks, nth) => (
        <Stretch
          key={nth}
          blocks={blocks}
          context={context}
          isPlain={nth < waiting}
          isGrowing={isLive && nth === stretches.length - 1}
        />
      ))}
      {notes.length > 0 ? (
        <section className="footnotes" aria-label={t('Footnotes')}>
          <ol>
            {notes.map(({ label, text }) => (
              <li key={label} tabIndex={-1}>
                <Block text={text} context={context} isGrowing={false} />
              </li>
            ))}
          </ol>
        </section>
      ) : null}
    </div>
  );
});

const Stretch = memo(function Stretch({
  blocks,
  context,
  isPlain,
  isGrowing,
}: {
  blocks: readonly string[];
  context: Context;
  isPlain: boolean;
  isGrowing: boolean;
}) {
  return (
    <div className="stretch">
      {isPlain ? (
        <p dir="auto" className="undressed">
          {blocks.join('').trim()}
        </p>
      ) : (
        blocks.map((block, nth) => (
          <Block key={nth} text={block} context={context} isGrowing={isGrowing && nth === blocks.length - 1} />
        ))
      )}
    </div>
  );
});

const Block = memo(function Block({
  text,
  context,
  isGrowing,
}: {
  text: string;
  context: Context;
  isGrowing: boolean;
}) {
  // Each block is read by itself: what it refers to is put before it.
  const used = definitionsFor(text, context.definitions);
  const whole = used.length === 0 ? text : `${used.map(([, source]) => source).join('\n\n')}\n\n${text}`;
  const numbers = used.flatMap(([label]): [string, number][] => {
    const number = context.numbers.get(label);
    return number === undefined ? [] : [[label, number]];
  });
  return isGrowing ? grow(text, whole, numbers) : dress(whole, numbers);
});

/** Code that is still being written: nothing in it is Markdown, however long it gets. */
const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*\n/;

function grow(text: string, whole: string, numbers: Numbers): ReactNode {
  const fence = OPEN_FENCE.exec(text);
  const code = fence && text.slice(fence[0].length);
  if (!fence || code === null || code.includes(`\n${fence[1]}`) || code.startsWith(fence[1] ?? ''))
    return read(whole, numbers, GROWING);
  return (
    <CodeBlock language={fence[2] ?? ''} code={code}>
      <code>{linesOf(code)}</code>
    </CodeBlock>
  );
}

/** Lines that are laid out together: of code that grows, only the last ones are laid out again. */
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

/** The number of each footnote that a block refers to. */
type Numbers = readonly [label: string, number: number][];

function read(text: string, numbers: Numbers, components = COMPONENTS): ReactNode {
  return ReactMarkdown({
    remarkPlugins: [remarkGfm, [remarkFootnotes, new Map(numbers)], remarkCitations],
    components,
    children: markFormulas(text),
  });
}

/** Parsed blocks that are kept: a text that is shown again, in other pieces, is not parsed again. */
const KEPT = 4_000;
const kept = new Map<string, ReactNode>();

function dress(text: string, numbers: Numbers): ReactNode {
  const key = numbers.length === 0 ? text : `${JSON.stringify(numbers)}${text}`;
  let block = kept.get(key);
  if (block === undefined) {
    block = read(text, numbers);
    const oldest = kept.keys().next();
    if (kept.size >= KEPT && !oldest.done) kept.delete(oldest.value);
    kept.set(key, block);
  }
  return block;
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string' || typeof node === 'number') return String(node);
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (node && typeof node === 'object' && 'props' in node)
    return textOf((node.props as { children?: ReactNode }).children);
  return '';
}
