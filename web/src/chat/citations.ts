// Turns the entities that a model cites as `[Type:key]` into links to the graph.
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
