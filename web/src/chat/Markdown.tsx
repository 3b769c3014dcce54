// What a model has written. It is never HTML; its pictures are not fetched, and its links lead away only when they are clicked.
import { memo, type ReactNode } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkGfm from 'remark-gfm';
import { CopyButton } from '../ui/parts';

const PLUGINS = [remarkGfm];

const COMPONENTS: Components = {
  a: ({ href, children }) => (
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
  pre: ({ children }) => (
    <div className="code">
      <CopyButton text={() => textOf(children)} />
      <pre>{children}</pre>
    </div>
  ),
};

/**
 * Finished blocks are rendered once: while an answer of thousands of words grows, only its last block is read again.
 */
export function Markdown({ text, isLive }: { text: string; isLive: boolean }) {
  const blocks = blocksOf(text);
  return (
    <div className="markdown">
      {blocks.map((block, nth) => (
        <Block key={nth} text={block} />
      ))}
      {isLive ? <span className="cursor" aria-hidden="true" /> : null}
    </div>
  );
}

const Block = memo(function Block({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  );
});

/** Where one paragraph ends and another begins, outside of fences and lists. */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let block = '';
  let fence: string | null = null;
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark) {
      if (fence === null) fence = mark;
      else if (mark.startsWith(fence)) fence = null;
    }
    const begins = fence === null && line !== '' && !/^(\s|[-*+>|]|\d+[.)])/.test(line);
    if (begins && block.endsWith('\n\n') && block.trim() !== '') {
      blocks.push(block);
      block = '';
    }
    block += `${line}\n`;
  }
  if (block.trim() !== '') blocks.push(block);
  return blocks;
}

function textOf(node: ReactNode): string {
  if (typeof node === 'string' || typeof node === 'number') return String(node);
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (node && typeof node === 'object' && 'props' in node) return textOf((node.props as { children?: ReactNode }).children);
  return '';
}
