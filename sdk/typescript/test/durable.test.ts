/** Durable functions: their steps are executed once. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { APIError, type CallContext, RetryCall, tool } from '../src/index.js';
import { api, execute, executed, log, order, sent, served, suspended } from './durableServing.js';
import type { Offered } from './protocolRecords.js';
import { KEY } from './protocolRules.js';
import { example, serving } from './serving.js';

describe('steps', () => {
  test('are executed once, and recorded', async () => {
    const call = await served(async ({ step, sleep, attempt }) => {
      const one = await step('one', () => execute('1'));
      await sleep(0.05);
      const two = await step('two', () => execute('2'), { idempotent: true });
      return [one, two, attempt];
    });
    expect([call.output, executed]).toEqual([
      ['1', '2', 2],
      ['1', '2'],
    ]);
    expect(sent('steps', 'suspension')).toEqual([
      ['steps', { number: 1, name: 'one', status: 'begun' }],
      ['steps', { number: 1, name: 'one', status: 'completed', output: '1' }],
      ['suspension', { steps: [{ number: 2, name: 'sleep', wait: { kind: 'sleep', seconds: 0.05 } }] }],
      ['steps', { number: 3, name: 'two', status: 'completed', output: '2' }],
    ]);
    // Those of the second attempt are read, in one page; the first one has none.
    expect(api.count('GET steps')).toBe(1);
  });

  test('that fail are recorded, and fail in the same way again', async () => {
    const run = async ({ step, sleep }: CallContext) => {
      const why = await step('pay', () => {
        executed.push('pay');
        throw new RangeError('no money');
      }).catch((error: unknown) => (error as Error).message);
      await sleep(0);
      return why;
    };
    const call = await served(run);
    expect([call.output, executed, call.steps.get(1)?.error]).toEqual([
      'RangeError: no money',
      ['pay'],
      'RangeError: no money',
    ]);
    const uncaught = await served(({ step }) => step('pay', () => Promise.reject(new RangeError('no money'))));
    expect(uncaught.error).toBe('StepFailedError: RangeError: no money');
  });

  test('of earlier attempts are read, all pages of them', async () => {
    const call = api.offerAgain('order', Array(7).fill({}));
    await served(
      async ({ step }) => {
        const outputs: unknown[] = [];
        for (let number = 1; number <= 8; number++)
          outputs.push(await step(`step ${number}`, () => execute(String(number))));
        return outputs;
      },
      { call },
    );
    expect([call.output, executed, api.count('GET steps')]).toEqual([[1, 2, 3, 4, 5, 6, 7, '8'], ['8'], 3]);
  });

  test('that have begun are not repeated, unless they are idempotent', async () => {
    const again = (idempotent: boolean) =>
      served(({ step }) => step('step 1', () => execute('1'), { idempotent }), {
        call: api.offerAgain('order', [{ status: 'begun', output: null }]),
      });
    expect((await again(false)).error).toBe(
      'StepOutcomeUnknownError: the worker was lost during step 1, "step 1", which may have taken effect; it was not repeated',
    );
    expect(executed).toEqual([]);
    expect([(await again(true)).output, executed]).toEqual(['1', ['1']]);
  });

  test('of a function that has changed are refused', async () => {
    const call = api.offerAgain('order', [{ name: 'log in' }]);
    await served(({ step }) => step('pay', () => execute('pay')), { call });
    expect(call.error).toMatch(
      /^StepChangedError: step 1 was "log in" \(function\) in an earlier execution, and is "pay" \(function\) now/,
    );
    expect(executed).toEqual([]);
  });

  test('run in parallel, and end before the call is handed back', async () => {
    const call = await served(async ({ step, sleep, progress, attempt }) => {
      const slow = async () => {
        await pause(100);
        progress('paying');
        return await execute('slow');
      };
      const done = Promise.all([step('slow', slow), step('fast', () => execute('fast')), sleep(0)]);
      return [...(await done).slice(0, 2), attempt];
    });
    expect([call.output, executed, call.messages]).toEqual([['slow', 'fast', 2], ['fast', 'slow'], ['paying']]);
    expect(api.requests.map(([kind]) => kind).filter((kind) => kind === 'steps' || kind === 'suspension')).toEqual([
      ...['steps', 'steps', 'steps', 'steps', 'suspension'],
    ]);
  });

  test('contain no steps', async () => {
    const call = await served(({ step, sleep }) => step('outer', () => sleep(0)));
    expect(call.error).toBe(
      "StepFailedError: A step can't contain steps: call step, sleep, waitForEvent, askUser, model, spawn and map outside of it.",
    );
  });

  test('of a call that was lost are not recorded', async () => {
    // The step is faster than the next heartbeat.
    api.heartbeatS = 20;
    const failures: string[] = [];
    let call: Offered | undefined;
    const run = async ({ step }: CallContext) => {
      await step('pay', async () => api.take(call!)).catch((error: Error) => failures.push(error.name));
      await step('ship', () => execute('ship')).catch((error: Error) => failures.push(error.name));
    };
    await serving(
      api,
      [order(run)],
      async () => {
        call = api.offer('order');
        await api.until(() => failures.length === 2);
      },
      { logger: log },
    );
    expect([failures, executed, call?.steps.get(1)?.status]).toEqual([
      ['CallCancelledError', 'CallCancelledError'],
      [],
      'begun',
    ]);
    expect([api.count('completion'), api.count('failure')]).toEqual([0, 0]);
  });

  test('that are stopped are not recorded as failed', async () => {
    const call = api.offer('order', {}, 1);
    await served(({ step, signal }) => step('pay', () => pause(60_000, undefined, { signal })), { call });
    expect(call.error).toBe('The tool did not end within 1 s and was stopped. It may have had an effect.');
    expect(call.steps.get(1)?.status).toBe('begun');
  });

  test('that the API refuses are errors of the function, and its call goes on', async () => {
    // Another one than `stale_attempt`.
    api.faults.steps = [409];
    const call = await served(async ({ step }) => {
      await expect(step('pay', () => execute('pay'))).rejects.toThrow(APIError);
      return await step('log in', () => execute('log in'));
    });
    expect([call.output, executed]).toEqual(['log in', ['log in']]);
  });

  test('make a call one that is handed out again after a lost worker', async () => {
    api.leaseS = 1;
    const once = tool({
      name: 'order',
      description: 'Is neither durable nor idempotent.',
      input: z.object({}),
      run: async (_, { step, attempt }) => {
        const paid = await step('pay', () => execute('pay'));
        if (attempt === 1) api.forgetWorkers();
        if (attempt === 1) await pause(1500);
        return [paid, attempt];
      },
    });
    // No heartbeat renews the lease.
    api.faults.heartbeats = Array(6).fill(503);
    await serving(api, [once], async () => expect((await api.ended(api.offer('order'))).output).toEqual(['pay', 2]));
    expect(executed).toEqual(['pay']);
  });

  test('that can not be read now are read by the next attempt', async () => {
    const call = api.offerAgain('order', [{}]);
    api.faults['GET steps'] = [503, 404];
    await served(({ step, attempt }) => step('step 1', () => execute('1')).then((one) => [one, attempt]), { call });
    expect([call.output, executed]).toEqual([[1, 3], []]);
    expect(sent('failure')).toEqual([
      ['failure', { error: 'The steps of this call could not be read: fault (404 fault)', retry: true }],
    ]);
  });

  test('that are not listed are not repeated', async () => {
    const call = api.offerAgain('order', [{}, {}]);
    // Between the claim and the list, one of them goes.
    api.claimDelayMs = 100;
    const run = ({ step }: CallContext) => step('step 1', () => execute('1'));
    const meanwhile = async () => {
      await api.until(() => call.status === 'running');
      call.steps.delete(2);
    };
    await served(run, { call, meanwhile });
    expect([call.output, executed, call.attempt]).toEqual([1, [], 3]);
    expect(sent('failure')).toEqual([
      [
        'failure',
        { error: 'The steps of this call could not be read: the call has 2 steps, and only 1 are listed', retry: true },
      ],
    ]);
  });
});

test('requests are repeated until they are confirmed', async () => {
  // After a heartbeat, a suspension whose response was lost is known to be recorded, and not sent again.
  api.heartbeatS = 20;
  // 0: it is carried out, and its response is lost.
  Object.assign(api.faults, { steps: [503, 0, 0, 429, 0], suspension: [503, 0, 500, 0], 'GET steps': [503, 0] });
  const call = await served(
    async ({ step, askUser }) => {
      const one = await step('one', () => execute('1'));
      const answer = await askUser('Sure?');
      return [one, answer, await step('two', () => execute('2'), { idempotent: true })];
    },
    {
      meanwhile: async (call) => {
        await api.until(() => api.count('suspension') === 5);
        api.answer(call, 2, { output: { answer: 'yes' } });
      },
    },
  );
  expect([call.output, executed, call.attempt]).toEqual([['1', 'yes', '2'], ['1', '2'], 2]);
  expect(Object.values(api.faults)).toEqual([[], [], []]);
  expect(api.count('GET steps')).toBe(3);
});

test('as often as a function waits, it may lose its worker as often as before', async () => {
  const call = await served(async ({ sleep, attempt }) => {
    for (let times = 0; times < 6; times++) await sleep(0);
    if (attempt < 9) throw new RetryCall('The bank is closed.');
    return attempt;
  });
  expect([call.output, call.handedBack.size]).toEqual([9, 6]);
});

test('the example of the README works as it is printed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
  try {
    await example(1, folder, { REJOIN_URL: api.url, REJOIN_API_KEY: KEY }, async () => {
      const [call, refused] = [api.offer('order', { article: 'A' }), api.offer('order', { article: 'B' })];
      await Promise.all([suspended(call), suspended(refused)]);
      expect(call.steps.get(2)?.name).toBe('Buy A for 12.5 €?');
      api.answer(call, 2, { output: { answer: 'Yes' } });
      api.answer(refused, 2, { output: { answer: 'No' } });
      await api.until(() => call.steps.has(4));
      expect(api.signal(call, 'shipped', 'today')).toBe(true);
      const output = { article: 'A', receipt: 'R-1', paid: 12.5, shipped: 'today' };
      expect([(await api.ended(call)).output, (await api.ended(refused)).output]).toEqual([output, 'Not ordered.']);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
