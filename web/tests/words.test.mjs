// Small rules of the page that need no browser: durations, titles, definitions of Markdown, what is still to be shown as unsent.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { loaded } from './support/bundle.mjs';

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

test('what a text refers to is found once, in its order, outside of code', async () => {
  const { sourcesOf } = await loaded('chat/citations.ts');
  const text = [
    'See [a page](https://a.example/x "Title"), ![a picture](https://p.example) and [Package:libssl3].',
    'Again [here](https://a.example/x); [Package:label](https://b.example), `[Package:code]` and [c](javascript:1).',
    '```\n[Package:fenced]\n```',
    '[Service:auth] ends.\n~~~\n[Package:open]',
  ].join('\n\n');
  assert.deepEqual(sourcesOf(text), [
    { name: 'a page', url: 'https://a.example/x' },
    { name: 'Package:libssl3', key: 'libssl3' },
    { name: 'Package:label', url: 'https://b.example' },
    { name: 'Service:auth', key: 'auth' },
  ]);
  assert.deepEqual(sourcesOf('[a](https://a.example '.repeat(20_000)), []);
});

test('chats are grouped by day, those at work first', async () => {
  const { byDays } = await loaded('chat/days.ts');
  const now = new Date(2026, 10, 28, 12);
  const at = (days) => new Date(2026, 10, 28 - days, 9).toISOString();
  const chats = [0, 0, 1, 5, 20, 60].map((days, nth) => ({ id: String(nth), updatedAt: at(days) }));
  const groups = byDays(chats, new Map([['3', 'running']]), now);
  assert.deepEqual(
    groups.map(({ name, items }) => [name, items.map(({ id }) => id).join()]),
    [
      ['Running', '3'],
      ['Today', '0,1'],
      ['Yesterday', '2'],
      ['Previous 30 days', '4'],
      ['September 2026', '5'],
    ],
  );
});

test('events of a day that overlap are side by side', async () => {
  const { slotsOf } = await loaded('calendar/lanes.ts');
  const event = (from, to, first = '2026-03-10', last = '2026-03-10') => ({ occurrence: {}, first, last, from, to });
  const slots = slotsOf(
    [
      event('22:00', '07:00', '2026-03-09'),
      event('08:00', '10:00'),
      event('09:00', '09:10'),
      event('09:40', '11:00'),
      event('23:50', '00:00'),
      { occurrence: {}, first: '2026-03-10', last: '2026-03-10' },
    ],
    '2026-03-10',
  );
  assert.deepEqual(
    slots.map(({ from, to, lane, lanes }) => [from, to, lane, lanes]),
    [
      [0, 420, 0, 1],
      [480, 600, 0, 2],
      [540, 570, 1, 2],
      [580, 660, 1, 2],
      [1410, 1440, 0, 1],
    ],
  );
});

test('a stored message of a model is read as its text and calls', async () => {
  const { readable, inShort } = await loaded('runs/messages.ts');
  const stored = { kind: 'assistant', text: 'Wait.', tool_calls: [{ name: 'search', arguments: { query: 'x' } }] };
  const calls = [{ name: 'search', input: { query: 'x' } }];
  const wanted = { text: 'Wait.', calls, tool: undefined, isError: false, files: [] };
  assert.deepEqual(readable(JSON.stringify(stored)), wanted);
  assert.deepEqual(readable(stored), wanted);
  assert.equal(inShort(JSON.stringify(stored)), 'Wait. · calls search');
  assert.equal(inShort('{"kind":"assistant","text":"cut of'), 'calls tools');
  assert.equal(inShort('Plain words'), 'Plain words');
});

