// What was measured, as tables, and as the page docs/reports/web-performance.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEVICE_SCORE } from './midrange.mjs';

const ROOT = join(import.meta.dirname, '../..');
const RESULTS = join(ROOT, 'bench/results/web.json');
const PAGE = join(ROOT, 'docs/reports/web-performance.md');

const KIB = 1024;
/** What the chat may load first. */
const SCRIPT_MAX_KIB = 240;
/** Stricter than what Web Vitals calls "good": 2.5 s and 200 ms. */
const LARGEST_PAINT_MAX_MS = 1_000;
const INTERACTION_MAX_MS = 100;
const NO_LONG_TASK = { upTo: 0, words: 'none' };
/** A frame of a 60 Hz display. */
const FRAME_MS = 1_000 / 60;
const OPENED_MAX_MS = 1_000;
const SEARCH_MAX_MS = 200;

const ms = (value) => `${value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en')} ms`;
const kib = (value) => `${(value / KIB).toFixed(1)} KiB`;
const count = (value) => value.toLocaleString('en');
const percent = (value) => `${Math.round(value * 100)} %`;

const MID = 'mid-range device';

/** Rows of a table: what it is, where its value is, how it is written, and its bound, if one is promised. */
const TABLES = [
  {
    title: 'First load of the chat',
    rows: [
      ['script, gzip', 'first.script_gzip', kib, { upTo: SCRIPT_MAX_KIB * KIB, words: `${SCRIPT_MAX_KIB} KiB` }],
      ['script, brotli, as it is sent', 'first.script_brotli', kib],
      ['script, number of files', 'first.scripts', count],
      [
        `largest contentful paint (LCP), ${MID}`,
        'first_midrange.largest_paint_ms',
        ms,
        { upTo: LARGEST_PAINT_MAX_MS, words: '1.0 s' },
      ],
      [`first contentful paint, ${MID}`, 'first_midrange.first_paint_ms', ms],
      [`total blocking time, ${MID}`, 'first_midrange.blocked_ms', ms],
      ['LCP, this machine', 'first.largest_paint_ms', ms],
      ['total blocking time, this machine', 'first.blocked_ms', ms],
    ],
  },
  {
    title: 'While an answer streams',
    rows: [
      ['time between frames, p50', 'streaming.frame_median_ms', ms, { upTo: FRAME_MS + 0.1, words: '16.7 ms (60 Hz)' }],
      ['… p95', 'streaming.frame_p95_ms', ms],
      ['… greatest', 'streaming.frame_longest_ms', ms],
      ["… without a display's clock, p50", 'unclocked.frame_median_ms', ms],
      ["… without a display's clock, p95", 'unclocked.frame_p95_ms', ms],
      ['work per frame (script, style, layout), p50', 'streaming.work_median_ms', ms, { upTo: 16, words: '16 ms' }],
      ['… p95', 'streaming.work_p95_ms', ms],
      ['tasks longer than 50 ms', 'streaming.long_tasks', count, NO_LONG_TASK],
      ['… the longest', 'streaming.long_task_longest_ms', ms],
      ['share of the time in which the page is busy', 'streaming.main_thread_share', percent],
    ],
  },
  {
    title: 'While an answer streams, and the user types and clicks',
    rows: [
      [
        'interaction to next paint (INP), this machine',
        'used.inp_ms',
        ms,
        { upTo: INTERACTION_MAX_MS, words: '100 ms' },
      ],
      ['… the longest interaction', 'used.interaction_longest_ms', ms],
      ['… number of interactions', 'used.interactions', count],
      ['tasks longer than 50 ms, this machine', 'used.long_tasks', count, NO_LONG_TASK],
      ['… the longest', 'used.long_task_longest_ms', ms],
      [`INP, ${MID}`, 'used_midrange.inp_ms', ms, { upTo: INTERACTION_MAX_MS, words: '100 ms' }],
      ['… the longest interaction', 'used_midrange.interaction_longest_ms', ms],
      ['… number of interactions', 'used_midrange.interactions', count],
      [`tasks longer than 50 ms, ${MID}`, 'used_midrange.long_tasks', count],
      ['… the longest', 'used_midrange.long_task_longest_ms', ms],
      [`time between frames, ${MID}, p50`, 'used_midrange.frame_median_ms', ms],
      ['… p95', 'used_midrange.frame_p95_ms', ms],
    ],
  },
  {
    title: 'Opening the finished answer',
    rows: [
      ['its end is visible, this machine', 'finished.words_ms', ms, { upTo: OPENED_MAX_MS, words: '1 s' }],
      ['… all calls are visible', 'finished.whole_ms', ms],
      [`its end is visible, ${MID}`, 'finished_midrange.words_ms', ms],
      ['… all calls are visible', 'finished_midrange.whole_ms', ms],
    ],
  },
  {
    title: 'Search over 100,000 messages',
    rows: [
      ['request, p50', 'search.request_median_ms', ms],
      ['… p95', 'search.request_p95_ms', ms, { upTo: SEARCH_MAX_MS, words: '200 ms' }],
      ['from the request until messages are shown, p50', 'search.shown_median_ms', ms],
      ['… p95', 'search.shown_p95_ms', ms, { upTo: SEARCH_MAX_MS, words: '200 ms' }],
      ['from the last key, p50 (with the pause of 250 ms that the field waits for)', 'search.typed_median_ms', ms],
      ['request, p50: words of most messages', 'search.kinds.frequent.request_median_ms', ms],
      ['… words of few messages', 'search.kinds.rare.request_median_ms', ms],
      ['… words of one message', 'search.kinds.single.request_median_ms', ms],
      ['… two words', 'search.kinds.two.request_median_ms', ms],
      ['request for the chats that contain the text, p50', 'search.chats_median_ms', ms],
      ['… p95', 'search.chats_p95_ms', ms],
    ],
  },
  {
    title: 'A list of 1,000 chats',
    rows: [
      ['the first 50 are shown, this machine', 'list.shown_ms', ms],
      ['the next 50 are shown after a click, p50', 'list.page_median_ms', ms],
      ['… greatest', 'list.page_longest_ms', ms],
      [
        'scrolling through all: time between frames, p50',
        'list.scroll_frame_median_ms',
        ms,
        { upTo: FRAME_MS + 0.1, words: '16.7 ms (60 Hz)' },
      ],
      ['… p95', 'list.scroll_frame_p95_ms', ms],
      ['… tasks longer than 50 ms', 'list.scroll_long_tasks', count],
      [`the first 50 are shown, ${MID}`, 'list_midrange.shown_ms', ms],
      ['the next 50 are shown after a click, p50', 'list_midrange.page_median_ms', ms],
      ['… greatest', 'list_midrange.page_longest_ms', ms],
      ['scrolling through all: time between frames, p50', 'list_midrange.scroll_frame_median_ms', ms],
      ['… p95', 'list_midrange.scroll_frame_p95_ms', ms],
      ['… tasks longer than 50 ms', 'list_midrange.scroll_long_tasks', count],
    ],
  },
];

