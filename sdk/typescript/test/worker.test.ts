/** Workers serve calls: their results, failures, slots, messages and checkpoints. The API is a strict one, on a real socket. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { APIError, ConfigurationError, RetryCall, ToolFailure, tool, Worker } from '../src/index.js';
import { ProtocolServer } from './protocolServer.js';
import { Log, serving, worker } from './serving.js';

const none = z.object({});
const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => a + b,
});

let api: ProtocolServer;
beforeEach(async () => {
  api = await ProtocolServer.start();
});
afterEach(() => api.close());

test('functions are called, and their results recorded', async () => {
  const greet = tool({
    name: 'greet',
    description: 'Greets.',
    input: z.object({ name: z.string() }),
    run: async ({ name }, { idempotencyKey, attempt, runId, conversationId, tool, version, timeoutS }) => {
      await pause(1);
      return { text: `Hello, ${name}`, idempotencyKey, attempt, runId, conversationId, tool, version, timeoutS };
    },
  });
  const options = { name: 'billing', version: '1.4.0', slots: 3 };
  await serving(
    api,
    [add, greet],
    async () => {
      const calls = Array.from({ length: 10 }, (_, a) => api.offer('add', { a, b: 1 }));
      const greeting = await api.ended(api.offer('greet', { name: 'Ann' }));
      for (const [a, call] of calls.entries()) expect((await api.ended(call)).output).toBe(a + 1);
      const about = { attempt: 1, runId: 'run', conversationId: null, tool: 'greet', version: '1', timeoutS: 60 };
      expect(greeting.output).toEqual({ text: 'Hello, Ann', idempotencyKey: `key-${greeting.id}`, ...about });
    },
    options,
  );
  expect(api.requests[0]).toEqual(['registrations', expect.objectContaining({ ...options, language: 'typescript' })]);
  // It has left.
  expect([api.workers.size, api.requests.at(-1)![0]]).toEqual([0, 'DELETE registrations']);
});

test('no more calls run than there are slots', async () => {
  let [running, most] = [0, 0];
  const busy = tool({
    name: 'busy',
    description: 'Is busy.',
    input: none,
    run: async () => {
      most = Math.max(most, ++running);
      await pause(50);
      running -= 1;
    },
  });
  const calls = Array.from({ length: 7 }, () => api.offer('busy'));
  await serving(api, [busy], async () => void (await Promise.all(calls.map((call) => api.ended(call)))), { slots: 2 });
  expect([most, calls.map((call) => call.output)]).toEqual([2, Array(7).fill(null)]);
});

test("a program's own fetch sends all requests", async () => {
  const sent: string[] = [];
  const own: typeof fetch = (url, init) => {
    sent.push(`${init?.method} ${new URL(String(url)).pathname}`);
    return fetch(url, init);
  };
  await serving(api, [add], async () => expect((await api.ended(api.offer('add', { a: 1, b: 2 }))).output).toBe(3), {
    fetch: own,
  });
  expect(sent).toHaveLength(api.requests.length);
  expect(sent).toContain('POST /api/workers/default/claims');
});

test('an idle worker waits in a claim, and sends no heartbeats', async () => {
  api.claimWaitMaxS = 20;
  await serving(api, [add], async () => {
    await api.until(() => api.count('claims'));
    await pause(api.heartbeatS * 5000);
    const beganMs = performance.now();
    expect((await api.ended(api.offer('add', { a: 1, b: 2 }))).output).toBe(3);
    // Neither at the end of the claim nor by asking again and again.
    expect(performance.now() - beganMs).toBeLessThan(10_000);
    expect([api.count('heartbeats'), api.count('claims')]).toEqual([0, expect.toSatisfy((count) => count <= 2)]);
  });
});

test('a claim waits for less than a lease', async () => {
  api.claimWaitMaxS = 20;
  api.leaseS = 15;
  await serving(api, [add], () => api.until(() => api.count('claims')));
  expect(api.requests.find(([kind]) => kind === 'claims')![1]).toMatchObject({ max: 10, waitS: 10 });
});

test('failures are texts for the model', async () => {
  const log = new Log();
  const fail = tool({
    name: 'fail',
    description: 'Fails.',
    input: z.object({ how: z.string() }),
    run: ({ how }): unknown => {
      if (how === 'text') throw new ToolFailure('There is no order A-7.');
      if (how === 'thrown') throw 'a text';
      if (how === 'map') return new Map();
      if (how === 'large') return 'x'.repeat(2_000_000);
      throw new RangeError(how);
    },
  });
  const typed = tool({
    name: 'typed',
    description: '…',
    input: none,
    output: none.extend({ n: z.int() }),
    run: () => ({ n: 0.5 }),
  });
  await serving(
    api,
    [fail, typed],
    async () => {
      const error = async (how: string) => (await api.ended(api.offer('fail', { how }))).error;
      expect(await error('text')).toBe('There is no order A-7.');
      expect(await error('other')).toBe('RangeError: other');
      expect(await error('thrown')).toBe('a text');
      expect(await error('map')).toBe(
        'The tool has completed, but its output is not JSON: a Map; use Object.fromEntries(map)',
      );
      expect(await error('large')).toBe(
        'The tool has completed, but its output has 2000002 bytes, and the limit is 1000000.',
      );
      const bad = await api.ended(api.offer('fail', { hw: 'text' }));
      expect(bad.error).toBe(
        'The arguments do not match the schema of fail: how: Invalid input: expected string, received undefined',
      );
      expect((await api.ended(api.offer('typed'))).error).toMatch(
        /^The tool has completed, but its output does not match its schema: n: Invalid input/,
      );
    },
    { logger: log },
  );
  expect([...api.calls.values()].map((call) => call.attempt)).toEqual(Array(7).fill(1));
  // Stacks are in the log, and only there.
  expect(log.lines.find((line) => line.startsWith('error tool fail has failed: RangeError: other'))).toContain(
    'worker.test.ts',
  );
});

test('a call that asks for it is handed out again', async () => {
  const flaky = tool({
    name: 'flaky',
    description: 'Succeeds after some attempts.',
    input: z.object({ times: z.number() }),
    run: ({ times }, { attempt }) => {
      if (attempt <= times) throw new RetryCall('The till is closed.');
      return attempt;
    },
  });
  await serving(api, [flaky], async () => {
    const [call, never] = [api.offer('flaky', { times: 2 }), api.offer('flaky', { times: 9 })];
    expect((await api.ended(call)).output).toBe(3);
    expect([(await api.ended(never)).error, never.attempt]).toEqual(['The till is closed.', 5]);
  });
});

test('messages and checkpoints', async () => {
  const copy = tool({
    name: 'copy',
    description: 'Copies, and fails once in the middle.',
    input: none,
    run: async (_, call) => {
      if (call.attempt > 1) return call.checkpoint;
      call.progress('half\0');
      await call.saveCheckpoint({ done: [1] });
      call.progress('last');
      throw new RetryCall('again');
    },
  });
  await serving(api, [copy], async () => {
    const call = await api.ended(api.offer('copy'));
    expect([call.output, call.messages]).toEqual([{ done: [1] }, ['half\uFFFD', 'last']]);
  });
});

test('of fast messages the newest are sent', async () => {
  const chatty = tool({
    name: 'chatty',
    description: 'Counts.',
    input: none,
    run: (_, { progress }) => {
      for (let number = 0; number < 500; number++) progress(String(number));
    },
  });
  await serving(api, [chatty], async () => {
    expect((await api.ended(api.offer('chatty'))).messages).toEqual(['0', '499']);
  });
});

test('what the API refuses for good is thrown', async () => {
  const other = tool({ name: 'add', description: 'Adds otherwise.', input: none, run: () => 1 });
  await serving(api, [add], async () => {
    await api.until(() => api.workers.size);
    await expect(worker(api, [other]).serve()).rejects.toMatchObject({ status: 409, code: 'tool_conflict' });
  });
  await expect(worker(api, [add], { apiKey: 'wrong' }).serve()).rejects.toThrow(APIError);
  await expect(worker(api, [add], { url: 'nowhere' }).serve()).rejects.toThrow(ConfigurationError);
  api.allowed = false;
  await expect(worker(api, [add]).serve()).rejects.toMatchObject({ status: 403 });
});

test('a refusal later ends the worker', async () => {
  const served = worker(api, [add]).serve();
  await api.until(() => api.count('claims'));
  api.allowed = false;
  await expect(served).rejects.toMatchObject({ status: 403 });
});

test('an output that the API refuses ends the call', async () => {
  api.faults.completion = [422];
  await serving(api, [add], async () => {
    expect((await api.ended(api.offer('add', { a: 1, b: 1 }))).error).toMatch(
      /^The tool has completed, but its output was refused/,
    );
  });
});

test('a worker that stops lets its calls end, and takes no others', async () => {
  const stop = new AbortController();
  let free: (() => void) | undefined;
  const hold = tool({
    name: 'hold',
    description: '…',
    input: none,
    run: () => new Promise<void>((resolve) => (free = resolve)),
  });
  const served = worker(api, [hold]).serve(stop.signal);
  const call = api.offer('hold');
  await api.until(() => free);
  stop.abort();
  await api.until(() => api.requests.some(([kind, body]) => kind === 'heartbeats' && body.draining));
  const later = api.offer('hold');
  free!();
  await served;
  expect([call.status, later.status, api.workers.size]).toEqual(['completed', 'waiting', 0]);
});

test('a key may be a function', async () => {
  let asked = 0;
  const apiKey = async () => {
    asked += 1;
    if (asked === 2) throw new Error('the vault is away');
    return 'rejoin_worker_key';
  };
  const log = new Log();
  const body = async () => expect((await api.ended(api.offer('add', { a: 1, b: 2 }))).output).toBe(3);
  await serving(api, [add], async () => void (await body()), { apiKey, logger: log });
  expect(log.count('the function for the API key has failed: Error: the vault is away; trying again')).toBe(1);
});

test('a worker that has been stopped before does not begin', async () => {
  await new Worker([add], { url: api.url, apiKey: 'k' }).serve(AbortSignal.abort());
  expect(api.requests).toEqual([]);
});
