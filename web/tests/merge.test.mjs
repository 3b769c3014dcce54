// The rule by which texts are merged: the same as the server's (`shared/runs/src/consoles/edit.rs`).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildSync } from 'esbuild';

const { outputFiles } = buildSync({
  entryPoints: [`${import.meta.dirname}/../src/consoles/merge.ts`],
  bundle: true,
  format: 'esm',
  write: false,
});
const { both, merge } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const BASE = 'select a\nfrom t\nwhere x';

test('edits of different lines are merged, and of the same are not', () => {
  assert.equal(
    merge(BASE, 'select a, b\nfrom t\nwhere x', 'select a\nfrom t\nwhere x\nlimit 5'),
    'select a, b\nfrom t\nwhere x\nlimit 5',
  );
  assert.equal(merge(BASE, 'select b\nfrom t\nwhere x', 'select c\nfrom t\nwhere x'), null);
  assert.equal(merge(BASE, BASE, 'new'), 'new');
  assert.equal(merge(BASE, 'new', BASE), 'new');
  assert.equal(merge(BASE, 'same', 'same'), 'same');
  assert.equal(merge('', 'mine', 'theirs'), null);
});

test('what is merged by hand holds both, and what only one has changed once', () => {
  const text = both('a\nb\nc', 'mine\nb\nc', 'theirs\nb\nc');
  assert.equal(text, '<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> theirs\nb\nc');
});
