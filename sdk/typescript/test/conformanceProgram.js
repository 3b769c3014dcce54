/** The program of the conformance suite: sdk/conformance/README.md. */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { agent, RetryCall, StepOutcomeUnknownError, ToolFailure, tool, Worker } from '@rejoin/sdk';
import { z } from 'zod';

const folder = process.env.CONFORMANCE_DIR;
const HOLD_LIMIT_MS = 100_000;

/** Waits for a file. */
async function held(name, call) {
  writeFileSync(join(folder, `${name}-${call.attempt}`), '');
  const limit = Date.now() + HOLD_LIMIT_MS;
  while (!existsSync(join(folder, `${name}-end`)) && Date.now() < limit) {
    await delay(10);
    if (call.signal.aborted) {
      writeFileSync(join(folder, `${name}-stopped`), '');
      break;
    }
  }
  return call.attempt;
}

/** Adds a line to the file of effects. */
function effect(line) {
  appendFileSync(join(folder, 'effects'), `${line}\n`);
}

const named = { description: 'Waits for a file.', input: z.object({ name: z.string() }) };

const tools = [
  tool({
    name: 'echo',
    description: 'Returns the value.',
    input: z.object({ value: z.unknown() }),
    run: ({ value }) => value,
  }),
  tool({
    name: 'fail',
    description: 'Fails.',
    input: z.object({ message: z.string() }),
    run: ({ message }) => {
      throw new ToolFailure(message);
    },
  }),
  tool({
    name: 'retry',
    description: 'Asks to be handed out again.',
    input: z.object({ times: z.number() }),
    run: ({ times }, call) => {
      if (call.attempt <= times) throw new RetryCall('not yet');
      return call.attempt;
    },
  }),
  tool({ ...named, name: 'hold', run: ({ name }, call) => held(name, call) }),
  tool({ ...named, name: 'hold_idempotent', idempotent: true, run: ({ name }, call) => held(name, call) }),
  tool({ ...named, name: 'quick', timeoutS: 1, run: ({ name }, call) => held(name, call) }),
  tool({
    ...named,
    name: 'count',
    run: async ({ name }, call) => {
      if (call.checkpoint !== null) return { from: call.checkpoint };
      await call.saveCheckpoint({ done: 3 });
      return held(name, call);
    },
  }),
  tool({
    name: 'order',
    description: 'Orders an article.',
    input: z.object({ article: z.string() }),
    durable: true,
    run: async ({ article }, call) => {
      const lookUp = () => {
        effect('look up');
        return 12.5;
      };
      const ship = async () => {
        await held('ship', call);
        effect('ship');
      };
      const price = await call.step('look up', lookUp, { idempotent: true });
      const answer = await call.askUser(`Buy ${article}?`, { options: ['yes', 'no'] });
      await call.sleep(1, 'rest');
      const paid = await call.waitForEvent('paid', { timeoutS: 60 });
      const packed = await call.spawn('packer', `Pack ${article}`);
      try {
        await call.step('ship', ship);
      } catch (error) {
        if (error instanceof StepOutcomeUnknownError) return 'unknown';
        throw error;
      }
      return [price, answer, paid, packed.status];
    },
  }),
  tool({
    name: 'judge',
    description: 'Judges an order.',
    input: z.object({ order: z.string() }),
    durable: true,
    run: async ({ order }, call) => {
      const note = async () => {
        await held('note', call);
        effect('note');
      };
      const question = `Is ${order} fraud?`;
      const verdict = await call.model(question, {
        system: 'You know fraud.',
        model: 'default',
        outputSchema: { type: 'object', properties: { fraud: { type: 'boolean' } }, required: ['fraud'] },
        maxTokens: 50,
        temperature: 0,
        name: 'verdict',
      });
      await call.step('note', note, { idempotent: true });
      const why = await call.model([
        { role: 'user', text: question },
        { role: 'assistant', text: verdict.text },
        { role: 'user', text: 'Why?' },
      ]);
      return [verdict.output.fraud, verdict.model, why.text, why.usage.outputTokens];
    },
  }),
  tool({
    ...named,
    name: 'report',
    durable: true,
    run: async ({ name }, call) => {
      const count = async () => {
        await call.emit('progress', { done: 1 });
        const attempt = await held(name, call);
        await call.emit('progress', { done: 2 });
        return attempt;
      };
      await call.emit('begun', { name });
      const attempt = await call.step('count', count, { idempotent: true });
      await call.emit('ended');
      return attempt;
    },
  }),
  agent({
    name: 'helper',
    description: 'Repeats texts.',
    prompt: 'Call echo with the text, and answer with its result.',
    tools: ['echo'],
    model: 'default',
    output: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    maxSteps: 5,
  }),
  agent({
    name: 'clerk',
    description: 'Greets.',
    run: async ({ message }, call) => {
      const greet = async () => {
        await call.write('Hello ');
        await call.write('you. ');
      };
      const reply = async () => {
        await call.write(message);
        await call.emit('asked', { message });
        await held('reply', call);
        await call.write('!');
      };
      await call.step('greet', greet, { idempotent: true });
      await call.step('reply', reply, { idempotent: true });
    },
  }),
];

await new Worker(tools, { slots: 4, limits: { pauseMinMs: 20, pauseMaxMs: 200 } }).run();
