/** Agents with a prompt: what is announced, which tools are served, and what is wrong with those that cannot be. */
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { type AgentFunction, APIError, agent, PromptedAgent, tool, Worker } from '../src/index.js';
import { ProtocolServer } from './protocolServer.js';
import { serving, worker } from './serving.js';

const input = z.object({ order: z.string() });
const refund = tool({ name: 'refund', description: 'Refunds.', input, run: ({ order }) => ({ order }) });
const find = tool({ name: 'find', description: 'Finds.', input, run: () => null });
const clerk = agent({
  name: 'clerk',
  description: 'Refunds orders.\nIn detail.',
  prompt: 'Look up an order before you refund it.',
  tools: [find, 'refund', refund],
});

test('an agent has a prompt and the names of its tools, each once', () => {
  expect(clerk).toBeInstanceOf(PromptedAgent);
  expect(clerk.definition()).toEqual({
    name: 'clerk',
    description: 'Refunds orders.',
    systemPrompt: 'Look up an order before you refund it.',
    tools: ['find', 'refund'],
  });
});

test('an agent has a model, an output and a limit if they are given', () => {
  const options = { name: 'clerk', description: 'Refunds.', prompt: 'Refund.' };
  const output = z.object({ order: z.string(), why: z.string().default('late') });
  const more = { model: 'openai:gpt-6-sol', output, maxSteps: 5 };
  const outputSchema = {
    type: 'object',
    properties: { order: { type: 'string' }, why: { type: 'string', default: 'late' } },
    required: ['order'],
  };
  const expected = { model: 'openai:gpt-6-sol', outputSchema, maxSteps: 5, tools: [] };
  expect(agent({ ...options, ...more }).definition()).toMatchObject(expected);
  const schema = { type: 'object', properties: {} };
  expect(agent({ ...options, output: schema }).definition().outputSchema).toEqual(schema);
});

test('types follow from the kind of the agent', () => {
  expectTypeOf(clerk).toEqualTypeOf<PromptedAgent>();
  const greeter = agent({ name: 'greeter', description: 'Greets.', run: async ({ message }) => message });
  expectTypeOf(greeter).toEqualTypeOf<AgentFunction<false, string>>();
  // @ts-expect-error: an agent has a prompt or a function
  void (() => agent({ name: 'a', description: 'A.' }));
  // @ts-expect-error: the number of a tool
  void (() => agent({ name: 'a', description: 'A.', prompt: 'A.', tools: [5] }));
  // @ts-expect-error: agents of functions choose a model themselves
  void (() => agent({ name: 'a', description: 'A.', model: 'default', run: () => null }));
});

const usual = { name: 'usual', description: '…', prompt: 'Answer.' };

test.each([
  ['a name has 1 to 200 characters', { name: ' ' }],
  ['people and agents choose an agent by its description', { description: '' }],
  ['the prompt is empty', { prompt: ' ' }],
  ['a prompt has at most 200000 characters', { prompt: 'x'.repeat(200_001) }],
  ['by a model with a prompt, or by run; remove one', { run: () => null }],
  ['write tools: [refund]', { tools: 'refund' }],
  ['5 is neither a tool nor the name of one', { tools: [5] }],
  ['"" is neither a tool nor the name of one', { tools: [''] }],
  ['the name of the model is empty', { model: '' }],
  ['the output is an object', { output: z.string() }],
  ['the output is an object', { output: { type: 'array' } }],
  ['neither a schema of zod nor a JSON Schema', { output: 'text' }],
  ['choose a whole number from 1', { maxSteps: 0 }],
  ['choose a whole number from 1', { maxSteps: 1.5 }],
])('what cannot be an agent is refused with advice: %s', (advice, wrong) => {
  expect(() => agent({ ...usual, ...wrong } as never)).toThrow(advice);
});

test('a worker checks its agents', () => {
  const one = agent(usual);
  expect(() => new Worker([one])).toThrow('a worker serves at least one tool, and its agents (usual) bring none');
  expect(() => new Worker([refund, one, one])).toThrow('there are two agents named usual');
  const other = tool({ name: 'refund', description: 'Refunds.', input, run: () => null });
  expect(() => new Worker([other, clerk])).toThrow('there are two tools named refund');
  const many = Array.from({ length: 129 }, (_, index) => agent({ ...usual, name: `usual-${index}` }));
  expect(() => new Worker([refund, ...many])).toThrow('at most 128 agents, not 129');
  expect(new Worker([refund, ...many.slice(1)])).toBeInstanceOf(Worker);
});

describe('served', () => {
  let api: ProtocolServer;
  beforeEach(async () => {
    api = await ProtocolServer.start();
  });
  afterEach(() => api.close());

  test('a worker announces an agent, and serves its tools', async () => {
    await serving(api, [refund, clerk, agent({ ...usual, tools: [find] })], async () => {
      expect((await api.ended(api.offer('refund', { order: 'A-7' }))).output).toEqual({ order: 'A-7' });
      expect((await api.ended(api.offer('find', { order: 'A-7' }))).output).toBeNull();
    });
    const [, registered] = api.requests.find(([kind]) => kind === 'registrations')!;
    expect(registered.agents).toEqual([clerk.definition(), { ...agent(usual).definition(), tools: ['find'] }]);
    expect(registered.tools).toEqual([refund.definition(), find.definition()]);
  });

  test('a tool of another worker needs another key', async () => {
    const served = worker(api, [refund, agent({ ...usual, tools: ['refund', 'search_*'] })]).serve();
    await expect(served).rejects.toThrow(APIError);
    expect(api.violations.splice(0)).toHaveLength(1);
  });
});