const METHOD = `## How it is measured
- **Answer**: a scripted model streams 20,000 tokens with 200 tool calls, 200 tokens a second, through a worker of \`rejoin dev\` and the API to the page.
- **Mid-range device**: before each measurement the processor is slowed down until it would score ${DEVICE_SCORE.toLocaleString('en')} in [Lighthouse's BenchmarkIndex](https://github.com/GoogleChrome/lighthouse/blob/main/docs/throttling.md), which is
  what Chromium's developer tools aim at when they calibrate a "mid-tier mobile", like a Pixel 5. The network is their preset "Fast 4G": 8.1 Mbit/s down, 1.35 Mbit/s up, 165 ms latency. The server runs beside it, on
  the same cores, at full speed. If others use the machine, a score of a busy moment slows down less than a quiet one needs. Before 30 November 2026 the processor was slowed down four times, whatever its speed; in
  that way, LCP was 1,584 ms and INP 280 ms on that day.
- **First load**: visits without anything in the cache, the median of five. The script is all that the page loads until a second has gone by without a long task; what is opened by a click is loaded then.
- **Time between frames**: that of a 60 Hz display if the page keeps up. A second browser without a display's clock (\`--disable-frame-rate-limit --disable-gpu-vsync\`) shows how soon the next frame could be
  rendered.
- **Interactions**: keys in the message field, 16 a second, and clicks that open and close tool calls and the chat's menu, until the answer is over. INP is the 98th percentile of the time from an interaction to the next
  frame; the browser reports 16 ms and more, rounded to 8 ms.
- **Search and list**: 1,000 chats with 100 messages each, of 40 to 100 words out of 2,000 with frequencies as in a language, stored with SQL; the index is filled by the trigger that fills it for other messages. 20
  searches are typed into the field of the list.
- **Bounds** are goals of this project. Those of LCP and INP are stricter than what [Web Vitals](https://web.dev/articles/vitals) calls "good": 2.5 s and 200 ms.

\`SIZE=smoke make bench-web\` checks that the script works, and writes nothing. \`PARTS=search,list make bench-web\` measures these parts alone, prints them, and writes nothing. The parts: \`first\`, \`streaming\`, \`used\`,
\`finished\`, \`search\`, \`list\`.
`;

