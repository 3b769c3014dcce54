/** Steps and outputs of many calls, which the worker records together. */
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { tool } from '../src/index.js';
import type { Body, Offered } from './protocolRecords.js';
import { ProtocolServer } from './protocolServer.js';
import { serving } from './serving.js';

const CALLS = 40;
const STEPS = 3;

let api: ProtocolServer;
afterEach(() => api.close());

/** Has calls that take their steps once all of them are running. `before`: what happens between. Returns the calls when those that the worker has have ended. */
async function allCalls(before: (calls: readonly Offered[]) => void = () => undefined): Promise<Offered[]> {
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const stepper = tool({
    name: 'stepper',
    description: 'Takes steps.',
    input: z.object({ nth: z.number() }),
    run: async ({ nth }, call) => {
      await begun;
      for (let step = 1; step <= STEPS; step++) await call.step(`step ${step}`, () => nth * step, { idempotent: true });
      return nth;
    },
  });
  const offered = Array.from({ length: CALLS }, (_, nth) => api.offer('stepper', { nth }));
  await serving(
    api,
    [stepper],
    async () => {
      await api.until(() => offered.every(({ status }) => status === 'running'));
      before(offered);
      begin();
      for (const call of offered) if (call.workerId !== 'another') await api.ended(call);
    },
    { slots: CALLS },
  );
  return offered;
}

function checkAll(calls: readonly Offered[], first = 0): void {
  for (const [index, call] of calls.entries()) {
    const nth = first + index;
    expect([call.status, call.output, call.attempt]).toEqual(['completed', nth, 1]);
    expect([...call.steps.values()].map(({ output }) => output)).toEqual([nth, 2 * nth, 3 * nth]);
  }
}

test('steps and outputs of many calls are few requests', async () => {
  api = await ProtocolServer.start({ recordsMax: 100 });
  checkAll(await allCalls());
  const alone = api.count('steps') + api.count('completion');
  expect(api.count('records')).toBeGreaterThan(0);
  expect(alone + api.count('records')).toBeLessThan((CALLS * (STEPS + 1)) / 4);
});

test('no request has more records than the API takes', async () => {
  api = await ProtocolServer.start({ recordsMax: 7 });
  checkAll(await allCalls());
  const sizes = api.requests.filter(([kind]) => kind === 'records').map(([, body]) => (body.records as Body[]).length);
  expect(Math.max(...sizes)).toBe(7);
});

test('an older API gets each record alone', async () => {
  api = await ProtocolServer.start();
  checkAll(await allCalls());
  expect([api.count('records'), api.count('steps'), api.count('completion')]).toEqual([0, CALLS * STEPS, CALLS]);
});

test('records that are refused together, and whose responses are lost, are sent again', async () => {
  api = await ProtocolServer.start({ recordsMax: 100 });
  api.faults.records = [404, 0, 503, 0];
  checkAll(await allCalls());
  expect(api.faults.records).toEqual([]);
});

test('one record that is refused leaves the others recorded', async () => {
  api = await ProtocolServer.start({ recordsMax: 100 });
  // Another worker has it; this one finds out when it records a step.
  const [lost, ...others] = await allCalls(([first]) => api.take(first as Offered));
  expect([lost?.status, lost?.steps.size]).toEqual(['running', 0]);
  checkAll(others, 1);
});

test('a large output is sent alone', async () => {
  api = await ProtocolServer.start({ recordsMax: 100 });
  const large = tool({
    name: 'large',
    description: 'Returns much.',
    input: z.object({}),
    run: () => 'x'.repeat(100_000),
  });
  await serving(
    api,
    [large],
    async () => {
      const calls = Array.from({ length: 5 }, () => api.offer('large'));
      for (const call of calls) expect((await api.ended(call)).output).toHaveLength(100_000);
    },
    { slots: 5 },
  );
  expect([api.count('records'), api.count('completion')]).toEqual([0, 5]);
});
