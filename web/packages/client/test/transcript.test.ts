/** The view of a log: turns, handoffs, sub-agents, questions, and when listeners are notified. */
import { expect, test, vi } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { RunEvent, WireEvent } from '../src/wire.js';
import { done, fold, joinAt, message, meta, numbered, only, recorded, recordedRun, sub, token } from './events.js';
import { textOf } from './reference.js';

test('a recorded run with a lost worker says every word once', () => {
  const transcript = fold(recorded);
  const turn = only(transcript);
  expect(turn.status).toBe('completed');
  expect(turn.text).toBe(turn.message!.content);
  expect(turn.text).toBe(textOf(recorded, recordedRun));
  expect(turn.toolCalls.map((call) => [call.tool, call.status])).toEqual([
    ['hybrid_search', 'completed'],
    ['get_entity_edges', 'completed'],
  ]);
  expect(turn.notices).toMatchObject([
    { kind: 'resumed', text: 'worker lost, resumed at step 3', attempt: 2, step: 3 },
  ]);
  expect(turn).toMatchObject({ agent: 'graph-query-agent', model: 'demo:graph', attempt: 2, usage: { steps: 3 } });
  const { items, messages, active } = transcript.getSnapshot();
  expect(items.map((item) => item.type)).toEqual(['message', 'turn']);
  expect(messages.map((message) => message.role)).toEqual(['user', 'assistant']);
  expect(active).toBeUndefined();
});

test('at every event the text is that of the events which still count', () => {
  const transcript = new Transcript();
  for (let at = 0; at < recorded.length; at++) {
    transcript.apply(...recorded[at]!);
    expect(only(transcript).text).toBe(textOf(recorded.slice(0, at + 1), recordedRun));
  }
});

test('a handoff stands where it happened, and what a development server says is kept beside the words', () => {
  const telemetry = { type: 'telemetry', runId: 'r', name: 'routing', data: { agent: 'ada' } };
  const debug = { type: 'debug_context', runId: 'r', debug: { prompt: 'You answer.' } };
  const log = numbered([
    message('q'),
    telemetry,
    meta(),
    debug,
    token('I ask bea. '),
    { type: 'handoff', runId: 'r', from: 'ada', to: 'bea', reason: 'knows more' },
    token('I know. '),
    { type: 'handoff', runId: 'r', from: 'bea', to: 'cyd' },
    token('Me, too.'),
  ]);
  const turn = only(fold(log));
  expect(turn.parts).toEqual([
    { type: 'text', text: 'I ask bea. ' },
    { type: 'handoff', from: 'ada', to: 'bea', reason: 'knows more' },
    { type: 'text', text: 'I know. ' },
    { type: 'handoff', from: 'bea', to: 'cyd' },
    { type: 'text', text: 'Me, too.' },
  ]);
  expect(turn).toMatchObject({ agent: 'cyd', text: 'I ask bea. I know. Me, too.' });
  expect(turn.details).toEqual([
    { type: 'telemetry', value: { name: 'routing', data: { agent: 'ada' } } },
    { type: 'debug_context', value: { prompt: 'You answer.' } },
  ]);
  // After a reset the first agent goes on, and no handoff is left.
  const reset = only(
    fold(
      numbered([
        ...log.map(([, event]) => event),
        { type: 'reset', runId: 'r', discardAfter: 5, attempt: 2, reason: 'x' },
      ]),
    ),
  );
  expect(reset.parts).toEqual([{ type: 'text', text: 'I ask bea. ' }]);
  expect(reset.agent).toBe('ada');
});

test('events of programs are kept beside the words, without those of a lost step', () => {
  const emitted = (data: unknown, callId?: string) => ({ type: 'custom', runId: 'r', name: 'progress', data, callId });
  const log = numbered([
    message('q'),
    meta(),
    emitted(1, 'c'),
    token('Lost.'),
    emitted(2),
    { type: 'reset', runId: 'r', discardAfter: 3, attempt: 2, reason: 'x' },
    emitted({ done: 3 }),
    token('Done.'),
  ]);
  const turn = only(fold(log));
  expect(turn.events).toEqual([
    { name: 'progress', data: 1, callId: 'c' },
    { name: 'progress', data: { done: 3 } },
  ]);
  expect(turn.text).toBe('Done.');
});

