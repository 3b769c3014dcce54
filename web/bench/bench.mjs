// How the chat feels, in numbers: an answer of 20,000 tokens with 200 tool calls, as it streams and as it is opened when it is
// finished; what a first visit weighs. `make bench-web` runs it. Prints a table, keeps it in bench/results/web.json, and writes
// it into docs/guide/web-app.md. In the environment:
//   REJOIN_TEST_BIN   the binary (needed)
//   SIZE=smoke        that it works: says nothing, and writes nothing
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { basename, join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { ask, launch, PROGRAM, signedIn } from '../tests/support/browser.mjs';
import { BINARY, startDev } from '../tests/support/dev.mjs';
import { startModel } from '../tests/support/model.mjs';
import { watchFrames, watchLoad, watchWords } from './in-page.mjs';

const IS_SMOKE = process.env.SIZE === 'smoke';
const CALLS = IS_SMOKE ? 5 : 200;
const TOKENS = IS_SMOKE ? 500 : 20_000;
/** Between two tokens [ms]: 200 a second, faster than anybody reads. */
const PACE_MS = 5;
const VISITS = IS_SMOKE ? 2 : 5;
/** A browser that draws as often as it can: frames that wait for a display are as long as its clock says, however quick the page is. */
const WITHOUT_CLOCK = ['--disable-frame-rate-limit', '--disable-gpu-vsync'];
const VIEWPORT = { width: 1280, height: 800 };
const ROOT = join(import.meta.dirname, '../..');
const RESULTS = join(ROOT, 'bench/results/web.json');
const PAGE = join(ROOT, 'docs/guide/web-app.md');
const LAST_WORDS = 'That was the last of it.';

/** What models write: paragraphs, lists, tables, code. `nth` makes each different. */
const PIECES = [
  (nth) =>
    `Part ${nth} looks at **package ${nth}**, which others need at run time, and at \`lib${nth}.so\`, which it brings along.\n\n`,
  (nth) =>
    `## What part ${nth} found\n\nThe graph knows of ${nth} packages like it, and each of them has a reason to be there.\n\n`,
  (nth) =>
    `- one that depends on number ${nth}\n- one that only *recommends* it, and works without\n- one that [says so](https://example.com/${nth})\n\n`,
  (nth) =>
    `| package | needs | since |\n| --- | --- | --- |\n| a${nth} | libc6 | 12.${nth} |\n| b${nth} | libssl3 | 13.${nth} |\n\n`,
  (nth) => `\`\`\`sh\napt rdepends package-${nth} | sort --unique\napt show package-${nth}\n\`\`\`\n\n`,
];
const tokensOf = (text) => text.match(/\s*\S+\s*/g) ?? [];

/** So many tokens, in whole pieces as far as that goes. */
function prose(step, tokens) {
  let text = '';
  for (let nth = 0; tokensOf(text).length < tokens; nth++)
    text += PIECES[(step + nth) % PIECES.length](step * 100 + nth);
  return `${tokensOf(text).slice(0, tokens).join('').trimEnd()}\n\n`;
}

/** A step a call; the last one answers. */
function reply(messages) {
  const step = messages.filter((message) => message.role === 'assistant').length;
  const text = prose(step, Math.floor(TOKENS / (CALLS + 1)));
  if (step >= CALLS) return { text: `${text}${LAST_WORDS}`, paceMs: PACE_MS };
  return {
    text,
    paceMs: PACE_MS,
    tools: [{ name: 'search_entities', arguments: { query: `package ${step}`, limit: 3 } }],
  };
}

function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
const median = (values) => quantile(values, 0.5);
const sum = (values) => values.reduce((all, one) => all + one, 0);

/** Streams the answer into a page that somebody looks at. */
async function stream(browser, dev, agent) {
  const { context, page, faults } = await signedIn(browser, dev, { viewport: VIEWPORT });
  const devtools = await context.newCDPSession(page);
  await devtools.send('Performance.enable');
  const busy = async () =>
    Object.fromEntries((await devtools.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
  await page.getByLabel('Agent', { exact: true }).selectOption(agent);
  await ask(page, 'Tell me all of it.');
  await page.locator('article.turn .markdown').first().waitFor();
  const before = await busy();
  await page.evaluate(watchFrames);
  await page.locator('article.turn[aria-busy="false"]').waitFor({ timeout: 1_200_000 });
  const { frames, work, long } = await page.evaluate(() => globalThis.framesSeen());
  const after = await busy();
  const calls = await page.locator('article.turn .folded > summary code').count();
  assert.equal(calls, CALLS, 'all calls are shown');
  assert.match(await page.locator('article.turn').innerText(), new RegExp(LAST_WORDS));
  assert.deepEqual(faults, []);
  const address = page.url();
  const state = await context.storageState();
  await context.close();
  return {
    address,
    state,
    measured: {
      streamed_s: sum(frames) / 1000,
      frames: frames.length,
      frame_median_ms: median(frames),
      frame_p95_ms: quantile(frames, 0.95),
      frame_longest_ms: frames.reduce((longest, one) => Math.max(longest, one), 0),
      work_median_ms: median(work),
      work_p95_ms: quantile(work, 0.95),
      main_thread_share: (after.TaskDuration - before.TaskDuration) / (after.Timestamp - before.Timestamp),
      long_tasks: long.length,
      long_task_longest_ms: Math.max(0, ...long),
      heap_mb: after.JSHeapUsedSize / 1e6,
      elements: after.Nodes,
    },
  };
}

/** The same answer in a browser that waits for no display. Most of its frames have nothing new to show: the median shows how soon the next one could. */
async function streamUnclocked(dev, agent) {
  const browser = await launch(WITHOUT_CLOCK);
  try {
    const { measured } = await stream(browser, dev, agent);
    return measured;
  } finally {
    await browser.close();
  }
}

/** Opens the finished conversation as somebody does who was never here: nothing is cached. */
async function visit(browser, address, state) {
  const context = await browser.newContext({ storageState: state, viewport: VIEWPORT });
  const page = await context.newPage();
  await page.addInitScript(watchWords, LAST_WORDS);
  await page.goto(address);
  await page.waitForFunction(() => globalThis.wordsSeenAt !== undefined, undefined, { timeout: 60_000 });
  const words = await page.evaluate(() => globalThis.wordsSeenAt);
  await page.waitForFunction(
    (calls) => document.querySelectorAll('article.turn .folded > summary code').length === calls,
    CALLS,
    { timeout: 60_000 },
  );
  const whole = await page.evaluate(() => performance.now());
  await context.close();
  return { words, whole };
}

/** The first visit of the chat. */
async function load(browser, dev, state) {
  const context = await browser.newContext({ storageState: state, viewport: VIEWPORT });
  const page = await context.newPage();
  const scripts = new Set();
  page.on('response', (response) => {
    if (new URL(response.url()).pathname.endsWith('.js')) scripts.add(basename(new URL(response.url()).pathname));
  });
  await page.addInitScript(watchLoad);
  await page.goto(dev.url);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  // A second without a long task, as Lighthouse waits.
  const { paintMs, blockedMs } = await page.evaluate(() => globalThis.loadSeen());
  await context.close();
  const contents = [...scripts].map((name) => readFileSync(join(ROOT, 'web/dist/assets', name)));
  return {
    paintMs,
    blockedMs,
    gzip: sum(contents.map((content) => gzipSync(content, { level: 9 }).length)),
    brotli: sum(contents.map((content) => brotliCompressSync(content).length)),
  };
}

/** A row: what it is, its value for people, and its bound, if one is promised. */
function rows(measured) {
  const ms = (value) => `${value < 100 ? value.toFixed(1) : Math.round(value)} ms`;
  const kib = (value) => `${Math.round(value / 1024)} KiB`;
  const { streaming, unclocked, finished, first } = measured;
  return [
    [
      'while streaming: time between frames, p50',
      ms(streaming.frame_median_ms),
      '16.7 ms (60 Hz)',
      streaming.frame_median_ms < 16.8,
    ],
    ['… p95', ms(streaming.frame_p95_ms)],
    ['… maximum', ms(streaming.frame_longest_ms)],
    ["… without a display's clock, p50", ms(unclocked.frame_median_ms)],
    ["… without a display's clock, p95", ms(unclocked.frame_p95_ms)],
    [
      'work per frame (script, style, layout), p50',
      ms(streaming.work_median_ms),
      '16 ms',
      streaming.work_median_ms < 16,
    ],
    ['… p95', ms(streaming.work_p95_ms)],
    ['tasks longer than 50 ms', `${streaming.long_tasks}, longest ${ms(streaming.long_task_longest_ms)}`],
    ['share of the time in which the page is busy', `${Math.round(streaming.main_thread_share * 100)} %`],
    ['opening the finished answer: end of the text visible', ms(finished.words_ms), '1 s', finished.words_ms < 1000],
    ['… all calls visible', ms(finished.whole_ms)],
    ['chat script, gzip', kib(first.script_gzip), '240 KiB', first.script_gzip <= 240 * 1024],
    ['… brotli, as sent', kib(first.script_brotli)],
    ['first visit: largest contentful paint', ms(first.largest_paint_ms)],
    ['… total blocking time', ms(first.blocked_ms)],
  ];
}

function table(measured) {
  const lines = rows(measured).map(
    ([what, value, bound = '', isHeld]) =>
      `| ${what} | ${value} | ${bound} | ${isHeld === undefined ? '' : isHeld ? 'yes' : '**no**'} |`,
  );
  return ['| | measured | bound | held |', '| --- | --- | --- | --- |', ...lines].join('\n');
}

/** Puts the table between its marks. */
function writePage(measured) {
  const page = readFileSync(PAGE, 'utf8');
  const marks = /(<!-- made by `make bench-web` -->\n)[\s\S]*?(<!-- until here -->)/;
  assert.match(page, marks, `${PAGE} has the marks`);
  const { cpu, cores, chromium, build } = measured.machine;
  const text = `Measured ${measured.measured_at} with Chromium ${chromium.split('.')[0]}, without a GPU, on ${cores} cores (${cpu}) that also ran PostgreSQL, the worker and the server (${build === 'debug' ? 'a debug build' : 'an optimised build'}):\n\n${table(measured)}\n`;
  writeFileSync(
    PAGE,
    page.replace(marks, (_, from, until) => `${from}${text}${until}`),
  );
}

assert.ok(BINARY, 'REJOIN_TEST_BIN names the binary');
assert.ok(PROGRAM, 'there is a Chromium: REJOIN_TEST_CHROMIUM says where');
const model = await startModel(reply);
const dev = await startDev(model.url, { workers: 1 });
const browser = await launch();
try {
  const { body } = await dev.api(`/api/admin/projects/${dev.projectId}/agent-definitions`, {
    method: 'POST',
    body: {
      name: 'writer',
      description: 'Writes a lot.',
      systemPrompt: 'You answer.',
      model: { name: 'openai:scripted' },
      tools: ['search_entities'],
      maxSteps: CALLS + 10,
      defaultTimeout: 3_000,
    },
  });
  const { address, state, measured: streaming } = await stream(browser, dev, body.id);
  const unclocked = await streamUnclocked(dev, body.id);
  const visits = [];
  const loads = [];
  for (let nth = 0; nth < VISITS; nth++) {
    visits.push(await visit(browser, address, state));
    loads.push(await load(browser, dev, state));
  }
  const measured = {
    about: `an answer of ${TOKENS.toLocaleString('en')} tokens with ${CALLS} tool calls, ${1000 / PACE_MS} tokens a second`,
    machine: {
      cpu: cpus()[0].model,
      cores: cpus().length,
      chromium: browser.version(),
      build: BINARY.includes('/debug/') ? 'debug' : 'optimised',
    },
    measured_at: new Date().toISOString().slice(0, 10),
    streaming,
    unclocked,
    finished: { words_ms: median(visits.map((one) => one.words)), whole_ms: median(visits.map((one) => one.whole)) },
    first: {
      script_gzip: loads[0].gzip,
      script_brotli: loads[0].brotli,
      largest_paint_ms: median(loads.map((one) => one.paintMs)),
      blocked_ms: median(loads.map((one) => one.blockedMs)),
    },
  };
  console.log(`${measured.about}\n\n${table(measured)}`);
  if (!IS_SMOKE) {
    writeFileSync(
      RESULTS,
      `${JSON.stringify(measured, (_, value) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value), 2)}\n`,
    );
    writePage(measured);
  }
} finally {
  await browser.close();
  await dev.stop();
  await model.stop();
}
