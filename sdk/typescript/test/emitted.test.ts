/** Events that functions emit while they work. How they reach readers is tested by the conformance suite. */
import { expect, test } from 'vitest';
import { Answer, EVENT_MAX_BYTES, type Piece } from '../src/answers.js';
import { CallContext, StepFailedError } from '../src/index.js';

/** Pieces that are on their way, and how each arrives. */
function sending() {
  const sent: { piece: Piece; arrives: () => void; fails: (error: Error) => void }[] = [];
  const send = (piece: Piece) =>
    new Promise<void>((arrives, fails) => {
      sent.push({ piece, arrives, fails });
    });
  return { sent, answer: new Answer(send) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const event = { name: 'progress', data: { done: 1 } };

test('an event stands between the texts before and after it', async () => {
  const { sent, answer } = sending();
  answer.stepBegins(2);
  for (const word of ['a', 'b', 'c']) await answer.write(word);
  await answer.emit(event);
  for (const word of ['d', 'e']) await answer.write(word);
  const ended = answer.stepEnds(2, true);
  for (let index = 0; index < 4; index++) {
    sent[index]?.arrives();
    await turn();
  }
  await ended;
  expect(sent.map(({ piece }) => piece)).toEqual([
    { step: 2, piece: 1, text: 'a' },
    { step: 2, piece: 2, text: 'bc' },
    { step: 2, piece: 3, event },
    { step: 2, piece: 4, text: 'de' },
  ]);
});

test('an event outside of steps is published when its promise is fulfilled', async () => {
  const { sent, answer } = sending();
  let isPublished = false;
  const published = answer.emit(event).then(() => {
    isPublished = true;
  });
  await turn();
  expect(isPublished).toBe(false);
  sent[0]?.arrives();
  await published;
  const refused = answer.emit(event);
  sent[1]?.fails(new Error('refused'));
  await expect(refused).rejects.toThrow('refused');
  await expect(answer.emit(event)).rejects.toThrow('refused');
  expect(sent.map(({ piece }) => [piece.step, piece.piece])).toEqual([
    [0, 1],
    [0, 2],
  ]);
});

test('what a step that fails has not sent is dropped', async () => {
  const { sent, answer } = sending();
  answer.stepBegins(1);
  for (let count = 0; count < 3; count++) await answer.emit(event);
  const ended = answer.stepEnds(1, false);
  sent[0]?.arrives();
  await ended;
  expect(sent).toHaveLength(1);
});

test('a bad event is refused', async () => {
  const call = new CallContext();
  for (const name of ['', 'a b', 'größe', 'x'.repeat(65), 'line\n'])
    await expect(call.emit(name)).rejects.toThrow('the name of an event');
  await expect(call.emit('progress', new Map())).rejects.toThrow(TypeError);
  await expect(call.emit('progress', 'x'.repeat(EVENT_MAX_BYTES))).rejects.toThrow(RangeError);
  await call.emit('a.b_c:d-1');
  await call.step('work', () => call.emit('progress', { done: [1] }));
  expect(call.emitted).toEqual([
    { name: 'a.b_c:d-1', data: null },
    { name: 'progress', data: { done: [1] } },
  ]);
});

test('events of parallel steps have no order', async () => {
  const call = new CallContext();
  const emit = async () => {
    await turn();
    await call.emit('progress');
  };
  await expect(Promise.all([call.step('one', emit), call.step('two', emit)])).rejects.toThrow(StepFailedError);
});

test('a call without a run emits nothing', async () => {
  const sent: Piece[] = [];
  const nothing = async () => undefined;
  const link = {
    progress: () => undefined,
    store: nothing,
    record: nothing,
    write: async (piece: Piece) => void sent.push(piece),
  };
  await new CallContext({ runId: null }, link).emit('progress', 1);
  expect(sent).toEqual([]);
  await new CallContext({ runId: 'r' }, link).emit('progress', 1);
  expect(sent).toEqual([{ step: 0, piece: 1, event: { name: 'progress', data: 1 } }]);
});