test('after a handoff the turn is the agent’s that took over', () => {
  const to = (from: string, to: string) => ({ type: 'handoff', runId: 'r', from, to });
  const log = numbered([
    message('q'),
    meta(),
    token('One. '),
    to('ada', 'grace'),
    token('Two. '),
    to('grace', 'alan'),
    token('Three.'),
  ]);
  expect([3, 4, 5, 6, 7].map((end) => only(fold(log.slice(0, end))).agent)).toEqual([
    'ada',
    'grace',
    'grace',
    'alan',
    'alan',
  ]);
  expect(only(fold(log)).text).toBe('One. Two. Three.');
});

test('sub-agents are turns within their parent’s, and what they say is theirs', () => {
  const log = numbered([
    message('q'),
    meta(),
    token('Mine. '),
    { type: 'sub_agent', runId: 's', status: 'started', task: 'dig', ...sub },
    { type: 'agent_state', runId: 'r', state: 'waiting_on_agents' },
    token('Theirs.', 's', sub),
    { type: 'mcp_tool', runId: 's', callId: 'a', tool: 'x', status: 'started', ...sub },
    {
      type: 'sub_agent',
      runId: 't',
      status: 'started',
      task: 'deeper',
      agent: 'cyd',
      parentRunId: 's',
      source: 'sub_agent',
    },
    { type: 'token', runId: 't', token: 'Deep.', agent: 'cyd', parentRunId: 's', source: 'sub_agent' },
    {
      type: 'sub_agent',
      runId: 't',
      status: 'failed',
      error: 'broken',
      code: 'x',
      agent: 'cyd',
      parentRunId: 's',
      source: 'sub_agent',
    },
    { type: 'sub_agent', runId: 's', status: 'completed', summary: 'found', usage: { totalTokens: 7 }, ...sub },
  ]);
  const transcript = fold(log);
  expect(only(transcript)).toMatchObject({ status: 'waiting', text: 'Mine. ' });
  fold(
    [
      [12, { type: 'agent_state', runId: 'r', state: 'thinking' } as WireEvent],
      [13, token('Again.') as WireEvent],
      [14, done() as WireEvent],
    ],
    transcript,
  );
  const turn = only(transcript);
  expect(turn).toMatchObject({ status: 'completed', text: 'Mine. Again.' });
  expect(turn.agents).toMatchObject([
    {
      runId: 's',
      parentRunId: 'r',
      source: 'sub_agent',
      agent: 'bea',
      task: 'dig',
      summary: 'found',
      status: 'completed',
      text: 'Theirs.',
      toolCalls: [{ callId: 'a' }],
      agents: [{ runId: 't', text: 'Deep.', status: 'failed', errors: [{ error: 'broken' }] }],
    },
  ]);
  const joined = only(joinAt(log, 7)).agents[0]!;
  expect(joined).toMatchObject({
    runId: 's',
    status: 'completed',
    text: 'Theirs.',
    agents: [{ runId: 't', status: 'failed' }],
  });
});

test('questions are open until they are answered, those of sub-agents among them', () => {
  const ask = (questionId: string, runId: string, more = {}) => ({
    type: 'question',
    runId,
    questionId,
    question: `${questionId}?`,
    options: [],
    interactionType: 'text',
    ...more,
  });
  const log = numbered([
    message('q'),
    meta(),
    { type: 'sub_agent', runId: 's', status: 'started', ...sub },
    ask('one', 'r'),
    ask('two', 's', sub),
    { type: 'agent_state', runId: 'r', state: 'waiting_on_user' },
  ]);
  for (const transcript of [fold(log), joinAt(log, log.length)]) {
    expect(transcript.getSnapshot().questions.map((question) => [question.questionId, question.runId])).toEqual([
      ['one', 'r'],
      ['two', 's'],
    ]);
    expect(only(transcript).status).toBe('waiting');
    fold(
      [
        [
          7,
          {
            type: 'question_answered',
            runId: 's',
            questionId: 'two',
            status: 'answered',
            answer: 'yes',
            ...sub,
          } as WireEvent,
        ],
      ],
      transcript,
    );
    expect(transcript.getSnapshot().questions).toHaveLength(1);
    expect(only(transcript).agents[0]!.questions).toMatchObject([{ status: 'answered', answer: 'yes' }]);
  }
});

