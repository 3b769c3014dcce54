// Finds formulas in Markdown: $…$ and \(…\) in a line, $$…$$ and \[…\] displayed. They become code spans with a mark before the parser sees them, as
// nothing within code is Markdown.

/** A formula as it stands in the text. */
export interface Source {
  tex: string;
  isDisplay: boolean;
  /** With its delimiters. */
  source: string;
}

/** Private use: before the opening delimiter, and behind it. */
const [BEGIN, END] = ['\uE000', '\uE001'];
const CLOSING: Record<string, string> = { $: '$', $$: '$$', '\\(': '\\)', '\\[': '\\]' };
const MAY_HAVE = /\$|\\[([]/;

/** A character of a paragraph. Blank lines end it. */
const ANY = String.raw`(?:[^\n]|\n(?![ \t]*\n))`;
/** The same, but for code. */
const TEXT = String.raw`(?:[^\n\x60]|\n(?![ \t]*\n))`;
const FOUND = new RegExp(
  [
    // Code is left alone: fences, also open ones, and spans.
    String.raw`^[ \t>]*(?<fence>\x60{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^[ \t>]*\k<fence>[\x60~]*[ \t]*$|(?![\s\S]))`,
    String.raw`(?<![\\\x60])(?<ticks>\x60+)(?!\x60)${ANY}*?(?<!\x60)\k<ticks>(?!\x60)`,
    String.raw`(?<![\\$])\$\$(?!\$)(?<dollars>${TEXT}+?)\$\$(?!\$)`,
    // Within a line, \[ and \] are brackets.
    String.raw`(?<=^[ \t>]*)\\\[(?<brackets>${TEXT}+?)\\\](?=[ \t.,;]*$)`,
    String.raw`(?<!\\)\\\((?<parens>${TEXT}+?)\\\)`,
    // As in Pandoc: the first dollar has no space behind it, the last none before it, and no word or digit touches them from outside. So prices
    // are text.
    String.raw`(?<![\p{L}\p{N}\\$/=&?])\$(?![\s$])(?<dollar>(?:\\[^\n]|[^\\$\n\x60]|\n(?![ \t]*\n))+?)(?<!\s)\$(?![\p{L}\p{N}$])`,
  ].join('|'),
  'gmu',
);

/** The text with its formulas as marked code spans. */
export function markFormulas(text: string): string {
  if (!MAY_HAVE.test(text)) return text;
  return text.replaceAll(FOUND, (found, ...rest) => {
    const { dollars, brackets, parens, dollar } = rest.at(-1) as Record<string, string | undefined>;
    const at = rest.at(-3) as number;
    if (dollars !== undefined) return marked('$$', dollars, text, at);
    if (brackets !== undefined) return marked('\\[', brackets, text, at);
    if (parens !== undefined) return marked('\\(', parens, text, at);
    return dollar === undefined ? found : marked('$', dollar, text, at);
  });
}

function marked(opening: string, tex: string, text: string, at: number): string {
  // In one line: lines of a formula would begin lists and headings.
  let line = tex
    .replaceAll(/(?<!\\)%.*$/gm, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
  // In a table, bars divide cells.
  if (/^[ \t]*\|/.test(text.slice(text.lastIndexOf('\n', at) + 1)))
    line = line.replaceAll(/\\?\|/g, (bar) => (bar === '|' ? '\\vert{}' : '\\Vert{}'));
  return line === '' ? `${opening}${tex}${CLOSING[opening]}` : `\`\`${BEGIN}${opening}${END}${line}\`\``;
}

/** The formula of a marked code span; null: it is code. */
export function formulaOf(code: string): Source | null {
  const end = code.startsWith(BEGIN) ? code.indexOf(END) : -1;
  if (end < 0) return null;
  const [opening, tex] = [code.slice(1, end), code.slice(end + 1)];
  const isDisplay = opening === '$$' || opening === '\\[';
  return { tex, isDisplay, source: `${opening}${tex}${CLOSING[opening] ?? ''}` };
}

/** Code without marks: indented code, which was marked like text. */
export function unmarked(code: string): string {
  return code.includes(BEGIN)
    ? code.replaceAll(
        /``\uE000([^\uE001]*)\uE001([^`]*)``/g,
        (_, opening, tex) => opening + tex + (CLOSING[opening] ?? ''),
      )
    : code;
}
