// What of a growing answer is rendered again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildSync } from 'esbuild';

const { outputFiles } = buildSync({
  entryPoints: [`${import.meta.dirname}/../src/chat/stretches.ts`],
  bundle: true,
  format: 'esm',
  write: false,
});
const { STRETCH, Stretches } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const parts = (count) => Array.from({ length: count }, (_, nth) => ({ nth }));

test('stretches have all parts, in their order', () => {
  for (const count of [0, 1, STRETCH, STRETCH + 1, 3 * STRETCH - 1]) {
    const all = parts(count);
    const stretches = new Stretches().of(all);
    assert.deepEqual(stretches.flat(), all);
    assert.ok(stretches.every(({ length }) => length > 0 && length <= STRETCH));
  }
});

test('while the last part grows, the stretches before its own stay the same', () => {
  const stretches = new Stretches();
  let all = parts(3 * STRETCH - 2);
  const first = stretches.of(all);
  all = [...all.slice(0, -1), { grown: true }];
  const second = stretches.of(all);
  assert.deepEqual(
    second.map((stretch, nth) => stretch === first[nth]),
    [true, true, false],
  );
  assert.deepEqual(second.flat(), all);
  assert.deepEqual(
    stretches.of([...all]).map((stretch, nth) => stretch === second[nth]),
    [true, true, true],
  );
});

test('a part that changes later changes its stretch alone', () => {
  const stretches = new Stretches();
  const all = parts(3 * STRETCH);
  const first = stretches.of(all);
  const second = stretches.of(all.with(STRETCH, { changed: true }));
  assert.deepEqual(
    second.map((stretch, nth) => stretch === first[nth]),
    [true, false, true],
  );
});
