// Highlights code by classes alone; styles/code.css has the colours. Loaded with the first finished block that names a language.
import { common, createLowlight } from 'lowlight';
import { createElement, type ReactNode } from 'react';

/** Longer code stays plain: with the first block of a language it would take more than 50 ms, in characters. */
const MAX_CHARACTERS = 10_000;

const lowlight = createLowlight(common);
type Node = ReturnType<typeof lowlight.highlight>['children'][number];

/** Returns the code with its words in spans; null: it is too long, or in a language that is not known. */
export function highlight(code: string, language: string): ReactNode[] | null {
  if (code.length > MAX_CHARACTERS || !lowlight.registered(language)) return null;
  return lowlight.highlight(language, code).children.map(element);
}

function element(node: Node, nth: number): ReactNode {
  if (node.type === 'text') return node.value;
  if (node.type !== 'element') return null;
  const { className } = node.properties;
  const classes = Array.isArray(className) ? className.join(' ') : undefined;
  return createElement('span', { key: nth, className: classes }, ...node.children.map(element));
}