test('messages that wait are turns that are queued, each behind its message', () => {
  const transcript = fold(numbered([message('one', 'a'), meta('a'), message('two', 'b'), token('A', 'a')]));
  const shown = () =>
    transcript
      .getSnapshot()
      .items.map((item) => (item.type === 'turn' ? `${item.turn.runId} ${item.turn.status}` : item.message.content));
  expect(shown()).toEqual(['one', 'a running', 'two', 'b queued']);
  expect(transcript.getSnapshot().active!.runId).toBe('a');
  fold(
    [
      [5, message('A', 'a', 'assistant') as WireEvent],
      [6, done('completed', 'a') as WireEvent],
    ],
    transcript,
  );
  expect(transcript.getSnapshot().active!.runId).toBe('b');
  fold([[7, done('cancelled', 'b') as WireEvent]], transcript);
  expect(shown()).toEqual(['one', 'a completed', 'two', 'b cancelled']);
});

test('a resumed run opens a new turn of the same run', () => {
  const transcript = fold(
    numbered([
      message('q'),
      meta(),
      token('a'),
      message('a', 'r', 'assistant'),
      done('paused'),
      message('go on'),
      meta(),
      token('b'),
      message('b', 'r', 'assistant'),
      done(),
    ]),
  );
  const { turns, items } = transcript.getSnapshot();
  expect(turns.map(({ id, status, text, message }) => [id, status, text, message?.content])).toEqual([
    ['r', 'paused', 'a', 'a'],
    ['r#2', 'completed', 'b', 'b'],
  ]);
  expect(items.map((item) => item.type)).toEqual(['message', 'turn', 'message', 'turn']);
  expect(transcript.turn('r')!.id).toBe('r#2');
});

test('events of types that are not invented yet change nothing', () => {
  const transcript = fold(numbered([message('q'), meta(), token('a')]));
  const before = only(transcript);
  fold([[4, { type: 'not_invented', runId: 'r', plan: {} } as unknown as WireEvent]], transcript);
  expect(only(transcript)).toBe(before);
});

test('a view never changes, and shares with the next one what has not changed', () => {
  const transcript = fold(
    numbered([
      message('one', 'a'),
      meta('a'),
      token('A', 'a'),
      done('completed', 'a'),
      message('two', 'b'),
      meta('b'),
      { type: 'mcp_tool', runId: 'b', callId: 'c', tool: 'x', status: 'started' },
      token('B', 'b'),
    ]),
  );
  const before = transcript.getSnapshot();
  const frozen = JSON.stringify(before);
  expect(transcript.getSnapshot()).toBe(before);
  fold([[9, token('C', 'b') as WireEvent]], transcript);
  const after = transcript.getSnapshot();
  expect(JSON.stringify(before)).toBe(frozen);
  expect(after).not.toBe(before);
  expect(after.turns[0]).toBe(before.turns[0]);
  expect(after.items[1]).toBe(before.items[1]);
  expect(after.turns[1]!.toolCalls[0]).toBe(before.turns[1]!.toolCalls[0]);
  expect(after.turns[1]!.text).toBe('BC');
});

test('tokens are delivered once a frame, and a status at once', async () => {
  const transcript = fold(numbered([message('q'), meta()]));
  const listener = vi.fn();
  transcript.subscribe(listener);
  for (let seq = 3; seq < 1000; seq++) transcript.apply(seq, token('x') as WireEvent);
  expect(listener).toHaveBeenCalledTimes(0);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1));
  transcript.apply(1000, token('x') as WireEvent);
  transcript.apply(1001, done() as WireEvent);
  expect(listener).toHaveBeenCalledTimes(2);
  await new Promise((resolve) => setTimeout(resolve, 40));
  expect(listener).toHaveBeenCalledTimes(2);
});

test('folding is linear: 20,000 tokens, with a view each 50, and a reset at the end', () => {
  const measure = (count: number) => {
    const transcript = fold(numbered([message('q'), meta()]));
    const event = token('word and word ') as WireEvent;
    const began = performance.now();
    for (let seq = 3; seq < count; seq++) {
      transcript.apply(seq, event);
      if (seq % 50 === 0) transcript.getSnapshot();
    }
    transcript.apply(count, { type: 'reset', runId: 'r', discardAfter: 2, attempt: 2, reason: 'x' } as RunEvent);
    expect(only(transcript).text).toBe('');
    return performance.now() - began;
  };
  const best = (count: number) => Math.min(...Array.from({ length: 5 }, () => measure(count)));
  const [few, many] = [best(2000), best(32_000)];
  // Sixteen times as many; the square would take 256 times as long.
  expect(many).toBeLessThan(Math.max(few, 3) * 80);
  expect(best(20_000)).toBeLessThan(1000);
});
