import { expect, test } from 'vitest';

import { SseParser } from '../src/sse.js';

const TEXT =
  '\u{feff}retry: 1234\n\n:hb\n\nid: 1\ndata: {"a":"ä€😀"}\n\r\nid:2\r\ndata: x\r\ndata\r\ndata:  y\r\n\r\nevent: e\rdata: z\r\rid: 9\n\n: c\nnonsense\ndata: last\n\n';
const FRAMES = [
  { id: '1', data: '{"a":"ä€😀"}' },
  { id: '2', data: 'x\n\n y' },
  { event: 'e', data: 'z' },
  { data: 'last' },
];
const bytes = new TextEncoder().encode(TEXT);

test('frames are the same wherever the bytes are cut', () => {
  for (let cut = 0; cut <= bytes.length; cut++) {
    const parser = new SseParser();
    expect([...parser.push(bytes.slice(0, cut)), ...parser.push(bytes.slice(cut))], `cut at ${cut}`).toEqual(FRAMES);
    expect(parser.retryMs).toBe(1234);
  }
});

test('frames are the same with two cuts anywhere', () => {
  for (let one = 0; one <= bytes.length; one++) {
    for (let two = one; two <= bytes.length; two++) {
      const parser = new SseParser();
      const frames = [bytes.slice(0, one), bytes.slice(one, two), bytes.slice(two)].flatMap((piece) =>
        parser.push(piece),
      );
      if (JSON.stringify(frames) !== JSON.stringify(FRAMES)) expect(frames, `cut at ${one} and ${two}`).toEqual(FRAMES);
    }
  }
});

test('frames are the same byte by byte', () => {
  const parser = new SseParser();
  expect([...bytes].flatMap((byte) => parser.push(Uint8Array.of(byte)))).toEqual(FRAMES);
});

test('a frame that is not finished is not handed out', () => {
  const parser = new SseParser();
  const push = (text: string) => parser.push(new TextEncoder().encode(text));
  expect(push('id: 1\ndata: half')).toEqual([]);
  expect(push('\n')).toEqual([]);
  expect(push('\n')).toEqual([{ id: '1', data: 'half' }]);
});

test('an id with a NUL, and a retry that is no number, are passed over', () => {
  const parser = new SseParser();
  expect(parser.push(new TextEncoder().encode('id: 1\0\nretry: 1s\ndata: x\n\n'))).toEqual([{ data: 'x' }]);
  expect(parser.retryMs).toBeUndefined();
});

test('a long line in small pieces is parsed in time that grows with its length only', () => {
  const pieceBytes = new TextEncoder().encode('x'.repeat(1024));
  const parse = (pieces: number) => {
    const parser = new SseParser();
    const began = performance.now();
    parser.push(new TextEncoder().encode('data: '));
    for (let sent = 0; sent < pieces; sent++) parser.push(pieceBytes);
    const [frame] = parser.push(new TextEncoder().encode('\n\n'));
    const took = performance.now() - began;
    expect(frame?.data.length).toBe(pieces * 1024);
    return took;
  };
  const best = (pieces: number) => Math.min(...Array.from({ length: 5 }, () => parse(pieces)));
  // Sixteen times the length; the square would take 256 times as long.
  expect(best(16_000)).toBeLessThan(Math.max(best(1000), 3) * 100);
});
