/** Steps of durable functions, without a worker: their numbers and records, and contexts for unit tests. */
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  type AskOptions,
  CallContext,
  Journal,
  type RecordedStep,
  SignalTimeoutError,
  StepChangedError,
  StepFailedError,
  StepOutcomeUnknownError,
} from '../src/index.js';
import { agent, event, failureText, question, resultOf, Suspend, sleep } from '../src/steps.js';

const completed = (number: number, name: string, kind: string, output: unknown = null): RecordedStep => ({
  ...{ number, name, kind, status: 'completed', output, error: null },
});
const wait = (steps: readonly { number: number; name: string }[]) => ({ steps });

describe('a journal', () => {
  test('numbers steps, and finds those that are recorded', () => {
    const first = completed(1, 'pay', 'function', 7);
    const journal = new Journal([completed(2, 'sleep', 'sleep'), first]);
    expect(journal.next('pay', 'function')).toEqual({ number: 1, name: 'pay', recorded: first });
    expect(journal.next('sleep', 'sleep').recorded?.number).toBe(2);
    expect(journal.next('pay', 'function')).toEqual({ number: 3, name: 'pay', recorded: undefined });
  });

  test.each([
    ['log in', 'function', 'step 1 was "pay" (function) in an earlier execution, and is "log in" (function) now'],
    ['pay', 'event', 'step 1 was "pay" (function) in an earlier execution, and is "pay" (event) now'],
  ] as const)('refuses another step than before, and names both: %s, %s', (name, kind, text) => {
    const journal = new Journal([completed(1, 'pay', 'function')]);
    expect(() => journal.next(name, kind)).toThrow(StepChangedError);
    expect(() => new Journal([completed(1, 'pay', 'function')]).next(name, kind)).toThrow(text);
  });

  test('limits names and numbers', () => {
    const journal = new Journal();
    expect(() => journal.next('', 'function')).toThrow('1 to 200 characters, not 0');
    expect(() => journal.next('x'.repeat(201), 'function')).toThrow('1 to 200 characters, not 201');
    // Characters, as the API counts them.
    expect(journal.next('😀'.repeat(200), 'function').number).toBe(1);
    for (let number = 2; number <= 1000; number++) expect(journal.next('x', 'function').number).toBe(number);
    expect(() => journal.next('x', 'function')).toThrow('a function has at most 1000 steps');
  });

  test('has names as they are recorded', () => {
    const journal = new Journal([completed(1, 'a\uFFFD\uFFFD', 'function', 7)]);
    expect(journal.next('a\0\ud800', 'function').recorded?.output).toBe(7);
  });

  test('remembers that its function waits', async () => {
    const journal = new Journal();
    expect([journal.isSuspended, await journal.suspended()]).toEqual([false, undefined]);
    const suspension = journal.suspend([{ number: 1, name: 'sleep', wait: {} }]);
    for (const kind of ['function', 'sleep'] as const)
      expect(caught(() => journal.next('next', kind))).toBe(suspension);
    expect(caught(() => journal.throwIfSuspended())).toBe(suspension);
    expect([journal.isSuspended, await journal.suspended()]).toEqual([true, suspension]);
    expect(suspension).not.toBeInstanceOf(Error);
    expect(String(suspension)).toBe('the function waits for sleep, and begins again then');
  });

  test('lets steps end that were begun before their function waits', async () => {
    const journal = new Journal();
    let end: () => void = () => undefined;
    const step = journal.executing(new Promise<void>((resolve) => (end = resolve)));
    const suspension = journal.suspend([]);
    let handedBack = false;
    const ended = journal.suspended().then(() => (handedBack = true));
    journal.throwIfSuspended();
    await Promise.resolve();
    expect(handedBack).toBe(false);
    end();
    await Promise.all([step, ended]);
    expect(caught(() => journal.throwIfSuspended())).toBe(suspension);
  });
});

test('a recorded step has its result', () => {
  const step = (fields: Partial<RecordedStep>) => ({
    number: 2,
    name: 'pay',
    kind: 'function',
    status: 'error',
    ...fields,
  });
  expect(resultOf(step({ status: 'completed', output: [1] }))).toEqual([1]);
  expect(resultOf(step({ status: 'completed' }))).toBe(null);
  expect(() => resultOf(step({ error: 'no money' }))).toThrow(new StepFailedError('no money'));
  expect(() => resultOf(step({ error: null }))).toThrow(new StepFailedError('step "pay" has failed'));
  const unknown = 'the worker was lost during step 2, "pay", which may have taken effect; it was not repeated';
  expect(() => resultOf(step({ status: 'begun' }))).toThrow(new StepOutcomeUnknownError(unknown));
  expect(failureText(new RangeError('7'))).toBe('RangeError: 7');
  expect(failureText(new StepFailedError('RangeError: 7'))).toBe('RangeError: 7');
});

test('waits are as the API expects them', () => {
  expect([sleep(1.5), sleep(-3)]).toEqual([
    { kind: 'sleep', seconds: 1.5 },
    { kind: 'sleep', seconds: 0 },
  ]);
  for (const seconds of [Number.NaN, Infinity, 400 * 86_400]) expect(() => sleep(seconds)).toThrow(RangeError);
  expect(event('paid', 5)).toEqual({ kind: 'event', event: 'paid', timeoutS: 5 });
  expect(() => event('paid', -1)).toThrow('a wait takes 0 to 31536000 seconds');
  const options = ['Yes', { label: 'No', value: 'no', description: 'Ends it.' }];
  expect(question('Sure?', { options, multiple: true, placeholder: '…', maxLength: 9 })).toEqual({
    kind: 'question',
    question: 'Sure?',
    options: [{ label: 'Yes', value: 'Yes' }, options[1]],
    interactionType: 'multi_select',
    placeholder: '…',
    maxLength: 9,
  });
  expect(agent('auditor', 'look', 5, z.object({ ok: z.boolean() }))).toEqual({
    ...{ kind: 'agent', agent: 'auditor', task: 'look', timeoutS: 5 },
    outputSchema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
  });
  expect(agent('auditor', 'look', undefined, { type: 'string' })).toMatchObject({ outputSchema: { type: 'string' } });
});

