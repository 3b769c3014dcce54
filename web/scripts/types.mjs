// Types of the API, from its document as the server's tests have reviewed it.
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const REVIEWED = new URL(
  '../../tests/tests/it/repository/snapshots/it__repository__openapi__openapi.snap',
  import.meta.url,
);

// The snapshot begins with a few lines about itself, between dashes.
const [, , ...document] = readFileSync(REVIEWED, 'utf8').split(/^---$/m);
writeFileSync('src/api/schema.d.ts', astToString(await openapiTS(JSON.parse(document.join('---')))));
