/** Durable functions wait without a slot, and go on when what they wait for has happened. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type CallContext, RetryCall, SignalTimeoutError, StepFailedError, tool } from '../src/index.js';
import { api, execute, executed, log, order, sent, served, suspended } from './durableServing.js';
import { serving } from './serving.js';

describe('waits', () => {
  test('hold no slot', async () => {
    const call = api.offer('order');
    const other = tool({ name: 'other', description: '…', input: z.object({}), run: () => 'other' });
    const body = async () => {
      await suspended(call);
      expect((await api.ended(api.offer('other'))).output).toBe('other');
      api.answer(call, 1, { output: { answer: 'yes' } });
      expect((await api.ended(call)).output).toBe('yes');
    };
    await serving(api, [order(({ askUser }) => askUser('Sure?')), other], body, { slots: 1 });
  });

  test('for users', async () => {
    const call = await served(
      async ({ askUser }) => {
        const options = { options: ['a', { label: 'B', value: 'b' }], multiple: true } as const;
        const answers = [
          await askUser('Which?', options),
          await askUser('Name?', { placeholder: 'Ann', maxLength: 9 }),
        ];
        return [...answers, await askUser('Sure?').catch((error: Error) => [error.name, error.message])];
      },
      {
        meanwhile: async (call) => {
          await suspended(call);
          api.answer(call, 1, { output: { answer: ['a', 'b'] } });
          await suspended(call);
          api.answer(call, 2, { output: { answer: 'Ann' } });
          await suspended(call);
          api.answer(call, 3, { error: 'the question was not answered in time' });
        },
      },
    );
    expect(call.output).toEqual([['a', 'b'], 'Ann', [StepFailedError.name, 'the question was not answered in time']]);
    expect([1, 2].map((number) => call.steps.get(number)?.wait)).toEqual([
      {
        ...{ kind: 'question', question: 'Which?', interactionType: 'multi_select' },
        options: [
          { label: 'a', value: 'a' },
          { label: 'B', value: 'b' },
        ],
      },
      { kind: 'question', question: 'Name?', options: [], placeholder: 'Ann', maxLength: 9 },
    ]);
  });

  test('for signals, those that came before, come meanwhile, or do not come', async () => {
    const call = await served(
      async ({ waitForEvent }) => [
        await waitForEvent('approved'),
        await waitForEvent('paid', { timeoutS: 60 }),
        await waitForEvent('shipped', { timeoutS: 0.05 }).catch(
          (error: unknown) => error instanceof SignalTimeoutError,
        ),
      ],
      {
        meanwhile: async (call) => {
          expect(api.signal(call, 'approved', 1)).toBe(false);
          await api.until(() => call.steps.has(2));
          expect(api.signal(call, 'paid', { by: 'card' })).toBe(true);
        },
      },
    );
    expect(call.output).toEqual([1, { by: 'card' }, true]);
  });

  test('for agents, several at once', async () => {
    const result = { runId: 'r', agent: 'auditor', status: 'completed', summary: 'Fine.', steps: 2, error: null };
    const call = await served(
      async ({ map, spawn }) => {
        const outputSchema = { type: 'object' };
        const all = await map('auditor', ['at A', 'at B'], { timeoutS: 60, outputSchema });
        return [all, await spawn('inspector', 'at C').catch((error: Error) => error.message)];
      },
      {
        meanwhile: async (call) => {
          await suspended(call);
          api.answer(call, 2, { output: { ...result, summary: 'Not.' } });
          expect(call.status).toBe('suspended');
          api.answer(call, 1, { output: result });
          await suspended(call);
          api.answer(call, 3, { error: 'there is no agent inspector' });
        },
      },
    );
    expect(call.output).toEqual([[result, { ...result, summary: 'Not.' }], 'there is no agent inspector']);
    const asks = { kind: 'agent', agent: 'auditor', timeoutS: 60, outputSchema: { type: 'object' } };
    expect(sent('suspension')[0]).toEqual([
      'suspension',
      {
        steps: [
          { number: 1, name: 'auditor', wait: { ...asks, task: 'at A' } },
          { number: 2, name: 'auditor', wait: { ...asks, task: 'at B' } },
        ],
      },
    ]);
  });

  const catches: [string, (call: CallContext, again: () => Promise<void>) => unknown][] = [
    ['returns', (_, again) => again().catch(() => 'caught')],
    ['throws', (_, again) => again().catch((cause: unknown) => Promise.reject(new Error('caught', { cause })))],
    ['fails', (_, again) => again().catch(() => Promise.reject(new RetryCall('caught')))],
    ['executes a step', (call, again) => again().catch(() => call.step('late', () => execute('late')))],
    ['waits again', (call, again) => again().catch(() => call.sleep(60))],
    ['reports', (call, again) => again().catch(() => call.progress('late'))],
    ['stores', (call, again) => again().catch(() => call.saveCheckpoint('late'))],
    ['does not wait for it', (_, again) => void again()],
    [
      'tries again and again',
      async (_, again) => {
        for (let times = 0; times < 100; times++) await again().catch(() => undefined);
      },
    ],
  ];

  test.each(catches)('are not lost if the function catches them, and then %s', async (_, run) => {
    const call = await served(async (context) => {
      if (context.attempt > 1) return await context.sleep(0.01).then(() => context.step('pay', () => execute('pay')));
      return await run(context, () => context.sleep(0.01));
    });
    expect([call.output, executed, call.attempt]).toEqual(['pay', ['pay'], 2]);
    expect([call.messages, call.checkpoint, api.count('suspension')]).toEqual([[], null, 1]);
  });

  test('do not block the event loop if a function tries without end', async () => {
    const call = api.offer('order', {}, 1);
    const echo = tool({ name: 'echo', description: '…', input: z.object({}), run: () => 'echo' });
    const stubborn = async ({ sleep, signal }: CallContext) => {
      while (!signal.aborted) await sleep(60).catch(() => undefined);
    };
    await serving(api, [order(stubborn), echo], async () => {
      await api.until(() => call.status === 'running');
      expect((await api.ended(api.offer('echo'))).output).toBe('echo');
      // It has stopped when its time is used up, and waits.
      await api.until(() => call.handedBack.size === 1);
    });
  });

  test.each([
    [400, 'fault'],
    [409, 'fault'],
    [413, 'fault'],
  ])('that the API refuses with %d are an error for the model', async (status) => {
    api.faults.suspension = [status];
    const call = await served(({ map }) => map('auditor', ['a', 'b']));
    expect(call.error).toBe("The tool can't wait for auditor: fault");
  });

  test('that a call without a run can not have are refused', async () => {
    const call = api.offer('order', {}, 60, '1', null);
    const run = async ({ sleep, askUser }: CallContext) => {
      await sleep(0);
      return await askUser('Sure?');
    };
    await served(run, { call });
    expect([call.error, call.attempt]).toEqual(["The tool can't wait for Sure?: no_run", 2]);
    const many = await served(({ map }) => map('auditor', Array(101).fill('look')));
    expect(many.error).toBe("The tool can't wait for auditor: invalid_suspension");
  });

  test('of a call that was lost are not sent again', async () => {
    api.heartbeatS = 20;
    const call = api.offer('order');
    const run = async ({ sleep }: CallContext) => {
      api.take(call);
      await sleep(0);
    };
    const body = () => api.until(() => log.count('a result is not sent again') === 1);
    await serving(api, [order(run)], body, { logger: log });
    expect([call.handedBack.size, api.count('suspension'), api.count('failure')]).toEqual([0, 1, 0]);
  });

  test('of a call that was cancelled are not sent', async () => {
    let begun = false;
    const run = async ({ sleep, signal }: CallContext) => {
      begun = true;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await sleep(0);
    };
    await serving(api, [order(run)], async () => {
      const call = api.offer('order');
      await api.until(() => begun);
      api.cancel(call);
      await api.until(() => call.void.has(1));
    });
    expect([api.count('suspension'), api.count('failure')]).toEqual([0, 0]);
  });

  test('are sent by a worker that stops', async () => {
    const call = api.offer('order');
    let begun = false;
    const run = async ({ sleep }: CallContext) => {
      begun = true;
      await api.until(() => api.requests.some(([kind, body]) => kind === 'heartbeats' && body.draining));
      await sleep(60);
    };
    await serving(api, [order(run)], () => api.until(() => begun));
    expect([call.status, call.handedBack.size]).toEqual(['waiting', 1]);
  });
});
