/** Functions become tools: their schemas, types and arguments, and what is wrong with those that cannot. */
import { expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import * as mini from 'zod/mini';
import { CallContext, tool, Worker } from '../src/index.js';
import { MismatchError } from '../src/schemas.js';

const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({
    order: z.string(),
    amount: z.number().positive().describe('In euros.'),
    reason: z.enum(['late', 'broken']).default('late'),
  }),
  run: ({ order, amount, reason }) => `${order}: ${amount} (${reason})`,
});

const lookUp = tool({
  name: 'look-up',
  version: '2.0',
  description: 'Looks up.',
  input: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
  output: z.object({ order: z.string(), at: z.iso.date(), lines: z.array(z.int()).default([]) }),
  readOnly: true,
  confirm: true,
  timeoutS: 5,
  whenAbsent: 'hide',
  run: async (input: { order: string }, call) => ({ order: `${input.order}/${call.attempt}`, at: '2026-11-26' }),
});

test('a tool has the schema of its arguments, and defaults', () => {
  expect(refund.definition()).toEqual({
    name: 'refund',
    version: '1',
    description: 'Refunds an order.',
    inputSchema: {
      type: 'object',
      properties: {
        order: { type: 'string' },
        amount: { type: 'number', description: 'In euros.', exclusiveMinimum: 0 },
        reason: { type: 'string', enum: ['late', 'broken'], default: 'late' },
      },
      required: ['order', 'amount'],
    },
    outputSchema: null,
    readOnly: false,
    idempotent: false,
    confirm: false,
    timeoutS: 60,
    whenAbsent: 'wait',
  });
});

test('a tool has a JSON Schema as it is given, and the schema of its output', () => {
  const { inputSchema, outputSchema, ...others } = lookUp.definition();
  expect(inputSchema).toEqual({ type: 'object', properties: { order: { type: 'string' } }, required: ['order'] });
  // The output as it is sent, with its defaults.
  expect(outputSchema).toMatchObject({ type: 'object', required: ['order', 'at', 'lines'] });
  expect(others).toEqual({
    name: 'look-up',
    version: '2.0',
    description: 'Looks up.',
    readOnly: true,
    idempotent: false,
    confirm: true,
    timeoutS: 5,
    whenAbsent: 'hide',
  });
});

test('a durable tool may be repeated', () => {
  const durable = tool({ name: 'order', description: '…', input: z.object({}), durable: true, run: () => null });
  expect(durable.definition()).toMatchObject({ idempotent: true, readOnly: false });
  expect([durable.durable, durable.idempotent, refund.durable]).toEqual([true, false, false]);
});

test('types come from the schemas', () => {
  expectTypeOf(refund.run).parameter(0).toEqualTypeOf<{ order: string; amount: number; reason: 'late' | 'broken' }>();
  expectTypeOf(refund.run).returns.resolves.toEqualTypeOf<string>();
  expectTypeOf(lookUp.run).returns.resolves.toExtend<{ order: string; at: string }>();
  tool({
    name: 'strict',
    description: '…',
    input: z.object({}),
    output: z.object({ order: z.string() }),
    // @ts-expect-error: not what the schema of the output has
    run: () => ({ order: 7 }),
  });
  // @ts-expect-error: there is no such argument
  tool({ name: 'strict', description: '…', input: z.object({ order: z.string() }), run: ({ ordre }) => ordre });
});

test('a tool remains a function', async () => {
  expect(await refund.run({ order: 'A-7', amount: 2.5, reason: 'late' }, new CallContext())).toBe('A-7: 2.5 (late)');
  expect(await lookUp.run({ order: 'A-7' }, new CallContext({ attempt: 3 }))).toMatchObject({ order: 'A-7/3' });
});

test('arguments are read as zod reads them, and those that do not match are explained', async () => {
  expect(await refund.input.read({ order: 'A-7', amount: 1 })).toEqual({ order: 'A-7', amount: 1, reason: 'late' });
  const faults =
    'order: Invalid input: expected string, received undefined; amount: Too small: expected number to be >0';
  await expect(refund.input.read({ amount: 0 })).rejects.toThrow(new MismatchError(faults));
  expect(await lookUp.input.read({ order: 7 })).toEqual({ order: 7 });
});

test('schemas of zod/mini are schemas of zod', async () => {
  const small = tool({
    name: 'small',
    description: '…',
    input: mini.object({ order: mini.optional(mini.string()) }),
    run: ({ order }) => order ?? null,
  });
  expect(small.definition().inputSchema).toEqual({ type: 'object', properties: { order: { type: 'string' } } });
  await expect(small.input.read({ order: 7 })).rejects.toThrow('order: Invalid input');
});

const usual = { name: 'usual', description: '…', input: z.object({}), run: () => null };

test.each([
  ['tool "re fund": a name has 1 to 64 letters', { name: 're fund' }],
  ['models choose a tool by its description', { description: '' }],
  ['the version "1/2"', { version: '1/2' }],
  ['choose 1 to 86400 whole seconds', { timeoutS: 0 }],
  ['choose 1 to 86400 whole seconds', { timeoutS: 1.5 }],
  ["choose 'wait' or 'hide'", { whenAbsent: 'never' as never }],
  ['run is not a function', { run: undefined as never }],
  ['write z.object({…})', { input: z.string() }],
  ["a JSON Schema with type: 'object'", { input: { properties: {} } }],
  ['the input is neither a schema of zod nor a JSON Schema', { input: undefined as never }],
  ['such as z.iso.date() for z.date()', { input: z.object({ day: z.date() }) }],
  ['the output has no JSON Schema: BigInt', { output: z.bigint() }],
])('a tool that cannot be one is refused with advice: %s', (advice, wrong) => {
  expect(() => tool({ ...usual, ...wrong } as never)).toThrow(advice);
});

test('a context without a worker is for unit tests', async () => {
  const call = new CallContext({ attempt: 2, idempotencyKey: 'k' });
  const { progress, saveCheckpoint } = call;
  progress('half');
  await saveCheckpoint({ done: [1, undefined] });
  expect(call.checkpoint).toEqual({ done: [1, null] });
  expect([call.attempt, call.idempotencyKey, call.runId, call.signal.aborted]).toEqual([2, 'k', null, false]);
  await expect(saveCheckpoint('x'.repeat(262_144))).rejects.toThrow('the limit is 262144');
  await expect(saveCheckpoint(1n)).rejects.toThrow('the checkpoint is not JSON');
  await expect(saveCheckpoint(null)).rejects.toThrow('any JSON but null');
});

test('a worker checks its arguments', () => {
  const other = tool({ ...usual, version: '2' });
  const one = tool(usual);
  expect(() => new Worker([])).toThrow('at least one tool');
  expect(() => new Worker([usual as never])).toThrow('make one with tool({…})');
  expect(() => new Worker([one, other])).toThrow('there are two tools named usual');
  const many = Array.from({ length: 129 }, (_, index) => tool({ ...usual, name: `usual-${index}` }));
  expect(() => new Worker(many)).toThrow('at most 128 tools and agents, not 129');
  expect(new Worker(many.slice(1))).toBeInstanceOf(Worker);
  expect(() => new Worker([one], { queue: 'a/b' })).toThrow('the queue "a/b"');
  expect(() => new Worker([one], { slots: 0 })).toThrow('choose 1 to 1000');
  expect(() => new Worker([one], { slots: 1001 })).toThrow('choose 1 to 1000');
  expect(new Worker([refund, lookUp])).toBeInstanceOf(Worker);
});
