/** A `reset` discards exactly the events that it names. */
import { expect, test } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { Turn } from '../src/view.js';
import type { WireEvent } from '../src/wire.js';
import { fold, message, meta, numbered, only, sub, token } from './events.js';
import { kept, snapshot } from './reference.js';

/** Without what depends on the moment, and on how it came about. */
const comparable = (turn: Turn): unknown =>
  JSON.parse(
    JSON.stringify(turn, (key, value: unknown) =>
      ['startedAt', 'notices', 'attempt'].includes(key) ? undefined : value,
    ),
  );

test('a reset undoes exactly the events that it names', () => {
  const log = numbered([
    message('q'),
    meta(),
    token('One. '),
    { type: 'usage', runId: 'r', inputTokens: 1, outputTokens: 1, totalTokens: 2, steps: 1 },
    { type: 'mcp_tool', runId: 'r', callId: 'a', tool: 'look', status: 'started', input: {} },
    token('void', 'r'),
    { type: 'reasoning', runId: 'r', text: 'void' },
    { type: 'mcp_tool', runId: 'r', callId: 'a', tool: 'look', status: 'completed', result: 1, durationMs: 3 },
    { type: 'mcp_tool', runId: 'r', callId: 'b', tool: 'void', status: 'started' },
    { type: 'limit', runId: 'r', limit: 'void', message: 'void' },
    { type: 'handoff', runId: 'r', from: 'ada', to: 'void' },
    message('Hurry.'),
    { type: 'usage', runId: 'r', inputTokens: 9, outputTokens: 9, totalTokens: 18, steps: 2 },
    { type: 'reset', runId: 'r', discardAfter: 5, attempt: 2, reason: 'x' },
  ]);
  const turn = only(fold(log));
  expect(turn).toMatchObject({
    text: 'One. ',
    reasoning: '',
    agent: 'ada',
    limits: [],
    status: 'running',
    attempt: 2,
    usage: { steps: 1 },
  });
  expect(turn.toolCalls.map(({ callId, status, output }) => ({ callId, status, output }))).toEqual([
    { callId: 'a', status: 'running', output: undefined },
  ]);
  // The user's message is not discarded.
  expect(turn.parts.map((part) => part.type)).toEqual(['text', 'tool', 'message']);
});

test('after resets a turn is what it would be without the void events, whatever they were', () => {
  let state = 1;
  const random = (limit: number) => {
    state = (state * 48271) % 2147483647;
    return state % limit;
  };
  for (let round = 0; round < 300; round++) {
    const events: object[] = [message('q'), meta()];
    let safe = 2;
    let attempt = 1;
    for (let count = random(60); count > 0; count--) {
      const callId = `c${random(4)}`;
      const child = { runId: `s${random(2)}`, ...sub };
      events.push(
        [
          () => token(`t${events.length} `),
          () => token(`t${events.length} `),
          () => ({ type: 'reasoning', runId: 'r', text: `r${events.length}` }),
          () => ({ type: 'mcp_tool', runId: 'r', callId, tool: 'x', status: 'started', input: events.length }),
          () => ({ type: 'mcp_tool', runId: 'r', callId, tool: 'x', status: 'completed', result: events.length }),
          () => ({
            type: 'usage',
            runId: 'r',
            inputTokens: events.length,
            outputTokens: 1,
            totalTokens: 2,
            steps: events.length,
          }),
          () => ({
            type: 'question',
            runId: 'r',
            questionId: callId,
            question: '?',
            options: [],
            interactionType: 'text',
          }),
          () => ({
            type: 'question_answered',
            runId: 'r',
            questionId: callId,
            status: 'answered',
            answer: events.length,
          }),
          () => ({ type: 'error', runId: 'r', error: 'e', code: `${events.length}`, retryable: true }),
          () => ({ type: 'agent_state', runId: 'r', state: 'thinking' }),
          () => ({ type: 'handoff', runId: 'r', from: 'ada', to: `a${events.length}` }),
          () => ({ type: 'telemetry', runId: 'r', name: 'n', data: events.length }),
          () => ({ type: 'custom', runId: 'r', name: 'n', data: events.length }),
          () => ({ type: 'sub_agent', status: 'started', task: 't', ...child }),
          () => ({ type: 'token', token: `s${events.length}`, ...child }),
          () => ({ type: 'reset', runId: 'r', discardAfter: safe, attempt: ++attempt, reason: 'x' }),
        ][random(16)]!(),
      );
      // The current step ends now and then, and begins again with each reset.
      if (random(8) === 0 || 'discardAfter' in events.at(-1)!) safe = events.length;
    }
    const log = numbered(events);
    expect(comparable(only(fold(log))), JSON.stringify(log)).toEqual(
      comparable(only(fold(kept(log).filter(([, event]) => event.type !== 'reset')))),
    );
  }
});

test('a reset of what a snapshot holds asks for a new one', () => {
  const log = numbered([message('q'), meta(), token('a '), token('void')]);
  const transcript = new Transcript();
  transcript.apply(4, snapshot(log));
  const reset = { type: 'reset', runId: 'r', discardAfter: 3, attempt: 2, reason: 'x' } as const;
  expect(transcript.apply(5, reset as WireEvent)).toBe(false);
  transcript.apply(5, snapshot([...log, [5, reset]]));
  const turn = only(fold([[6, token('b') as WireEvent]], transcript));
  expect(turn.text).toBe('a b');
  expect(turn.notices).toHaveLength(1);
});

test('the last event that a reset leaves is left, and what was learnt beside the log is no obstacle', () => {
  const transcript = fold(
    numbered([
      message('q'),
      meta(),
      token('a '),
      token('b '),
      token('void'),
      { type: 'handoff', runId: 'r', from: 'ada', to: 'void' },
    ]),
  );
  transcript.learn(
    { id: 'r', agent: null, agentDefinitionId: 'x', model: null, messageId: null, doneSeq: null } as never,
    6,
  );
  fold([[7, { type: 'reset', runId: 'r', discardAfter: 4, attempt: 2, reason: 'x' } as WireEvent]], transcript);
  expect(only(transcript)).toMatchObject({ text: 'a b ', agent: 'ada', agentDefinitionId: 'x' });
});
