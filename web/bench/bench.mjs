// How the chat feels, in numbers: its first load, an answer of 20,000 tokens with 200 tool calls as it streams and as it is opened later, a search
// over 100,000 messages, and a list of 1,000 chats. `make bench-web` runs it. Prints tables, keeps them in bench/results/web.json, and writes
// docs/reports/web-performance.md. In the environment:
//   REJOIN_TEST_BIN   the binary (needed)
//   SIZE=smoke        that it works: says nothing, and writes nothing
//   PARTS=first,list  these parts alone: writes nothing
// `bench.mjs --page` measures nothing, and writes the page of what was measured last.
import assert from 'node:assert/strict';
import { cpus } from 'node:os';
import { launch, PROGRAM, signedIn } from '../tests/support/browser.mjs';
import { BINARY, startDev } from '../tests/support/dev.mjs';
import { startModel } from '../tests/support/model.mjs';
import { replies } from './answer.mjs';
import { list, search, store } from './history.mjs';
import { machineScores } from './midrange.mjs';
import { tables, writePage, writeResults } from './report.mjs';
import { stream, streamUnclocked } from './streaming.mjs';
import { loads, openings } from './visits.mjs';

const ALL_PARTS = ['first', 'streaming', 'used', 'finished', 'search', 'list'];
const IS_SMOKE = process.env.SIZE === 'smoke';
const PARTS = (process.env.PARTS || ALL_PARTS.join()).split(',');
const CALLS = IS_SMOKE ? 5 : 200;
const TOKENS = IS_SMOKE ? 500 : 20_000;
/** Between two tokens [ms]: 200 a second, faster than anybody reads. */
const PACE_MS = 5;
const VISITS = IS_SMOKE ? 2 : 5;
const HISTORY = IS_SMOKE ? { chats: 120, messagesEach: 5 } : { chats: 1_000, messagesEach: 100 };
const VIEWPORT = { width: 1280, height: 800 };

/** Makes the agent that gives the long answer; its id. */
async function writer(dev) {
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
  return body.id;
}

/** Runs the parts that are asked for, in their order. What was measured is kept if another part fails. */
async function measure(browser, dev, measured) {
  const { context } = await signedIn(browser, dev, { viewport: VIEWPORT });
  const state = await context.storageState();
  await context.close();
  const visitor = { state, viewport: VIEWPORT, visits: VISITS };
  const answer = { agent: await writer(dev), calls: CALLS, viewport: VIEWPORT };
  let isStored = false;
  let failed = 0;
  const part = async (name, act) => {
    if (!PARTS.includes(name)) return;
    console.error(`${new Date().toISOString().slice(11, 19)} ${name}`);
    try {
      await act();
    } catch (error) {
      failed += 1;
      console.error(`${name} failed:`, error);
    }
  };
  /** Stores the many chats once; from then on they are in the list. */
  const stored = () => {
    if (!isStored) store(dev, HISTORY);
    isStored = true;
  };
  await part('first', async () => {
    measured.first = await loads(browser, dev, visitor);
    measured.first_midrange = await loads(browser, dev, { ...visitor, isMidrange: true });
  });
  let address;
  await part('streaming', async () => {
    ({ address, measured: measured.streaming } = await stream(browser, dev, answer));
    measured.unclocked = await streamUnclocked(dev, answer);
  });
  await part('used', async () => {
    const used = await stream(browser, dev, { ...answer, isUsed: true });
    address ??= used.address;
    measured.used = used.measured;
    measured.used_midrange = (await stream(browser, dev, { ...answer, isUsed: true, isMidrange: true })).measured;
  });
  await part('finished', async () => {
    address ??= (await stream(browser, dev, answer)).address;
    measured.finished = await openings(browser, { ...visitor, address, calls: CALLS });
    measured.finished_midrange = await openings(browser, { ...visitor, address, calls: CALLS, isMidrange: true });
  });
  await part('search', async () => {
    stored();
    measured.search = await search(browser, dev, { ...visitor, ...HISTORY });
  });
  await part('list', async () => {
    stored();
    measured.list = await list(browser, dev, { ...visitor, ...HISTORY });
    measured.list_midrange = await list(browser, dev, { ...visitor, ...HISTORY, isMidrange: true });
  });
  return failed;
}

async function main() {
  assert.ok(BINARY, 'REJOIN_TEST_BIN names the binary');
  assert.ok(PROGRAM, 'there is a Chromium: REJOIN_TEST_CHROMIUM says where');
  for (const name of PARTS) assert.ok(ALL_PARTS.includes(name), `${name} is one of ${ALL_PARTS.join(', ')}`);
  const model = await startModel(replies({ tokens: TOKENS, calls: CALLS, paceMs: PACE_MS }));
  const dev = await startDev(model.url, { workers: 1 });
  const browser = await launch();
  try {
    const measured = {
      about: `an answer of ${TOKENS.toLocaleString('en')} tokens with ${CALLS} tool calls, ${1000 / PACE_MS} tokens a second; ${HISTORY.chats.toLocaleString('en')} chats with ${HISTORY.messagesEach} messages each`,
      machine: {
        cpu: cpus()[0].model,
        cores: cpus().length,
        chromium: browser.version(),
        build: BINARY.includes('/debug/') ? 'debug' : 'optimised',
      },
      measured_at: new Date().toISOString().slice(0, 10),
    };
    const failed = await measure(browser, dev, measured);
    measured.machine_scores = machineScores();
    console.log(`${measured.about}\n\n${tables(measured, false)}`);
    if (!IS_SMOKE && PARTS.length === ALL_PARTS.length) {
      writeResults(measured);
      writePage();
    }
    if (failed > 0) process.exitCode = 1;
  } finally {
    await browser.close();
    await dev.stop();
    await model.stop();
  }
}

if (process.argv.includes('--page')) writePage();
else await main();
