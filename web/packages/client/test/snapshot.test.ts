/** Readers that join a log by a snapshot, and turns that a snapshot does not contain in full. */
import { expect, test, vi } from 'vitest';

import { Transcript } from '../src/transcript.js';
import type { Turn } from '../src/view.js';
import type { WireEvent } from '../src/wire.js';
import { done, fold, joinAt, message, meta, numbered, only, recorded, sub, token } from './events.js';
import { snapshot } from './reference.js';

test('a reader that joins a recorded run by a snapshot, at any event, ends with the same text', () => {
  for (let cut = 0; cut <= recorded.length; cut++) {
    // The message and its `done` are one transaction: no reader sees one without the other.
    if (cut === recorded.length - 1) continue;
    const turn = only(joinAt(recorded, cut));
    expect(turn.text, `joined at ${cut}`).toBe(turn.message!.content);
    expect(turn.status).toBe('completed');
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

test('a turn that began behind a snapshot finds its message', () => {
  const log = numbered([message('one', 'a'), meta('a'), message('two', 'b'), token('A', 'a')]);
  const transcript = new Transcript();
  const asked: string[] = [];
  transcript.onUnknown = (id) => asked.push(id);
  transcript.apply(4, snapshot(log));
  fold(
    [
      [5, message('A', 'a', 'assistant') as WireEvent],
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
  const transcript = fold(numbered([message('one', 'a'), meta('a'), token('half', 'a')]));
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
    message('q'),
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
    message('q'),
    meta(),
    token('One. '),
    { type: 'mcp_tool', runId: 'r', callId: 'a', tool: 'look', status: 'completed', result: 1 },
    message('Hurry.'),
    token('Two.'),
    message('One. Two.', 'r', 'assistant'),
    done('cancelled'),
    message('next', 'n'),
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
  // The message that it received is shown once: within its turn.
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

test('a copy of an answer, as a branch begins with, is completed from the events of its original', () => {
  const copy = { ...message('One.', 'r', 'assistant', 'copy').message, retrievalContext: { agent_run_id: 'r' } };
  const transcript = new Transcript();
  transcript.apply(2, { type: 'snapshot', through: 2, messages: [copy], turn: null } as unknown as WireEvent);
  const original = numbered([
    message('q'),
    meta(),
    { type: 'mcp_tool', runId: 'r', callId: 'a', tool: 'look', status: 'completed', result: 1 },
    token('One.'),
    message('One.', 'r', 'assistant'),
    done(),
  ]);
  transcript.complete('r', fold(original));
  const [turn] = transcript.getSnapshot().turns;
  expect(turn!.toolCalls).toHaveLength(1);
  expect(turn).toMatchObject({ agent: 'ada', message: { id: 'copy' } });
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
        message('q1', 'r1'),
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
