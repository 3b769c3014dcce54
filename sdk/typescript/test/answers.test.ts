/** Answers that agents write while they work. How they reach readers is tested by the conformance suite. */
import { expect, test } from 'vitest';
import { Answer, PIECE_MAX, type Piece } from '../src/answers.js';
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

test('text is collected while a piece is sent', async () => {
  const { sent, answer } = sending();
  answer.stepBegins(3);
  for (const word of ['a', 'b', 'c']) await answer.write(word);
  expect(sent.map(({ piece }) => piece)).toEqual([{ step: 3, piece: 1, text: 'a' }]);
  sent[0]?.arrives();
  await turn();
  expect(sent[1]?.piece).toEqual({ step: 3, piece: 2, text: 'bc' });
  // Too much to be collected: the function waits.
  let isReady = false;
  const ready = answer.write('x'.repeat(PIECE_MAX - 1) + '😀'.repeat(50_000)).then(() => {
    isReady = true;
  });
  const ended = answer.stepEnds(3, true);
  for (let index = 1; index < sent.length; index++) {
    expect(isReady).toBe(false);
    sent[index]?.arrives();
    await turn();
  }
  await ready;
  await ended;
  // No character is cut in two.
  expect(sent.map(({ piece }) => piece.text).join('')).toBe(answer.written);
  expect(sent.every(({ piece: { text = '' } }) => text.isWellFormed() && text.length <= PIECE_MAX)).toBe(true);
});

test('what the server refuses is an error of the step', async () => {
  const { sent, answer } = sending();
  answer.stepBegins(1);
  await answer.write('a');
  await answer.write('b');
  sent[0]?.fails(new Error('no_answer'));
  await turn();
  await expect(answer.write('c')).rejects.toThrow('no_answer');
  await expect(answer.stepEnds(1, true)).rejects.toThrow('no_answer');
  expect(sent).toHaveLength(1);
});

test('what a step that fails has not sent is dropped', async () => {
  const { sent, answer } = sending();
  answer.stepBegins(1);
  await answer.write('a');
  await answer.write('b');
  const ended = answer.stepEnds(1, false);
  sent[0]?.arrives();
  await ended;
  expect(sent).toHaveLength(1);
});

test('text belongs to one step', async () => {
  const call = new CallContext();
  await expect(call.write('Hello')).rejects.toThrow('within a step');
  await call.step('greet', () => call.write('Hello \ud800'));
  expect(call.written).toBe('Hello \ufffd');
  const write = async () => {
    await turn();
    await call.write('Hello');
  };
  const both = Promise.all([call.step('one', write), call.step('two', write)]);
  await expect(both).rejects.toThrow(StepFailedError);
});
