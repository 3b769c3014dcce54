import { readFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { Turn } from '../src/view.js';
import type { RunEvent, WireEvent } from '../src/wire.js';
import type { Log } from './reference.js';
import { kept, snapshot, textOf } from './reference.js';

/** A run of a real server whose worker was killed in mid-answer. */
const recorded = JSON.parse(readFileSync(new URL('recorded.json', import.meta.url), 'utf8')) as Log;
const recordedRun = (recorded[0]![1] as { runId: string }).runId;

function fold(log: Log, into = new Transcript()): Transcript {
  for (const [seq, event] of log) expect(into.apply(seq, event), `event ${seq}`).toBe(true);
  return into;
}

/** Joins by a snapshot after `cut` events and goes on, as a connection does. */
function joinAt(log: Log, cut: number, into = new Transcript()): Transcript {
  let at = cut;
  into.apply(log[at - 1]?.[0] ?? 0, snapshot(log.slice(0, at)));
  while (at < log.length) {
    const [seq, event] = log[at]!;
    at++;
    if (!into.apply(seq, event)) into.apply(seq, snapshot(log.slice(0, at)));
  }
  return into;
}

/** Events of one log, numbered. */
const numbered = (events: object[]): Log => events.map((event, index) => [index + 1, event as WireEvent]);
const said = (content: string, runId = 'r', role = 'user', id = `${role} ${content}`) => ({
  type: 'message',
  runId,
  message: { id, role, content, createdAt: '2026-01-01T00:00:00Z' },
});
const token = (token: string, runId = 'r', more = {}) => ({ type: 'token', runId, token, ...more });
const meta = (runId = 'r', attempt = 1) => ({ type: 'meta', runId, agent: 'ada', model: 'm', citations: [], attempt });
const done = (status = 'completed', runId = 'r') => ({ type: 'done', runId, status });
const sub = { agent: 'bea', parentRunId: 'r', source: 'sub_agent' };
const only = (transcript: Transcript): Turn => {
  const { turns } = transcript.getSnapshot();
  expect(turns).toHaveLength(1);
  return turns[0]!;
};
/** Without what depends on the moment, and on how it came about. */
const comparable = (turn: Turn): unknown =>
  JSON.parse(
    JSON.stringify(turn, (key, value: unknown) =>
      ['startedAt', 'notices', 'attempt'].includes(key) ? undefined : value,
    ),
  );

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

test('a reader that joins a recorded run by a snapshot, at any event, ends with the same text', () => {
  for (let cut = 0; cut <= recorded.length; cut++) {
    // The message and its `done` are one transaction: nobody sees the one without the other.
    if (cut === recorded.length - 1) continue;
    const turn = only(joinAt(recorded, cut));
    expect(turn.text, `joined at ${cut}`).toBe(turn.message!.content);
    expect(turn.status).toBe('completed');
  }
});

test('at every event the text is that of the events which still count', () => {
  const transcript = new Transcript();
  for (let at = 0; at < recorded.length; at++) {
    transcript.apply(...recorded[at]!);
    expect(only(transcript).text).toBe(textOf(recorded.slice(0, at + 1), recordedRun));
  }
});

test('a snapshot taken over what is known already leaves nothing twice', () => {
  for (const cut of [5, 20, 40, 60, recorded.length]) {
    const transcript = fold(recorded.slice(0, Math.min(cut, 30)));
    const turn = only(joinAt(recorded, cut, transcript));
    expect(turn.text).toBe(turn.message!.content);
    const { messages, items } = transcript.getSnapshot();
    expect(messages).toHaveLength(2);
    expect(items.map((item) => item.type)).toEqual(['message', 'turn']);
    // Nor does the message itself, should it come again.
    transcript.apply(1000, recorded[0]![1]);
    expect(transcript.getSnapshot().items).toHaveLength(2);
  }
});

test('a reset undoes exactly the events that it names', () => {
  const log = numbered([
    said('q'),
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
    said('Hurry.'),
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
  // What the user has said is not taken back.
  expect(turn.parts.map((part) => part.type)).toEqual(['text', 'tool', 'message']);
});

test('a handoff stands where it happened, and what a development server says is kept beside the words', () => {
  const telemetry = { type: 'telemetry', runId: 'r', name: 'routing', data: { agent: 'ada' } };
  const debug = { type: 'debug_context', runId: 'r', debug: { prompt: 'You answer.' } };
  const log = numbered([
    said('q'),
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
  // Taken back, the first agent goes on, and nothing is told of the other ones.
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

test('after resets a turn is what it would be without the void events, whatever they were', () => {
  let state = 1;
  const random = (limit: number) => {
    state = (state * 48271) % 2147483647;
    return state % limit;
  };
  for (let round = 0; round < 300; round++) {
    const events: object[] = [said('q'), meta()];
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
          () => ({ type: 'sub_agent', status: 'started', task: 't', ...child }),
          () => ({ type: 'token', token: `s${events.length}`, ...child }),
          () => ({ type: 'reset', runId: 'r', discardAfter: safe, attempt: ++attempt, reason: 'x' }),
        ][random(15)]!(),
      );
      // The step that is under way begins anew now and then, and with each reset.
      if (random(8) === 0 || 'discardAfter' in events.at(-1)!) safe = events.length;
    }
    const log = numbered(events);
    expect(comparable(only(fold(log))), JSON.stringify(log)).toEqual(
      comparable(only(fold(kept(log).filter(([, event]) => event.type !== 'reset')))),
    );
  }
});

test('a reset of what a snapshot holds asks for a new one', () => {
  const log = numbered([said('q'), meta(), token('a '), token('void')]);
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
      said('q'),
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

test('after a handoff the turn is the agent’s that took over', () => {
  const to = (from: string, to: string) => ({ type: 'handoff', runId: 'r', from, to });
  const log = numbered([
    said('q'),
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
    said('q'),
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
    said('q'),
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
  const transcript = fold(numbered([said('one', 'a'), meta('a'), said('two', 'b'), token('A', 'a')]));
  const shown = () =>
    transcript
      .getSnapshot()
      .items.map((item) => (item.type === 'turn' ? `${item.turn.runId} ${item.turn.status}` : item.message.content));
  expect(shown()).toEqual(['one', 'a running', 'two', 'b queued']);
  expect(transcript.getSnapshot().active!.runId).toBe('a');
  fold(
    [
      [5, said('A', 'a', 'assistant') as WireEvent],
      [6, done('completed', 'a') as WireEvent],
    ],
    transcript,
  );
  expect(transcript.getSnapshot().active!.runId).toBe('b');
  fold([[7, done('cancelled', 'b') as WireEvent]], transcript);
  expect(shown()).toEqual(['one', 'a completed', 'two', 'b cancelled']);
});

test('a turn that began behind a snapshot finds its message', () => {
  const log = numbered([said('one', 'a'), meta('a'), said('two', 'b'), token('A', 'a')]);
  const transcript = new Transcript();
  const asked: string[] = [];
  transcript.onUnknown = (id) => asked.push(id);
  transcript.apply(4, snapshot(log));
  fold(
    [
      [5, said('A', 'a', 'assistant') as WireEvent],
      [6, done('completed', 'a') as WireEvent],
      [7, meta('b') as WireEvent],
    ],
    transcript,
  );
  expect(asked).toEqual(['a', 'b']);
  for (const id of ['b', 'a']) {
    const run = {
      id,
      messageId: id === 'a' ? 'user one' : 'user two',
      doneSeq: null,
      state: 'running',
      agent: 'ada',
      agentDefinitionId: null,
      model: null,
    };
    transcript.learn(run as never, 7);
  }
  expect(
    transcript.getSnapshot().items.map((item) => (item.type === 'turn' ? item.turn.runId : item.message.content)),
  ).toEqual(['one', 'a', 'two', 'b']);
});

test('what ended meanwhile is learnt, and what ends later is not believed before its event', () => {
  const transcript = fold(numbered([said('one', 'a'), meta('a'), token('half', 'a')]));
  const asked: string[] = [];
  transcript.onUnknown = (id) => asked.push(id);
  transcript.apply(9, { type: 'snapshot', through: 9, messages: [], turn: null });
  expect(asked).toEqual(['a']);
  const run = {
    id: 'a',
    messageId: 'user one',
    state: 'failed',
    error: 'broken',
    errorCode: 'x',
    agent: null,
    agentDefinitionId: null,
    model: null,
  };
  transcript.learn({ ...run, doneSeq: 10 } as never, 9);
  expect(only(transcript).status).toBe('running');
  transcript.learn({ ...run, doneSeq: 8 } as never, 9);
  expect(only(transcript)).toMatchObject({ status: 'failed', errors: [{ error: 'broken', code: 'x' }] });
});

test('a resumed run opens a new turn of the same run', () => {
  const transcript = fold(
    numbered([
      said('q'),
      meta(),
      token('a'),
      said('a', 'r', 'assistant'),
      done('paused'),
      said('go on'),
      meta(),
      token('b'),
      said('b', 'r', 'assistant'),
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
  const transcript = fold(numbered([said('q'), meta(), token('a')]));
  const before = only(transcript);
  fold([[4, { type: 'not_invented', runId: 'r', plan: {} } as unknown as WireEvent]], transcript);
  expect(only(transcript)).toBe(before);
});

test('a view never changes, and shares with the next one what has not changed', () => {
  const transcript = fold(
    numbered([
      said('one', 'a'),
      meta('a'),
      token('A', 'a'),
      done('completed', 'a'),
      said('two', 'b'),
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
  const transcript = fold(numbered([said('q'), meta()]));
  const told = vi.fn();
  transcript.subscribe(told);
  for (let seq = 3; seq < 1000; seq++) transcript.apply(seq, token('x') as WireEvent);
  expect(told).toHaveBeenCalledTimes(0);
  await vi.waitFor(() => expect(told).toHaveBeenCalledTimes(1));
  transcript.apply(1000, token('x') as WireEvent);
  transcript.apply(1001, done() as WireEvent);
  expect(told).toHaveBeenCalledTimes(2);
  await new Promise((resolve) => setTimeout(resolve, 40));
  expect(told).toHaveBeenCalledTimes(2);
});

test('folding is linear: 20,000 tokens, with a view each 50, and a reset at the end', () => {
  const measure = (count: number) => {
    const transcript = fold(numbered([said('q'), meta()]));
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

test('a snapshot lays text, calls and sub-agents out as they happened', () => {
  const call = (callId: string, runId = 'r', more = {}) => ({
    type: 'mcp_tool',
    runId,
    callId,
    tool: 'look',
    status: 'completed',
    ...more,
  });
  const log = numbered([
    said('q'),
    meta(),
    call('a'),
    token('One 🦀. '),
    call('b'),
    token('Two. '),
    { type: 'sub_agent', runId: 's', status: 'started', task: 't', ...sub },
    token('Theirs.', 's', sub),
    call('c', 's', sub),
    token('More.', 's', sub),
    token('Then. '),
    call('d'),
    token('Three.'),
  ]);
  const parts = (turn: Turn): unknown[] =>
    turn.parts.map((part) =>
      part.type === 'text'
        ? part.text
        : part.type === 'tool'
          ? part.callId
          : part.type === 'agent'
            ? parts(part.turn)
            : part.type,
    );
  const wanted = parts(only(fold(log)));
  expect(wanted).toEqual(['a', 'One 🦀. ', 'b', 'Two. ', ['Theirs.', 'c', 'More.'], 'Then. ', 'd', 'Three.']);
  for (let cut = 1; cut <= log.length; cut++) {
    // Text that a snapshot has cut in two is one part again.
    expect(parts(only(joinAt(log, cut))), `joined at ${cut}`).toEqual(wanted);
  }
});

test('a turn that ended before is completed from its own events', () => {
  const log = numbered([
    said('q'),
    meta(),
    token('One. '),
    { type: 'mcp_tool', runId: 'r', callId: 'a', tool: 'look', status: 'completed', result: 1 },
    said('Hurry.'),
    token('Two.'),
    said('One. Two.', 'r', 'assistant'),
    done('cancelled'),
    said('next', 'n'),
    meta('n'),
  ]);
  const transcript = joinAt(log, log.length);
  const [before] = transcript.getSnapshot().turns;
  expect(before).toMatchObject({ partial: true, text: 'One. Two.', toolCalls: [], status: 'completed' });
  transcript.complete('r', fold(log.slice(0, 8)));
  const { turns, items } = transcript.getSnapshot();
  expect(turns[0]).toMatchObject({ text: 'One. Two.', status: 'cancelled', model: 'm', id: 'r' });
  expect(turns[0]!.partial).toBeUndefined();
  expect(turns[0]!.parts.map((part) => part.type)).toEqual(['text', 'tool', 'message', 'text']);
  // What it was told is shown once: within it.
  expect(items.map((item) => (item.type === 'message' ? item.message.content : item.turn.id))).toEqual([
    'q',
    'r',
    'next',
    'n',
  ]);
  // What is whole stays as it is.
  transcript.complete('r', new Transcript());
  expect(transcript.getSnapshot().turns[0]!.toolCalls).toHaveLength(1);
});

test('a snapshot has turns that left no message, and those that wait', () => {
  const asked = (id: string, runId: string, runState: string) => ({
    id,
    role: 'user',
    content: id,
    createdAt: '2026-01-01T00:00:00Z',
    runId,
    runState,
  });
  const transcript = new Transcript();
  const ask = vi.fn();
  transcript.onUnknown = ask;
  const assistant = {
    id: 'a',
    role: 'assistant',
    content: 'Half of',
    createdAt: '2026-01-01T00:00:00Z',
    retrievalContext: { agent_run_id: 'r2' },
  };
  const messages = [
    asked('q1', 'r1', 'failed'),
    asked('q2', 'r2', 'cancelled'),
    assistant,
    asked('q3', 'r3', 'running'),
    asked('q4', 'r4', 'queued'),
  ];
  transcript.apply(9, {
    type: 'snapshot',
    through: 9,
    messages,
    turn: { runId: 'r3', meta: meta('r3'), text: 'Now', toolCalls: [] },
  } as WireEvent);
  const { items, active, turns } = transcript.getSnapshot();
  expect(
    items.map((item) =>
      item.type === 'message' ? item.message.content : `${item.turn.runId} ${item.turn.status} ${item.turn.text}`,
    ),
  ).toEqual(['q1', 'r1 failed ', 'q2', 'r2 cancelled Half of', 'q3', 'r3 running Now', 'q4', 'r4 queued ']);
  expect(turns.map((turn) => [turn.messageId, turn.partial])).toEqual([
    ['q1', true],
    ['q2', true],
    ['q3', undefined],
    ['q4', undefined],
  ]);
  expect(active?.runId).toBe('r3');
  transcript.complete(
    'r1',
    fold(
      numbered([
        said('q1', 'r1'),
        meta('r1'),
        { type: 'error', runId: 'r1', error: 'no', code: 'x', retryable: false },
        done('failed', 'r1'),
      ]),
    ),
  );
  expect(transcript.getSnapshot().turns[0]).toMatchObject({
    status: 'failed',
    errors: [{ error: 'no' }],
    messageId: 'q1',
  });
});
