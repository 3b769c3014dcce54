/**
 * A model of the AI SDK whose answers are steps of a turn: for `ai-sdk-agent.ts` and `mastra-agent.ts`.
 *
 * The text of a step is written to the log of the run as it arrives. If the process is lost in it, what it has written is taken back, and
 * written again; a step that has ended is not repeated, and the agent gets the recorded answer.
 */
import type { LanguageModelV4, LanguageModelV4GenerateResult, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { CallContext } from '@rejoin/sdk';
import { wrapLanguageModel } from 'ai';

type Answer = LanguageModelV4GenerateResult;
type Block = Extract<Answer['content'][number], { type: 'text' | 'reasoning' }>;

export function recorded(model: LanguageModelV4, call: CallContext): LanguageModelV4 {
  return wrapLanguageModel({
    model,
    middleware: {
      wrapGenerate: ({ doStream }) =>
        call.step('model', async () => await answerOf((await doStream()).stream, call), { idempotent: true }),
    },
  });
}

/** Writes the text of a stream, and returns all of it. */
async function answerOf(stream: ReadableStream<LanguageModelV4StreamPart>, call: CallContext): Promise<Answer> {
  const answer: Partial<Answer> & Pick<Answer, 'content' | 'warnings'> = { content: [], warnings: [] };
  const blocks = new Map<string, Block>();
  for await (const part of stream) {
    // Text and reasoning come in pieces: `text-start`, `text-delta`, `text-end`.
    const [type, piece] = part.type.split('-') as [Block['type'], string | undefined];
    const block = 'id' in part ? blocks.get(`${type} ${part.id}`) : undefined;
    if (part.type === 'text-start' || part.type === 'reasoning-start') {
      const begun: Block = { type, text: '', providerMetadata: part.providerMetadata };
      blocks.set(`${type} ${part.id}`, begun);
      answer.content.push(begun);
    } else if (block && 'delta' in part) {
      block.text += part.delta;
      if (type === 'text') await call.write(part.delta);
    } else if (block && piece === 'end') {
      block.providerMetadata = ('providerMetadata' in part && part.providerMetadata) || block.providerMetadata;
    } else if (
      part.type === 'tool-call' ||
      part.type === 'tool-result' ||
      part.type === 'source' ||
      part.type === 'file'
    ) {
      answer.content.push(part);
    } else if (part.type === 'finish') {
      const { finishReason, usage, providerMetadata } = part;
      Object.assign(answer, { finishReason, usage, providerMetadata });
    } else if (part.type === 'error') throw part.error;
  }
  const types = answer.content.map(({ type }) => type);
  if (types.includes('text') && types.includes('tool-call')) await call.write('\n\n');
  return answer as Answer;
}
