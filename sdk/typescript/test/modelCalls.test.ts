/** Functions ask language models: what is asked, once, and what is wrong with that which can not be. */
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import {
  CallContext,
  Journal,
  type ModelAnswer,
  type ModelOptions,
  type Prompt,
  type RecordedStep,
  type Schema,
  StepChangedError,
  StepFailedError,
} from '../src/index.js';
import { MismatchError } from '../src/schemas.js';
import { api, executed, sent, served, suspended } from './durableServing.js';

const verdict = z.object({ fraud: z.boolean() });
const output = {
  runId: 'r',
  model: 'openai:gpt-6-luna',
  text: '{"fraud":false}',
  output: { fraud: false },
  usage: { inputTokens: 30, outputTokens: 5, totalTokens: 35, costUsd: 0.25 },
};

function recorded(fields: Partial<RecordedStep> = {}): CallContext {
  const step = { number: 1, name: 'model', kind: 'model', status: 'completed', output, error: null };
  return new CallContext({ journal: new Journal([{ ...step, ...fields }]) });
}

describe('a model call', () => {
  test('is a wait of the function, which begins again with the answer', async () => {
    const call = await served(
      async ({ model, step }) => {
        const history = [
          { role: 'user', text: 'Hi' },
          { role: 'assistant', content: 'Hello' },
          { role: 'user', text: 'Is it fraud?' },
        ] as const;
        const options = { system: 'You know fraud.', model: 'gpt-6-luna', maxTokens: 50, temperature: 0 };
        const answer = await model(history, { ...options, outputSchema: verdict, name: 'judge' });
        await step('note', () => executed.push(answer.text));
        return [answer.output.fraud, (await model('Why?')).text];
      },
      {
        meanwhile: async (call) => {
          await suspended(call);
          api.answer(call, 1, { output });
          await api.until(() => call.steps.has(3));
          api.answer(call, 3, { output: { runId: 'q', text: 'It was paid.', output: null } });
        },
      },
    );
    expect([call.output, executed]).toEqual([[false, 'It was paid.'], ['{"fraud":false}']]);
    const jsonSchema = { type: 'object', properties: { fraud: { type: 'boolean' } }, required: ['fraud'] };
    const messages = [
      { role: 'user', text: 'Hi' },
      { role: 'assistant', text: 'Hello' },
      { role: 'user', text: 'Is it fraud?' },
    ];
    const wait = {
      ...{ kind: 'model', messages, system: 'You know fraud.', model: 'gpt-6-luna', outputSchema: jsonSchema },
      ...{ maxTokens: 50, temperature: 0 },
    };
    const why = { kind: 'model', messages: [{ role: 'user', text: 'Why?' }] };
    expect(sent('suspension')).toEqual([
      ['suspension', { steps: [{ number: 1, name: 'judge', wait }] }],
      ['suspension', { steps: [{ number: 3, name: 'model', wait: why }] }],
    ]);
  });

  test('that is recorded is not asked again', async () => {
    expect(await recorded().model('Is it fraud?', { outputSchema: verdict })).toEqual({
      ...{ runId: 'r', model: 'openai:gpt-6-luna', text: '{"fraud":false}', output: { fraud: false } },
      usage: { inputTokens: 30, outputTokens: 5, costUsd: 0.25 },
    });
    const plain = await recorded({ output: { runId: 'r', text: 'Hi', output: null } }).model('Hello');
    const usage = { inputTokens: 0, outputTokens: 0 };
    expect(plain).toEqual({ runId: 'r', model: null, text: 'Hi', output: null, usage });
  });

  test('that has failed rejects with the reason', async () => {
    const error = 'the model has not answered (token_budget): it is used up';
    await expect(recorded({ status: 'error', error }).model('Hello')).rejects.toThrow(new StepFailedError(error));
  });

  test('in the place of another step is an error', async () => {
    await expect(recorded({ kind: 'agent' }).model('Hello')).rejects.toThrow(StepChangedError);
    await expect(recorded().model('Hello', { name: 'judge' })).rejects.toThrow(
      'step 1 was "model" (model) in an earlier execution, and is "judge" (model) now',
    );
  });

  test('has an output as zod parses it', async () => {
    const when = z.object({ fraud: z.boolean().transform(String) });
    expect((await recorded().model('Hello', { outputSchema: when })).output).toEqual({ fraud: 'false' });
    const strict = z.object({ fraud: z.boolean().refine((is) => is, 'not fraud') });
    await expect(recorded().model('Hello', { outputSchema: strict })).rejects.toThrow(MismatchError);
  });
});

const MALFORMED: [prompt: unknown, options: Record<string, unknown>, text: string][] = [
  ['', {}, 'message 1 has no text'],
  [7, {}, 'with a text, or with a list of messages'],
  [[], {}, '1 to 1000 messages, not 0'],
  [['Hello'], {}, 'message 1 is "Hello"; write {'],
  [[{ role: 'system', text: 'Be kind.' }], {}, 'the option system'],
  [[{ role: 'tool', text: '7' }], {}, 'message 1 has the role "tool"; write'],
  [[{ role: 'user', content: [{ type: 'text' }] }], {}, 'message 1 has no text'],
  [
    [
      { role: 'user', text: 'Hi' },
      { role: 'assistant', text: 'Hello' },
    ],
    {},
    'the last message has the role assistant',
  ],
  ['Hello', { model: ' ' }, 'the name of the model is empty'],
  ['Hello', { maxTokens: 1.5 }, 'choose a whole number from 1'],
  ['Hello', { temperature: Number.NaN }, 'choose 0 to 2'],
  ['Hello', { outputSchema: z.string() }, 'that of an object'],
  ['Hello', { outputSchema: 'a text' }, 'neither a schema of zod'],
  ['Hello', { system: 'x'.repeat(262_144) }, 'what step "model" asks for has'],
  ['Hello', { name: 'x'.repeat(201) }, '1 to 200 characters'],
];

test.each(MALFORMED)('what a model can not be asked is an error: %j, %j', async (prompt, options, text) => {
  const { model } = new CallContext();
  await expect(model(prompt as Prompt, options as ModelOptions<Schema>)).rejects.toThrow(text);
});

test('the type of an output comes from its schema', () => {
  const { model } = recorded();
  expectTypeOf(() => model('Hello')).returns.resolves.toEqualTypeOf<ModelAnswer<null>>();
  const ofZod = () => model('Hello', { outputSchema: verdict });
  expectTypeOf(ofZod).returns.resolves.toEqualTypeOf<ModelAnswer<{ fraud: boolean }>>();
  const ofJson = async () => (await model('Hello', { outputSchema: { type: 'object' } })).output;
  // biome-ignore lint/suspicious/noExplicitAny: what the types have
  expectTypeOf(ofJson).returns.resolves.toEqualTypeOf<Record<string, any>>();
});
