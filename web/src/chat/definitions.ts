// Resolves footnotes and reference links that one block of a text defines and others use.

/** Where a reference to a footnote leads; its number follows. */
export const NOTE = '#note-';

/** `[label]: where` or `[^label]: text`, where a block or another definition ends before it. */
const DEFINITION = /^ {0,3}\[(\^?[^\][\n]{1,200})\]:[ \t]*\S/;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const LABEL = /\[(\^?[^\][\n]{1,200})\]/g;

/** As Markdown compares them. */
function normal(label: string): string {
  return label.trim().replaceAll(/\s+/g, ' ').toLowerCase();
}

/** What a block defines: labels with the lines that do so. Labels of footnotes begin with `^`. */
export function definitionsIn(block: string): [label: string, source: string][] {
  if (!block.includes(']:')) return [];
  const found: [string, string][] = [];
  let fence: string | null = null;
  let isAfterBlank = true;
  /** The footnote whose text may go on. */
  let note: [string, string] | null = null;
  let isAfterDefinition = false;
  for (const line of block.split('\n')) {
    const mark = FENCE.exec(line)?.[1];
    const isMark = mark !== undefined && (fence === null || mark.startsWith(fence));
    if (isMark) fence = fence === null ? mark : null;
    const defined: string | undefined =
      fence === null && (isAfterBlank || isAfterDefinition) ? DEFINITION.exec(line)?.[1] : undefined;
    if (defined !== undefined) {
      const definition: [string, string] = [normal(defined), line];
      found.push(definition);
      note = defined.startsWith('^') ? definition : null;
    } else if (note && line.trim() !== '') {
      // Indented, or in the same paragraph, it belongs to the footnote.
      if (/^( {4}|\t)/.test(line)) note[1] += isAfterBlank ? `\n\n${line}` : `\n${line}`;
      else if (!isAfterBlank) note[1] += `\n${line}`;
      else note = null;
    }
    isAfterBlank = line.trim() === '';
    isAfterDefinition = defined !== undefined || (isAfterDefinition && note !== null && !isAfterBlank);
  }
  return found;
}

/** The definitions that a block needs and does not have itself, in the order of their labels. */
export function definitionsFor(
  block: string,
  definitions: ReadonlyMap<string, string>,
): [label: string, source: string][] {
  if (definitions.size === 0 || !block.includes('[')) return [];
  const labels = new Set([...block.matchAll(LABEL)].map(([, label = '']) => normal(label)));
  return [...labels].sort().flatMap((label): [string, string][] => {
    const source = definitions.get(label);
    return source === undefined ? [] : [[label, source]];
  });
}

/** The footnotes that a text refers to, in the order in which it does. */
export function footnotesOf(text: string, definitions: ReadonlyMap<string, string>): { label: string; text: string }[] {
  if (![...definitions.keys()].some((label) => label.startsWith('^'))) return [];
  const labels = new Set([...text.matchAll(/\[(\^[^\][\n]{1,200})\](?!:)/g)].map(([, label = '']) => normal(label)));
  return [...labels].flatMap((label) => {
    const source = definitions.get(label);
    return source === undefined
      ? []
      : [{ label, text: source.replace(/^ {0,3}\[[^\]]*\]:[ \t]*/, '').replaceAll(/\n( {4}|\t)/g, '\n') }];
  });
}

interface Node {
  type: string;
  identifier?: string;
  url?: string;
  value?: string;
  children?: Node[];
}

/** A step of reading Markdown: makes links of references to footnotes, which are shown once, behind the whole text. */
export function remarkFootnotes(numbers: ReadonlyMap<string, number>) {
  const walk = (node: Node): void => {
    node.children = node.children
      ?.filter(({ type }) => type !== 'footnoteDefinition')
      .map((child) => {
        walk(child);
        const number =
          child.type === 'footnoteReference' ? numbers.get(`^${normal(child.identifier ?? '')}`) : undefined;
        if (child.type !== 'footnoteReference') return child;
        if (number === undefined) return { type: 'text', value: `[^${child.identifier ?? ''}]` };
        return { type: 'link', url: `${NOTE}${number}`, children: [{ type: 'text', value: String(number) }] };
      });
  };
  return (tree: Node): void => walk(tree);
}