function valueAt(measured, path) {
  return path.split('.').reduce((found, name) => found?.[name], measured);
}

function line(measured, [what, path, write, bound]) {
  const value = valueAt(measured, path);
  if (value === undefined || value === null) return `| ${what} | not measured yet | ${bound?.words ?? ''} |  |`;
  const held = bound === undefined ? '' : value <= bound.upTo ? 'yes' : '**no**';
  return `| ${what} | ${write(value)} | ${bound?.words ?? ''} | ${held} |`;
}

/** All tables. `isWhole` false: those alone of which something was measured. */
export function tables(measured, isWhole = true) {
  const shown = TABLES.filter(({ rows }) => isWhole || rows.some(([, path]) => valueAt(measured, path) !== undefined));
  return shown
    .map(({ title, rows }) =>
      [
        `## ${title}`,
        '| | measured | bound | held |',
        '| --- | ---: | ---: | --- |',
        ...rows.map((row) => line(measured, row)),
      ].join('\n'),
    )
    .join('\n\n');
}

export function writeResults(measured) {
  const rounded = (_, value) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value);
  writeFileSync(RESULTS, `${JSON.stringify(measured, rounded, 2)}\n`);
}

function scored({ machine_scores: scores }) {
  if (!scores) return '';
  const [least, middle, greatest] = scores.map((score) => Math.round(score).toLocaleString('en'));
  return `: it scores ${middle} (${least} to ${greatest}), the mid-range device ${DEVICE_SCORE.toLocaleString('en')}`;
}

/** Writes the page, of what was measured last. */
export function writePage() {
  const measured = JSON.parse(readFileSync(RESULTS, 'utf8'));
  const { cpu, cores, chromium, build } = measured.machine;
  const text = `<!-- Made by \`make bench-web\` from bench/results/web.json. Change web/bench/report.mjs, not this page. -->
# Performance of the web app

How soon the chat can be used, how it reacts while an answer streams, and how it copes with many chats and messages: in Chromium, over \`rejoin dev\`. \`make bench-web\` repeats the measurements and writes
this page.

Measured ${measured.measured_at} with Chromium ${chromium.split('.')[0]}, without a GPU, on ${cores} cores (${cpu}) that also ran PostgreSQL, the worker and the server (${build === 'debug' ? 'a debug build' : 'an optimised build'}). "This machine" is without a slowdown${scored(measured)}.

${tables(measured)}

${METHOD}`;
  writeFileSync(PAGE, text);
}
