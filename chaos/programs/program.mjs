// The tools of users' programs in chaos runs, served by the package for TypeScript: `program.mjs LEDGER`. Its process is killed and suspended while
// it works. Each effect is a line in the ledger.
import { openSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { RetryCall, StepOutcomeUnknownError, tool, Worker } from '../../sdk/typescript/dist/index.js';

const LEDGER = openSync(process.argv[2], 'a');
const SLOTS = 16;
/** How often a call is given back. */
const RETRIES = 0.06;

/** Leaves an effect, with one write: lines of several processes do not mix. */
function act(name, call, holdMs) {
  // The id of the record, which the checker knows.
  const effect = { tool: name, run_id: call.runId, call_id: call.id };
  const more = { pid: process.pid, at_us: Date.now() * 1000, hold_ms: holdMs };
  writeSync(LEDGER, `${JSON.stringify({ ...effect, ...more })}\n`);
}

function served(name, options, run) {
  const input = {
    type: 'object',
    required: ['plan', 'step', 'hold_ms'],
    additionalProperties: false,
    properties: { plan: { type: 'string' }, step: { type: 'integer' }, hold_ms: { type: 'integer' } },
  };
  return tool({ name, description: 'Leaves an effect.', input, ...options, run });
}

function execute(name) {
  return async ({ step, hold_ms: holdMs }, call) => {
    if (call.attempt === 1 && Math.random() < RETRIES) throw new RetryCall('not now');
    act(name, call, holdMs);
    await pause(holdMs);
    return { done: step, attempt: call.attempt };
  };
}

async function flow({ step, hold_ms: holdMs }, call) {
  let paid;
  try {
    paid = await call.step('pay', async () => {
      act('node_flow', call, 0);
      await pause(holdMs);
      return Math.floor(Math.random() * 2 ** 32);
    });
  } catch (error) {
    if (!(error instanceof StepOutcomeUnknownError)) throw error;
    // It may have paid, and does not pay again.
    paid = null;
  }
  await call.sleep(holdMs / 1000);
  await call.step('last', () => paid, { idempotent: true });
  return { done: step, attempt: call.attempt, paid };
}

const tools = [
  served('node_pay', {}, execute('node_pay')),
  served('node_look', { idempotent: true }, execute('node_look')),
  served('node_flow', { durable: true }, flow),
];
await new Worker(tools, { name: 'chaos in TypeScript', slots: SLOTS }).run();