describe('a context without a worker', () => {
  test('executes steps', async () => {
    const { step } = new CallContext();
    expect(await step('date', () => new Date(0))).toBe('1970-01-01T00:00:00.000Z');
    expect(await step('nothing', async () => undefined)).toBe(null);
    const failed = step('fail', () => Promise.reject(new RangeError('7')));
    await expect(failed).rejects.toThrow(new StepFailedError('RangeError: 7'));
    await expect(failed).rejects.toMatchObject({ cause: new RangeError('7') });
    const large = step('large', () => 'x'.repeat(262_143));
    await expect(large).rejects.toThrow(
      'RangeError: the result of step "large" has 262145 bytes, and the limit is 262144',
    );
    await expect(step('map', () => new Map())).rejects.toThrow('the result of step "map" is not JSON: a Map');
  });

  test('has the results of a journal', async () => {
    const agentRun = { runId: 'r', agent: 'auditor', status: 'completed', summary: 'Fine.', steps: 3, error: null };
    const results: [name: string, kind: string, output?: unknown][] = [
      ['sleep', 'sleep'],
      ['paid', 'event', { data: { by: 'card' } }],
      ['paid', 'event', null],
      ['Sure?', 'question', { answer: 'yes' }],
      ['Which?', 'question', { answer: ['a', 'b'] }],
      ['auditor', 'agent', agentRun],
      ['auditor', 'agent', { runId: 'q', status: 'failed', error: 'no model' }],
      ['auditor', 'agent', agentRun],
    ];
    const journal = new Journal(results.map(([name, kind, output], index) => completed(index + 1, name, kind, output)));
    const { sleep, waitForEvent, askUser, spawn, map } = new CallContext({ journal });
    await sleep(60);
    expect(await waitForEvent('paid')).toEqual({ by: 'card' });
    await expect(waitForEvent('paid', { timeoutS: 5 })).rejects.toThrow(
      new SignalTimeoutError('no signal "paid" came in time'),
    );
    expect(await askUser('Sure?')).toBe('yes');
    expect(await askUser('Which?', { options: ['a', 'b'], multiple: true })).toEqual(['a', 'b']);
    expect(await spawn('auditor', 'look')).toEqual(agentRun);
    expect(await map('auditor', ['at A', 'at B'])).toEqual([
      { runId: 'q', agent: null, status: 'failed', summary: null, steps: 0, error: 'no model' },
      agentRun,
    ]);
    expect(await map('auditor', [])).toEqual([]);
  });

  test('leaves its function where it waits, and each time with the same object', async () => {
    const call = new CallContext();
    const left = await call.map('auditor', ['a', 'b']).catch((error: unknown) => error);
    expect(left).toBeInstanceOf(Suspend);
    expect(left).toMatchObject(
      wait([
        { number: 1, name: 'auditor' },
        { number: 2, name: 'auditor' },
      ]),
    );
    const further = [
      () => call.sleep(1),
      () => call.waitForEvent('paid'),
      () => call.askUser('Sure?'),
      () => call.spawn('auditor', 'a'),
      () => call.step('pay', () => 1),
      () => call.saveCheckpoint(1),
      async () => call.progress('half'),
    ];
    for (const one of further) expect(await one().then(String, (error: unknown) => error)).toBe(left);
  });

  test('the name of a question is its beginning', async () => {
    const left = new CallContext().askUser('😀'.repeat(300));
    await expect(left).rejects.toMatchObject(wait([{ number: 1, name: '😀'.repeat(200) }]));
  });

  test('what can not be sent is an error of the function', async () => {
    const { spawn, sleep, step } = new CallContext();
    await expect(spawn('auditor', 'x'.repeat(262_144))).rejects.toThrow('what step "auditor" asks for has');
    await expect(sleep(Number.NaN)).rejects.toThrow(RangeError);
    await expect(sleep(1, 'x'.repeat(201))).rejects.toThrow('1 to 200 characters');
    await expect(step('', () => 1)).rejects.toThrow('1 to 200 characters');
  });

  test('a step does not begin when the function should stop', async () => {
    const reason = new Error('stop');
    const { step } = new CallContext({ signal: AbortSignal.abort(reason) });
    await expect(step('pay', () => expect.unreachable())).rejects.toBe(reason);
  });
});

test('types come from the options', () => {
  const { askUser, step } = new CallContext();
  const text = () => askUser('?');
  const one = () => askUser('?', { options: ['a'] });
  const several = () => askUser('?', { options: ['a'], multiple: true });
  const either = (multiple: boolean) => askUser('?', { options: ['a'], multiple });
  expectTypeOf(text).returns.resolves.toEqualTypeOf<string>();
  expectTypeOf(one).returns.resolves.toEqualTypeOf<string>();
  expectTypeOf(several).returns.resolves.toEqualTypeOf<string[]>();
  const unknown = (options: AskOptions) => askUser('?', options);
  expectTypeOf(unknown).returns.resolves.toEqualTypeOf<string | string[]>();
  expectTypeOf(either).returns.resolves.toEqualTypeOf<string | string[]>();
  const number = () => step('a', async () => 7);
  expectTypeOf(number).returns.resolves.toEqualTypeOf<number>();
});

function caught(block: () => unknown): unknown {
  try {
    block();
  } catch (error) {
    return error;
  }
  return undefined;
}
