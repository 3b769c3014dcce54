// Types of the API, from its document as the server's tests have reviewed it:
// - of all of it, for the app, into src/api/schema.d.ts, which each build makes
// - of the part that @rejoin/client uses, into its src/schema.ts, which is committed: `--check` fails if it is out of date
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const REVIEWED = new URL(
  '../../tests/tests/operators/repository/snapshots/operators__repository__openapi__openapi.snap',
  import.meta.url,
);
const OF_CLIENT = new URL('../packages/client/src/schema.ts', import.meta.url);
/** The schemas that the client names; those that they refer to come with them. */
const USED = [
  'StreamEvent',
  'Accepted',
  'AgentItem',
  'ConversationBody',
  'MessageBody',
  'Prewarmed',
  'QuestionBody',
  'RunBody',
  'RunDetail',
];
const HEAD = `/**
 * Generated from the OpenAPI document by \`npm run types\` in \`web\`: do not edit. \`wire\` gives the public names.
 */
`;

/** The names of all schemas that a value refers to. */
function* references(value) {
  if (value === null || typeof value !== 'object') return;
  if (typeof value.$ref === 'string') yield value.$ref.split('/').at(-1);
  for (const part of Object.values(value)) yield* references(part);
}

/** The document without paths, and with these schemas and what they refer to. */
function part(document, names) {
  const all = document.components.schemas;
  const kept = new Set(names);
  for (const name of kept) {
    if (!all[name]) throw new Error(`the OpenAPI document has no schema ${name}`);
    for (const other of references(all[name])) kept.add(other);
  }
  const schemas = Object.fromEntries([...kept].sort().map((name) => [name, all[name]]));
  return { openapi: document.openapi, info: document.info, components: { schemas } };
}

async function types(document) {
  return astToString(await openapiTS(document));
}

// The snapshot begins with a few lines about itself, between dashes.
const [, , ...text] = readFileSync(REVIEWED, 'utf8').split(/^---$/m);
const document = JSON.parse(text.join('---'));
const ofClient = HEAD + (await types(part(document, USED))).match(/export interface components [\s\S]*?\n}\n/)[0];
if (process.argv.includes('--check')) {
  if (!existsSync(OF_CLIENT) || readFileSync(OF_CLIENT, 'utf8') !== ofClient)
    throw new Error('packages/client/src/schema.ts is out of date: run `npm run types` in web');
} else {
  writeFileSync(OF_CLIENT, ofClient);
  writeFileSync('src/api/schema.d.ts', await types(document));
}
