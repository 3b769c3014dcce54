// Completes the service worker with the files that the built page names, and puts it beside the page.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const page = readFileSync(join('dist', 'index.html'), 'utf8');
const files = [...page.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, file]) => file);
const source = readFileSync(join('worker', 'sw.js'), 'utf8');
// The script is part of the version: another one fills another cache.
const version = createHash('sha256').update(page).update(source).digest('hex').slice(0, 16);
const [withVersion, complete] = [`const VERSION = '${version}';`, `const FILES = ${JSON.stringify(files)};`];
const worker = source.replace("const VERSION = '';", withVersion).replace('const FILES = [];', complete);
if (files.length === 0 || !worker.includes(withVersion) || !worker.includes(complete))
  throw new Error('the service worker has no list of files');
writeFileSync(join('dist', 'sw.js'), worker);
