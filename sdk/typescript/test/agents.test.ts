/** Functions become agents: what is announced, what the function gets, and what is wrong with those that cannot. */
import { afterEach, beforeEach, describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { AgentFunction, agent, CallContext, type Said, tool, Worker } from '../src/index.js';
import { MismatchError } from '../src/schemas.js';
import { ProtocolServer } from './protocolServer.js';
import { serving } from './serving.js';

const clerk = agent({
  name: 'Billing clerk',
  toolName: 'clerk',
  description: 'Answers questions about bills.\nIn detail.',
  history: true,
  run: ({ message, history }, call) => `${message}, after ${history.map(({ text }) => text)} in ${call.runId}`,
});
const greeter = agent({ name: 'greeter', description: 'Greets.', run: async ({ message }) => ({ greeting: message }) });
const refund = tool({ name: 'refund', description: 'Refunds.', input: z.object({}), run: () => null });

test('an agent has a tool that executes its turns', () => {
  expect(clerk.definition()).toEqual({
    name: 'Billing clerk',
    description: 'Answers questions about bills.',
    tool: 'clerk',
  });
  expect(clerk.tool.definition()).toEqual({
    name: 'clerk',
    version: '1',
    description: 'Answers questions about bills.\nIn detail.',
    inputSchema: {
      type: 'object',
      properties: {
        message: { type: 'string' },
        history: {
          type: 'array',
          items: {
            type: 'object',
            properties: { role: { type: 'string', enum: ['user', 'assistant'] }, text: { type: 'string' } },
            required: ['role', 'text'],
          },
        },
      },
      required: ['message', 'history'],
    },
    outputSchema: null,
    readOnly: false,
    idempotent: true,
    confirm: false,
    timeoutS: 3600,
    whenAbsent: 'wait',
  });
});

test('without the history, an agent gets the message only', () => {
  expect(greeter.definition()).toEqual({ name: 'greeter', description: 'Greets.', tool: 'greeter' });
  expect(greeter.tool.definition().inputSchema).toEqual({
    type: 'object',
    properties: { message: { type: 'string' } },
    required: ['message'],
  });
});

test('the tool of an agent has its options', () => {
  const options = { version: '2.0', durable: false, timeoutS: 5, whenAbsent: 'hide' } as const;
  const one = agent({ ...options, name: 'a', description: 'A.', run: () => null });
  expect(one.tool.definition()).toMatchObject({ version: '2.0', idempotent: false, timeoutS: 5, whenAbsent: 'hide' });
  expect([clerk.tool.durable, one.tool.durable]).toEqual([true, false]);
  // As callers without exact optional types may write.
  const usual = agent({
    name: 'a',
    description: 'A.',
    durable: undefined,
    timeoutS: undefined,
    run: () => '',
  } as never);
  expect([usual.tool.durable, usual.tool.timeoutS]).toEqual([true, 3600]);
});

test('the description of an agent is its first line, of limited length', () => {
  const described = (description: string) => agent({ name: 'a', description, run: () => null }).description;
  expect(described('\n  Greets.\r\nIn detail.')).toBe('Greets.');
  expect(described('😀'.repeat(300))).toBe('😀'.repeat(200));
});

test('an agent remains a function', async () => {
  const history: Said[] = [{ role: 'user', text: 'Refund A-7' }];
  const answer = await clerk.run({ message: 'And B-8?', history }, new CallContext({ runId: 'r' }));
  expect(answer).toBe('And B-8?, after Refund A-7 in r');
  expect(await greeter.run({ message: 'Hello' }, new CallContext())).toEqual({ greeting: 'Hello' });
});

test('types follow from the options', () => {
  expectTypeOf(clerk.run).parameter(0).toExtend<{ readonly message: string; readonly history: Said[] }>();
  expectTypeOf(clerk.run).returns.resolves.toEqualTypeOf<string>();
  expectTypeOf(greeter.run).parameter(0).toEqualTypeOf<{ readonly message: string }>();
  expectTypeOf(greeter.run).returns.resolves.toEqualTypeOf<{ greeting: string }>();
  expectTypeOf(greeter).toEqualTypeOf<AgentFunction<false, { greeting: string }>>();
  // @ts-expect-error: the history was not asked for
  agent({ name: 'a', description: 'A.', run: ({ history }) => history });
  // @ts-expect-error: nor here
  agent({ name: 'a', description: 'A.', run: (input: { message: string; history: Said[] }) => input.history });
  // @ts-expect-error: an agent gets nothing else
  agent({ name: 'a', description: 'A.', history: true, run: ({ order }) => order });
  // @ts-expect-error: the history is missing
  void (() => clerk.run({ message: 'Hello' }, new CallContext()));
});

test('the input of an agent is read as it is announced', async () => {
  const said = { role: 'user', text: 'a' };
  expect(await clerk.tool.input.read({ message: '', history: [said], new: 1 })).toEqual({
    message: '',
    history: [said],
  });
  await expect(clerk.tool.input.read({ message: 'a' })).rejects.toThrow(MismatchError);
});

const usual = { name: 'usual', description: '…', run: () => null };

test.each([
  ['agent "": a name has 1 to 200 characters', { name: '' }],
  ['a name has 1 to 200 characters', { name: '  ' }],
  ['a name has 1 to 200 characters', { name: 'x'.repeat(201) }],
  ['a name has 1 to 200 characters', { name: undefined }],
  [`agent Ann B: the name of its tool, "Ann B"`, { name: 'Ann B' }],
  ["set toolName, such as 'billing_clerk'", { toolName: 'a/b' }],
  ['people and agents choose an agent by its description', { description: ' ' }],
  ['the version "1/2"', { version: '1/2' }],
  ['choose 1 to 86400 whole seconds', { timeoutS: 0 }],
  ["choose 'wait' or 'hide'", { whenAbsent: 'never' }],
  ['run is not a function', { run: undefined }],
])('what cannot be an agent is refused with advice: %s', (advice, wrong) => {
  expect(() => agent({ ...usual, ...wrong } as never)).toThrow(advice);
});

test('the name of an agent may have 200 characters of any kind', () => {
  const name = '😀'.repeat(200);
  expect(agent({ ...usual, name, toolName: 'usual' }).definition().name).toBe(name);
});

test('a worker checks its agents', () => {
  const one = agent(usual);
  expect(() => new Worker([])).toThrow('at least one tool or agent');
  expect(() => new Worker([usual as never])).toThrow('make one with tool({…}) or agent({…})');
  expect(() => new Worker([one, one])).toThrow('there are two agents named usual');
  expect(() => new Worker([one, agent({ ...usual, toolName: 'other' })])).toThrow('there are two agents named usual');
  expect(() => new Worker([refund, agent({ ...usual, toolName: 'refund' })])).toThrow('two tools named refund');
  const many = Array.from({ length: 128 }, (_, index) => agent({ ...usual, name: `usual-${index}` }));
  expect(() => new Worker([refund, ...many])).toThrow('at most 128 tools and agents, not 129');
  expect(new Worker([refund, ...many.slice(1)])).toBeInstanceOf(Worker);
  expect(one).toBeInstanceOf(AgentFunction);
});

describe('served', () => {
  let api: ProtocolServer;
  beforeEach(async () => {
    api = await ProtocolServer.start();
  });
  afterEach(() => api.close());

  test('a worker announces its agents beside its tools', async () => {
    await serving(api, [refund, clerk, greeter], async () => {
      const history = [{ role: 'user', text: 'Refund A-7' }];
      const call = api.offer('clerk', { message: 'And B-8?', history });
      expect((await api.ended(call)).output).toBe('And B-8?, after Refund A-7 in run');
      expect((await api.ended(api.offer('greeter', { message: 'Hello' }))).output).toEqual({ greeting: 'Hello' });
    });
    const [, registered] = api.requests.find(([kind]) => kind === 'registrations')!;
    expect(registered.agents).toEqual([clerk.definition(), greeter.definition()]);
    expect(registered.tools).toEqual([refund, clerk.tool, greeter.tool].map((one) => one.definition()));
  });

  test('a worker without agents announces none', async () => {
    await serving(api, [refund], () => api.until(() => api.count('registrations')));
    expect(api.requests[0]![1]).not.toHaveProperty('agents');
  });

  test('a turn that waits goes on where it was', async () => {
    const asker = agent({
      name: 'asker',
      description: 'Asks.',
      run: async ({ message }, call) => `${message}: ${await call.askUser('Which order?')}`,
    });
    await serving(api, [asker], async () => {
      const call = api.offer('asker', { message: 'Refund' });
      await api.until(() => call.status === 'suspended');
      api.answer(call, 1, { output: { answer: 'A-7' } });
      expect((await api.ended(call)).output).toBe('Refund: A-7');
    });
  });
});
