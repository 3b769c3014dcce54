// Turns the entities that a model cites as `[Type:key]` into links to the graph, and lists what a text refers to.
import { createContext } from 'react';

/** Whether citations lead to the graph: readers of a shared conversation can't open it. */
export const LinksToGraph = createContext(true);

/** Where such a link leads; what follows is the key, as addresses spell it. */
export const CITED = '/graph?q=';

interface Node {
  type: string;
  value?: string;
  url?: string;
  children?: Node[];
}

/** Within code and links it means something else. */
const LEFT_ALONE = ['code', 'inlineCode', 'link', 'linkReference'];
const MENTION = /\[([A-Z]\w{0,63}):([^\s[\]]{1,200})\]/g;

/** A step of reading Markdown: makes links of what is cited. */
export function remarkCitations() {
  return (tree: Node): void => link(tree);
}

function link(node: Node): void {
  if (!node.children || LEFT_ALONE.includes(node.type)) return;
  node.children = node.children.flatMap((child) => {
    if (child.type === 'text' && child.value !== undefined) return split(child.value);
    link(child);
    return [child];
  });
}

function split(text: string): Node[] {
  const nodes: Node[] = [];
  let end = 0;
  for (const found of text.matchAll(MENTION)) {
    if (found.index > end) nodes.push({ type: 'text', value: text.slice(end, found.index) });
    nodes.push({
      type: 'link',
      url: `${CITED}${encodeURIComponent(found[2] ?? '')}`,
      children: [{ type: 'text', value: found[0].slice(1, -1) }],
    });
    end = found.index + found[0].length;
  }
  if (end < text.length) nodes.push({ type: 'text', value: text.slice(end) });
  return nodes;
}

/** Something that a text refers to: an object of the graph, or a page of the web. */
export interface Source {
  name: string;
  /** An object's key. */
  key?: string;
  /** A page's address. */
  url?: string;
}

const FENCED = /^ {0,3}(`{3,}|~{3,})[\s\S]*?(?:^ {0,3}\1|$(?![\s\S]))/gm;
const INLINE_CODE = /(`+)(?!`)[\s\S]*?[^`]\1(?!`)/g;
/** A link to a page, or an entity. A label of a link is none. What a hostile text may repeat is bounded. */
const REFERENCE =
  /(?<!!)\[([^\][\n]{1,300})\]\((https?:\/\/[^\s()<>]{1,2000})(?:\s[^()\n]{0,300})?\)|\[([A-Z]\w{0,63}):([^\s[\]]{1,200})\](?!\()/g;

/** What a text refers to outside of code, each once, in its order. */
export function sourcesOf(text: string): Source[] {
  if (!text.includes('[')) return [];
  const found = new Map<string, Source>();
  const prose = text.replaceAll(FENCED, '').replaceAll(INLINE_CODE, '');
  for (const [, label = '', url, type, key] of prose.matchAll(REFERENCE)) {
    if (url === undefined && key !== undefined && !found.has(key)) found.set(key, { name: `${type}:${key}`, key });
    if (url !== undefined && !found.has(url) && URL.canParse(url)) found.set(url, { name: label, url });
  }
  return [...found.values()];
}
