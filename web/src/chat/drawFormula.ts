// Draws formulas with KaTeX. Loaded with the first formula.
//
// The content security policy refuses attributes named `style` in markup, and `setAttribute('style', …)`, but not styles that a script sets on an
// element. KaTeX builds its elements that way, but for the widths of some pictures: those are set here. So its HTML needs no other policy, and
// looks alike in all browsers, which its MathML does not: several lack the alphabets of `\mathbb` and `\mathcal` there. MathML comes along,
// hidden, for screen readers and for copying.
import katex from 'katex';
import 'katex/dist/katex.min.css';
import { t } from '../ui/language';

/** A longer formula stays text, in characters. */
const MAX_CHARACTERS = 4_000;

const OPTIONS = { output: 'htmlAndMathml', strict: 'ignore', trust: false, maxExpand: 500, maxSize: 20 } as const;
const ALIAS = 'data-style';

/** The part of a formula's tree that counts here. */
interface Node {
  attributes?: Record<string, string>;
  children?: Node[];
  toNode(): globalThis.Node;
}
// The types of KaTeX leave it out.
const { __renderToDomTree: treeOf } = katex as unknown as {
  __renderToDomTree(tex: string, options: object): Node;
};

/** Draws it in a place. Returns what is wrong with the formula; empty: nothing. */
export function drawFormula(place: HTMLElement, tex: string, isDisplay: boolean): string {
  if (tex.length > MAX_CHARACTERS) return t('This formula is too long to be drawn.');
  try {
    const tree = treeOf(tex, { ...OPTIONS, displayMode: isDisplay });
    rename(tree);
    place.replaceChildren(tree.toNode());
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  for (const element of place.querySelectorAll<HTMLElement>(`[${ALIAS}]`)) {
    element.style.cssText = element.getAttribute(ALIAS) ?? '';
    element.removeAttribute(ALIAS);
  }
  return '';
}

function rename({ attributes, children = [] }: Node): void {
  if (attributes?.style !== undefined) {
    attributes[ALIAS] = attributes.style;
    delete attributes.style;
  }
  children.forEach(rename);
}