test('a browser is named by what it sends, also if it pretends to be another one', async () => {
  const { browserOf } = await loaded('settings/browsers.ts');
  const chrome = 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36';
  const mac = 'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)';
  const named = [
    [`Mozilla/5.0 (X11; Linux x86_64) ${chrome}`, 'Chrome on Linux'],
    [`Mozilla/5.0 (Linux; Android 14) ${chrome}`, 'Chrome on Android'],
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${chrome} Edg/148.0.0.0`, 'Edge on Windows'],
    ['Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0', 'Firefox on Linux'],
    [`${mac} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15`, 'Safari on macOS'],
    ['curl/8.5.0', 'Unknown browser'],
    [null, 'Unknown browser'],
  ];
  for (const [userAgent, name] of named) assert.equal(browserOf(userAgent), name);
});

test('formulas are found in Markdown, and prices and code are not', async () => {
  const { formulaOf, markFormulas, unmarked } = await loaded('chat/formulas.ts');
  const found = (text) =>
    [...markFormulas(text).matchAll(/``(\uE000[^`]+)``/g)].map(
      ([, code]) => formulaOf(code)?.source ?? `no formula: ${code}`,
    );
  const texts = [
    ['It costs $5 and $6.', []],
    ['US$5, $100K-$200K, \\$5 and \\$6, $ 5 $', []],
    ['$HOME:$PATH and x$y$z', []],
    ['Let $x_1 * y$ be ($a\\$b$)', ['$x_1 * y$', '$a\\$b$']],
    ['`$a$` and ``$a$``', []],
    ['```\n$a$\n```\n$b$', ['$b$']],
    ['~~~\n$a$', []],
    ['a `b $c$ d', ['$c$']],
    ['$$\na\n= b % why\n$$', ['$$a = b$$']],
    ['\\(x\\) and\n\\[\ny\n\\]', ['\\(x\\)', '\\[y\\]']],
    ['see \\[1\\] and \\[2\\]', []],
    ['| $|x|$ |', ['$\\vert{}x\\vert{}$']],
    ['[a](http://x.example/$a$b)', []],
  ];
  for (const [text, formulas] of texts) assert.deepEqual(found(text), formulas, text);
  assert.equal(unmarked(markFormulas('    echo $a$')), '    echo $a$');
});

test('messages are filled by the rules of the language', async () => {
  const runs =
    '{count, plural, =0 {no runs} one {# run of {name}} other {# runs of {name}}}, {kind, select, a {A} other {not A}}';
  const english = await loaded('ui/language.ts');
  const filled = (count, kind) => english.t(runs, { count, name: 'x {y}', kind });
  assert.deepEqual(
    [filled(0, 'a'), filled(1, 'a'), filled(1234.5, 'b')],
    ['no runs, A', '1 run of x {y}, A', '1,234.5 runs of x {y}, not A'],
  );
  assert.equal(english.t('Nothing # to {fill}'), 'Nothing # to {fill}');
  const forms = '{n, plural, zero {z} one {o} two {t} few {f} many {m} other {x}}';
  const arabic = await loaded('ui/language.ts', { languages: ['fr-FR', 'ar-EG', 'de'] });
  assert.deepEqual([arabic.language, arabic.LOCALE, arabic.DIRECTION], ['ar', 'ar-EG', 'rtl']);
  assert.equal([0, 1, 2, 3, 11, 100].map((n) => arabic.t(forms, { n })).join(''), 'zotfmx');
  const german = await loaded('ui/language.ts', { languages: ['de-DE', 'en'] });
  assert.deepEqual([german.number(1234567.5), german.LOCALE, german.DIRECTION], ['1.234.567,5', 'de-DE', 'ltr']);
  const french = await loaded('ui/language.ts', { languages: ['fr-FR'] });
  assert.deepEqual([french.language, french.LOCALE], ['en', 'en']);
});

test('all translations can be filled', async () => {
  for (const language of ['de', 'ar']) {
    const { t } = await loaded('ui/language.ts', { languages: [language] });
    const catalogue = JSON.parse(readFileSync(`${import.meta.dirname}/../src/languages/${language}.json`, 'utf8'));
    for (const [message, translation] of Object.entries(catalogue)) {
      const names = [...`${message}${translation}`.matchAll(/\{(\w+)\s*[,}]/g)].map(([, name]) => name);
      for (const count of [0, 1, 2, 3, 11, 100]) {
        const shown = t(message, Object.fromEntries(names.map((name) => [name, count])));
        assert.doesNotMatch(shown, /[{}#]|undefined|^\s*$/, `${language}: ${message}`);
      }
    }
  }
});
