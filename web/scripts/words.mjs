// Fails if a text that users read contains words of the dialect that this app once spoke: indirect subjects, noun clauses, translated idioms.
// Checks the string literals, templates and JSX text of the app and the client; comments are not checked. `npm run lint` runs it.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import ts from 'typescript';

const WEB = join(import.meta.dirname, '..');
const ROOTS = ['src', 'packages/client/src'];

/** Each pattern with what to write instead. */
const WORDS = [
  [/\b(whoever|somebody|nobody|everybody)\b/, 'name the person: the user, another member, someone else, no one'],
  [/\bwhatever\b/, 'name the thing'],
  [/\b(is|are|was|were) told\b/, 'write "is shown", or who tells whom'],
  [/\btold lately\b/, 'write "recent notices"'],
  [/\bof (its|their|your|my|his|her) own\b/, 'write "its own X", "separate" or "custom"'],
  [/\bany more\b/, 'write "no longer"'],
  [/\bis away\b/, 'write "is unreachable" or "is offline"'],
  [/\bso many\b/, 'give the number, or "too many"'],
  [/(?<!\bthere )\b(is|are|was|were) no (?!longer\b|more\b)/, 'write "is not a" or "is not valid"'],
  [/\b(is|are|was|were) none\b/, 'write "No X yet." or "No X are running."'],
  [/\bthere is (one|none)\.?$/, 'name what exists'],
  [/\b(is|are) not there\b/, 'write "X not found"'],
  [/\bnever was\b/, 'write "It may have been deleted."'],
  [/\bways? out\b/, 'name the actions'],
  [/\bsides? of\b/, 'write "sections of"'],
  [/\bmeanwhile\b/, 'write "in the meantime"'],
  [/\banew\b/, 'write "again"'],
  [/\b(comes?|came) back\b/, 'write "repeats", or "is restored"'],
  [/\bbrought back\b/, 'write "restored"'],
  [/\bmay only\b/, 'write "is read-only", or "can only"'],
  [/\btakes the scope\b/, 'write "needs the X scope"'],
  [/\bno longer lets\b/, 'write "access was revoked"'],
  [/\bkept the same\b/, 'write "in sync"'],
  [/\bsynchronis/, 'write "sync"'],
  [/\bword counts\b/, 'write "version wins"'],
  [/\bcalled so\b/, 'write "No matching X"'],
  [/\bwhat (is|was|were|it is) (meant|told|for|said|shown|seen|used|to be)\b/, 'use a noun: "description", "usage"'],
  [
    /^(make|take|throw|leave|keep|move|link|delete|restore|read|change) (it|them)( away)?$/,
    'name the action, and its object',
  ],
  [/\b(another|a|the) one takes\b/, 'write "replaces"'],
  [/\bgoes with\b/, 'write "is deleted with", or "is attached to"'],
];

/** All TypeScript files below a folder, without declarations. */
function files(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'))
    .map((name) => join(folder, name));
}

/** The texts of a file with their positions. A template is one text, with … for each of its expressions. */
function textsOf(source) {
  const found = [];
  const visit = (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return;
    if (ts.isStringLiteralLike(node) || ts.isJsxText(node)) found.push([node, node.text]);
    else if (ts.isTemplateExpression(node))
      found.push([node, [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('…')]);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

let faults = 0;
for (const path of ROOTS.flatMap((root) => files(join(WEB, root)))) {
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
  for (const [node, raw] of textsOf(source)) {
    const text = raw.replaceAll(/\s+/g, ' ').trim();
    for (const [pattern, hint] of WORDS) {
      const hit = pattern.exec(text.toLowerCase());
      if (!hit) continue;
      faults += 1;
      const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
      console.error(`${relative(WEB, path)}:${line + 1}: “${hit[0]}” in “${text}”: ${hint}`);
    }
  }
}
if (faults > 0) {
  console.error(`${faults} ${faults === 1 ? 'text is' : 'texts are'} not plain English`);
  process.exit(1);
}
