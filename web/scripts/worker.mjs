// Completes the service worker with the files of the chat, and puts it beside the page.
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where the sources of the chat's parts are. */
const OF_CHAT = /^src\/(chat|consoles|shell|sharing|ui)\//;
/** Larger files, such as what draws formulas and diagrams, are kept when they are first used [bytes]. */
const LARGE = 120_000;
/** What shows a conversation is always kept. */
const CONVERSATION = 'src/chat/ChatView.tsx';

const page = readFileSync(join('dist', 'index.html'), 'utf8');
const files = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, file]) => file);
const manifest = JSON.parse(readFileSync(join('dist', '.vite', 'manifest.json'), 'utf8'));
const source = readFileSync(join('worker', 'sw.js'), 'utf8');

/** The files of a part, with those that it needs and the page has not loaded. */
function filesOf(name, known = new Set()) {
  const { file, css = [], imports = [] } = manifest[name];
  if (known.has(file) || files.includes(`/${file}`)) return [];
  known.add(file);
  return [`/${file}`, ...css.map((one) => `/${one}`), ...imports.flatMap((one) => filesOf(one, known))];
}
const isSmall = (file) => statSync(join('dist', file)).size <= LARGE;
const conversation = filesOf(CONVERSATION);
const parts = Object.keys(manifest)
  .filter((name) => manifest[name].isDynamicEntry && OF_CHAT.test(name))
  .map((name) => filesOf(name))
  .filter((all) => all.every((file) => isSmall(file) || conversation.includes(file)))
  .flat();

// The script is part of the version: another one fills another cache.
const version = createHash('sha256').update(page).update(source).digest('hex').slice(0, 16);
const lines = [
  ["const VERSION = '';", `const VERSION = '${version}';`],
  ['const FILES = [];', `const FILES = ${JSON.stringify(files)};`],
  ['const PARTS = [];', `const PARTS = ${JSON.stringify([...new Set(parts)].sort())};`],
];
const worker = lines.reduce((text, [line, complete]) => text.replace(line, complete), source);
if (files.length === 0 || parts.length === 0 || !lines.every(([, complete]) => worker.includes(complete)))
  throw new Error('the service worker has no list of files');
writeFileSync(join('dist', 'sw.js'), worker);
// Only for this script: the server would serve it.
rmSync(join('dist', '.vite'), { recursive: true });
