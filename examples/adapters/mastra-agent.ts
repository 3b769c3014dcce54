/**
 * An agent of Mastra executes the turns of an agent.
 *
 * Each answer of the model is a step of the turn, and so is each effect of a tool. A process that is lost neither repeats nor loses any of
 * them: the function runs again from its start, and gets what was recorded.
 */
import { appendFile } from 'node:fs/promises';
import { openai } from '@ai-sdk/openai';
import { Agent } from '@mastra/core/agent';
import type { CoreMessage, MastraModelConfig } from '@mastra/core/llm';
import { createTool } from '@mastra/core/tools';
import { agent, Worker } from '@rejoin/sdk';
import { z } from 'zod';
import { recorded } from './recorded-model.ts';

const PROMPT = "You refund orders. If you can't know whether a refund took effect, say so, and do not repeat it.";

const clerk = agent({
  name: 'mastra_clerk',
  description: 'Refunds orders, by Mastra.',
  history: true,
  run: async ({ message, history }, call) => {
    const pay = async (order: string) => {
      // A real one asks the bank.
      await appendFile('refunds.txt', `${order}\n`);
      return `Order ${order} was refunded.`;
    };
    const refund = createTool({
      id: 'refund',
      description: 'Refunds an order.',
      inputSchema: z.object({ order: z.string() }),
      // Recorded before it begins and when it has ended: it is never repeated.
      execute: ({ order }) => call.step(`refund ${order}`, () => pay(order)),
    });
    const mastra = new Agent({
      id: 'clerk',
      name: 'clerk',
      instructions: PROMPT,
      // Mastra has types of an earlier release of this interface.
      model: recorded(openai('gpt-6-luna'), call) as MastraModelConfig,
      tools: { refund },
    });
    const said = history.map(({ role, text }): CoreMessage => ({ role, content: text }));
    await mastra.generate([...said, { role: 'user', content: message }], {
      maxSteps: 10,
      // One call of a tool at a time: the steps of a turn have an order.
      providerOptions: { openai: { parallelToolCalls: false } },
      abortSignal: call.signal,
    });
    // No result is returned: the answer is what the steps have written.
  },
});

await new Worker([clerk]).run();
