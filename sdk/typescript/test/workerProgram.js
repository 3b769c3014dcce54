// A worker as a program: node workerProgram.js DRAIN_TIMEOUT_MS. The API is in REJOIN_URL and REJOIN_API_KEY. It uses the built package.
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { agent, tool, Worker } from '@rejoin/sdk';
import { z } from 'zod';

const HOLD_LIMIT_MS = 60_000;
const folderInput = z.object({ folder: z.string() });

const echo = tool({
  name: 'echo',
  description: 'Returns the text.',
  input: z.object({ text: z.string() }),
  run: ({ text }) => text,
});

async function holding({ folder }, call) {
  writeFileSync(join(folder, `begun-${call.attempt}`), '');
  const deadline = Date.now() + HOLD_LIMIT_MS;
  while (!existsSync(join(folder, 'end'))) {
    if (Date.now() > deadline) throw new Error('there is no end');
    await pause(10);
  }
  return `process ${process.pid}`;
}

const hold = tool({
  name: 'hold',
  description: 'Creates the file `begun-ATTEMPT` in a folder, and returns when there is a file `end` in it.',
  input: folderInput,
  run: holding,
});

const holdIdempotent = tool({
  name: 'hold_idempotent',
  description: 'As `hold`, but a lost call is repeated.',
  input: folderInput,
  idempotent: true,
  run: holding,
});

const block = tool({
  name: 'block',
  description: 'Blocks the event loop.',
  input: z.object({ ms: z.number(), folder: z.string() }),
  run: ({ ms, folder }, call) => {
    writeFileSync(join(folder, `begun-${call.attempt}`), '');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return 'blocked';
  },
});

const waitCancelled = tool({
  name: 'wait_cancelled',
  description: 'Creates the file `begun-ATTEMPT` in a folder, and `stopped` when the call is cancelled.',
  input: folderInput,
  run: async ({ folder }, call) => {
    writeFileSync(join(folder, `begun-${call.attempt}`), '');
    await pause(HOLD_LIMIT_MS, undefined, { signal: call.signal }).catch(() =>
      writeFileSync(join(folder, 'stopped'), ''),
    );
    return 'done';
  },
});

const order = tool({
  name: 'order',
  description:
    'Writes what it does into the file `effects` in a folder. Its first attempt creates the file `begun-1`, and does not end.',
  input: folderInput,
  durable: true,
  run: async ({ folder }, call) => {
    const effect = (what) => () => {
      appendFileSync(join(folder, 'effects'), `${what}\n`);
      return `${what} by process ${process.pid}`;
    };
    const reserved = await call.step('reserve', effect('reserved'));
    if (call.attempt === 1) {
      writeFileSync(join(folder, 'begun-1'), '');
      await pause(HOLD_LIMIT_MS);
    }
    await call.sleep(1);
    const answer = await call.askUser(`Pay for ${folder}?`, { options: ['yes', 'no'] });
    return [reserved, answer, await call.step('pay', effect('paid'))];
  },
});

const clerk = agent({
  name: 'Billing clerk',
  toolName: 'billing_clerk',
  description: 'Repeats the message, and what was said before.',
  history: true,
  run: ({ message, history }) => [...history.map(({ role, text }) => `${role}: ${text}`), message].join('\n'),
});

const asker = agent({
  name: 'asker',
  description: 'Asks for the number of the order.',
  run: async ({ message }, call) => `${message}: ${await call.askUser(`Which order? ${message}`)}`,
});

const orderer = agent({
  name: 'orderer',
  description: 'Does what the tool `order` does, in the folder that the message names.',
  run: async ({ message }, call) => (await order.run({ folder: message }, call)).join(', '),
});

const repeater = agent({
  name: 'repeater',
  description: 'Repeats texts.',
  prompt: 'Repeat by echo what the user writes.',
  tools: [echo],
});

await new Worker([echo, hold, holdIdempotent, block, waitCancelled, order, clerk, asker, orderer, repeater], {
  slots: 4,
  name: `program-${process.pid}`,
  drainTimeoutMs: Number(process.argv[2]),
  limits: { pauseMinMs: 50, pauseMaxMs: 200 },
}).run();
