/** Workers through faults of the API: it is away, forgets them, loses responses, and delays them. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { ToolFailure, tool } from '../src/index.js';
import { ProtocolServer } from './protocolServer.js';
import { Log, serving } from './serving.js';

const none = z.object({});
const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => a + b,
});

let api: ProtocolServer;
let log: Log;
beforeEach(async () => {
  api = await ProtocolServer.start();
  log = new Log();
});
afterEach(() => api.close());

async function sum(a: number, b: number): Promise<unknown> {
  return (await api.ended(api.offer('add', { a, b }))).output;
}

test('an API that is not there yet is waited for', async () => {
  await api.away();
  await serving(
    api,
    [add],
    async () => {
      await api.until(() => log.count('cannot reach the API') === 1);
      await api.back();
      expect(await sum(1, 2)).toBe(3);
    },
    { logger: log },
  );
  expect(log.count('the API is back after')).toBe(1);
});

test('a URL of something else is not waited for', async () => {
  api.faults.registrations = [404];
  await expect(serving(api, [add], () => pause(60_000))).rejects.toMatchObject({ status: 404 });
});

test('calls outlast an API that is away', async () => {
  const begun: string[] = [];
  let free: () => void = () => undefined;
  const isFree = new Promise<void>((resolve) => {
    free = resolve;
  });
  const hold = tool({
    name: 'hold',
    description: 'Waits.',
    input: none,
    run: async (_, { id }) => {
      begun.push(id);
      await isFree;
      return 'done';
    },
  });
  const save = tool({
    name: 'save',
    description: 'Stores while the API is away.',
    input: none,
    run: async (_, call) => {
      begun.push(call.id);
      await isFree;
      await call.saveCheckpoint('kept');
      throw new ToolFailure('stored');
    },
  });
  await serving(
    api,
    [hold, save, add],
    async () => {
      const [held, saved] = [api.offer('hold'), api.offer('save')];
      await api.until(() => begun.length === 2);
      await api.away();
      free();
      await pause(1500);
      await api.back();
      expect((await api.ended(held)).output).toBe('done');
      expect([(await api.ended(saved)).error, saved.checkpoint]).toEqual(['stored', 'kept']);
      expect(await sum(1, 1)).toBe(2);
      expect([api.count('registrations'), held.attempt, saved.attempt]).toEqual([1, 1, 1]);
    },
    { logger: log },
  );
  // Not one line an attempt. A request that had arrived before may still get its response: then there are two outages.
  expect(log.count('trying again')).toBe(log.count('the API is back'));
  expect(log.count('trying again')).toBeLessThanOrEqual(2);
});

test('a result is sent only for so long', async () => {
  api.leaseS = 3;
  api.faults.completion = Array(1000).fill(503);
  const limits = { pauseMinMs: 20, pauseMaxMs: 20, retryMs: 500 };
  const body = async () => {
    api.offer('add', { a: 1, b: 1 });
    // Not for less than its lease, which no heartbeat renews here.
    await api.until(() => log.count("its result can't be recorded") === 1);
    api.faults.completion = [];
    expect(await sum(2, 2)).toBe(4);
  };
  api.faults.heartbeats = Array(1000).fill(503);
  await serving(api, [add], body, { logger: log, limits });
});

test('requests are repeated until they are confirmed', async () => {
  // After a heartbeat, a result whose response was lost is known to be recorded, and not sent again.
  api.heartbeatS = 20;
  const fail = tool({
    name: 'fail',
    description: 'Stores, and fails.',
    input: none,
    run: async (_, call) => {
      await call.saveCheckpoint(7);
      throw new ToolFailure('no');
    },
  });
  // 0: it is carried out, and its response is lost.
  Object.assign(api.faults, { progress: [503, 0], completion: [0, 503, 429, 0], failure: [500, 0, 0] });
  await serving(api, [add, fail], async () => {
    const [done, failed] = [api.offer('add', { a: 1, b: 2 }), api.offer('fail')];
    expect((await api.ended(done)).output).toBe(3);
    expect([(await api.ended(failed)).error, failed.checkpoint]).toEqual(['no', 7]);
    await api.until(() => Object.values(api.faults).every((faults) => faults.length === 0));
    await api.until(() => api.count('completion') === 5 && api.count('failure') === 4);
    expect([done.attempt, failed.attempt]).toEqual([1, 1]);
  });
});

test('a worker lives through responses that are lost', async () => {
  const hold = tool({ name: 'hold', description: '…', input: none, run: () => pause(1000) });
  Object.assign(api.faults, { registrations: [503, 502, 0], heartbeats: [500, 429, 0], claims: [503, 429] });
  await serving(api, [add, hold], async () => {
    expect(await sum(1, 2)).toBe(3);
    await api.ended(api.offer('hold'));
    expect(Object.values(api.faults)).toEqual([[], [], []]);
    expect(await sum(1, 3)).toBe(4);
  });
  expect(api.count('registrations')).toBe(4);
});

test('a worker that the API has forgotten registers again', async () => {
  await serving(api, [add], async () => {
    await api.until(() => api.count('claims'));
    for (const times of [2, 3]) {
      api.forgetWorkers();
      expect(await sum(times, 0)).toBe(times);
      expect(api.count('registrations')).toBe(times);
    }
  });
});

test('a result goes out under the registration that has claimed its call', async () => {
  api.heartbeatS = 20;
  let free: (() => void) | undefined;
  const hold = tool({
    name: 'hold',
    description: '…',
    input: none,
    run: () => new Promise<void>((resolve) => (free = resolve)),
  });
  await serving(api, [hold, add], async () => {
    const call = api.offer('hold');
    await api.until(() => free);
    api.forgetWorkers();
    expect(await sum(1, 1)).toBe(2);
    free!();
    expect((await api.ended(call)).status).toBe('completed');
  });
  const [first, second] = api.requests
    .filter(([kind]) => kind === 'claims' || kind === 'completion')
    .map(([, body]) => body.workerId);
  expect(second).toBe(first);
});

test('a function does not begin while the lease of its call is in doubt', async () => {
  const begun: string[] = [];
  const count = tool({ name: 'count', description: '…', input: none, run: (_, { id }) => void begun.push(id) });
  // The response to a claim takes longer than the lease.
  Object.assign(api, { leaseS: 1, claimDelayMs: 1500 });
  await serving(api, [count], async () => {
    const lost = await api.ended(api.offer('count'));
    expect(lost.status).toBe('outcome_unknown');
    await api.until(() => lost.void.has(1));
    expect(begun).toEqual([]);
    api.claimDelayMs = 0;
    api.leaseS = 60;
    // The worker learns the lease when it registers.
    api.forgetWorkers();
    const call = await api.ended(api.offer('count'));
    expect([call.status, begun]).toEqual(['completed', [call.id]]);
  });
});
