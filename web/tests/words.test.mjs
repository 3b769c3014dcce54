// Small rules of the page that need no browser: durations, titles, definitions of Markdown, what is still to be shown as unsent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildSync } from 'esbuild';

/** A module of the page with all that it needs. */
async function loaded(path, external = []) {
  const { outputFiles } = buildSync({
    entryPoints: [`${import.meta.dirname}/../src/${path}`],
    bundle: true,
    format: 'esm',
    write: false,
    jsx: 'automatic',
    platform: 'node',
    external,
  });
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);
}

test('a duration is rounded before it is taken apart', async () => {
  const { duration } = await loaded('ui/duration.ts');
  const texts = [999.6, 1_000, 59_940, 59_960, 60_000, 119_600, 119_400, null].map(duration);
  assert.deepEqual(texts, ['1.0 s', '1.0 s', '59.9 s', '1 min 0 s', '1 min 0 s', '2 min 0 s', '1 min 59 s', '']);
});

test('a title is shown without the text of files, and a branch as one', async () => {
  const { shownTitle } = await loaded('chat/titles.ts');
  const titles = [
    ['text see file File `notes.md`: ``` # Notes', {}, 'text see file'],
    ['see File `notes.md', {}, 'see'],
    ['File `notes.md`: ``` # Notes', {}, 'notes.md'],
    ['File formats', {}, 'File formats'],
    ['', {}, 'Untitled'],
    ['A question', { forkedFrom: 'a run' }, 'Branch: A question'],
    ['A question', null, 'A question'],
  ];
  for (const [title, metadata, shown] of titles) assert.equal(shownTitle({ title, metadata }), shown);
});

test('definitions are known in all blocks of a text, also while it grows', async () => {
  const { Splitter } = await loaded('chat/splitter.ts');
  const { definitionsFor, footnotesOf } = await loaded('chat/definitions.ts');
  const text =
    'See[^A] and [b].\n\n```\n[^c]: code\n```\n\n[^a]: One\n    two\n\n    three\n\n[B]: https://b.example\n[d]: https://d.example\n\nNo definition\n[e]: here\n\nThe end[^a]\n';
  const expected = [
    ['[^a]', undefined],
    ['^a', '[^a]: One\n    two\n\n    three'],
    ['b', '[B]: https://b.example'],
    ['d', '[d]: https://d.example'],
    ['e', undefined],
    ['^c', undefined],
  ];
  const whole = new Splitter();
  whole.split(text);
  const growing = new Splitter();
  for (let end = 1; end <= text.length; end += 1) growing.split(text.slice(0, end), true);
  for (const { definitions } of [whole, growing]) {
    for (const [label, source] of expected) assert.equal(definitions.get(label), source, label);
    assert.deepEqual(definitionsFor('Only [b] and [^c]', definitions), [['b', '[B]: https://b.example']]);
    assert.deepEqual(footnotesOf(text, definitions), [{ label: '^a', text: 'One\ntwo\n\nthree' }]);
  }
  // The same map until something is defined: blocks are not parsed again for nothing.
  const before = growing.definitions;
  growing.split(`${text}\nMore and more\n`, true);
  assert.equal(growing.definitions, before);
});
