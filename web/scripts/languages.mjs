// Checks that each catalogue in src/languages has every message of the app, no other, and the same arguments in each; and that no text
// of the app is outside of `t`, `rich` and `message`. `npm run lint` runs it. With --missing, it prints what the catalogues lack as JSON.
// With a folder of src as argument, only its files are checked.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import ts from 'typescript';

const WEB = join(import.meta.dirname, '..');
const LANGUAGES = join(WEB, 'src/languages');
const only = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const listsMissing = process.argv.includes('--missing');

/** Attributes with texts that people read or hear. */
const READ = new Set([
  'alt',
  'aria-label',
  'aria-description',
  'aria-roledescription',
  'aria-valuetext',
  'label',
  'placeholder',
  'title',
  'name',
  'what',
  'action',
  'hint',
  'heading',
  'description',
]);
/** What is the same in every language. */
const IS_CODE = new Set(['code', 'kbd', 'pre', 'samp', 'style', 'script']);
const LETTERS = /\p{L}{2,}/u;
/** Examples of code in fields, and the name of the product. */
const IS_VERBATIM = /^(Rejoin|\S*[./_=:]\S*)$|\$\{/;
const isText = (text) => LETTERS.test(text) && !IS_VERBATIM.test(text.trim());

const files = readdirSync(join(WEB, 'src'), { recursive: true })
  .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts') && !name.startsWith('languages'))
  .filter((name) => only.length === 0 || only.some((folder) => name.startsWith(folder)));

/** Each message with the place of its first use. */
const messages = new Map();
let faults = 0;

function fault(source, node, text) {
  faults += 1;
  const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
  console.error(`${relative(WEB, source.fileName)}:${line + 1}: ${text}`);
}

/** The name of the JSX element around a node. */
function elementOf(node) {
  const parent = node.parent;
  if (ts.isJsxElement(parent)) return parent.openingElement.tagName.getText();
  return parent && ts.isJsxExpression(parent) ? elementOf(parent) : undefined;
}

/** Finds the literals that an expression may be. */
function* outcomes(node) {
  if (ts.isParenthesizedExpression(node)) yield* outcomes(node.expression);
  else if (ts.isConditionalExpression(node)) {
    yield* outcomes(node.whenTrue);
    yield* outcomes(node.whenFalse);
  } else if (ts.isBinaryExpression(node) && ['??', '||', '&&'].includes(node.operatorToken.getText())) {
    yield* outcomes(node.left);
    yield* outcomes(node.right);
  } else if (ts.isStringLiteralLike(node)) yield [node, node.text];
  else if (ts.isTemplateExpression(node))
    yield [node, [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join('')];
}

function read(source) {
  const visit = (node) => {
    if (ts.isCallExpression(node) && ['t', 'rich', 'message'].includes(node.expression.getText(source))) {
      const [first] = node.arguments;
      for (const [literal, text] of outcomes(first)) {
        if (ts.isTemplateExpression(literal))
          fault(source, literal, 'a message is a literal: give what varies as an argument');
        else if (!messages.has(text)) messages.set(text, [source, literal]);
      }
    } else if (ts.isJsxText(node)) {
      if (isText(node.text) && !IS_CODE.has(elementOf(node)))
        fault(source, node, `“${node.text.replaceAll(/\s+/g, ' ').trim()}” is not in t`);
    } else if (ts.isJsxAttribute(node) && READ.has(node.name.getText(source)) && node.initializer) {
      const value = ts.isJsxExpression(node.initializer) ? node.initializer.expression : node.initializer;
      // The names of form fields and icons are no text: they are one word without a capital.
      for (const [literal, text] of value ? outcomes(value) : [])
        if (isText(text) && !/^[a-z][\w-]*$/.test(text)) fault(source, literal, `“${text}” is not in t`);
    } else if (ts.isJsxExpression(node) && node.expression && ts.isJsxElement(node.parent)) {
      for (const [literal, text] of outcomes(node.expression))
        if (isText(text) && !IS_CODE.has(elementOf(node))) fault(source, literal, `“${text}” is not in t`);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

for (const name of files) {
  const path = join(WEB, 'src', name);
  read(
    ts.createSourceFile(
      path,
      readFileSync(path, 'utf8'),
      ts.ScriptTarget.Latest,
      true,
      path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS,
    ),
  );
}

/** The arguments of a message, with their kinds; not the words of their choices. */
function argumentsOf(text) {
  const found = new Set();
  const open = [];
  for (const [brace, name, kind] of text.matchAll(/\{(?:(\w+)(?:, (plural|select))?(?=[,}]))?|\}/g)) {
    const isChoice = open.at(-1) === 'choices';
    if (brace === '}') open.pop();
    else {
      if (name && !isChoice) found.add(`${name} ${kind ?? ''}`);
      open.push(kind && !isChoice ? 'choices' : 'text');
    }
  }
  return [...found].sort().join();
}

for (const name of readdirSync(LANGUAGES)) {
  const language = name.replace('.json', '');
  const catalogue = JSON.parse(readFileSync(join(LANGUAGES, name), 'utf8'));
  const missing = [...messages.keys()].filter((text) => !(text in catalogue));
  if (listsMissing) console.log(JSON.stringify(Object.fromEntries(missing.map((text) => [text, ''])), null, 2));
  for (const text of missing) fault(...messages.get(text), `${language} lacks “${text}”`);
  for (const [text, translated] of Object.entries(catalogue)) {
    if (messages.has(text) && argumentsOf(text) !== argumentsOf(translated))
      fault(...messages.get(text), `${language} has other arguments in “${translated}”`);
    if (only.length === 0 && !messages.has(text)) {
      faults += 1;
      console.error(`src/languages/${language}.json: no text of the app is “${text}”`);
    }
  }
}
if (faults > 0) {
  console.error(`${faults} ${faults === 1 ? 'fault' : 'faults'} in the languages of the app`);
  process.exit(1);
}
