import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { Client, Follower, FollowStatus } from '../src/index.js';
import { ScriptedApi } from './scripted.js';

const ID = 'c';
const EVENTS = '/api/conversations/c/events';
const message = {
  type: 'message',
  runId: 'r',
  message: { id: 'm', role: 'user', content: 'q', createdAt: '2026-01-01T00:00:00Z' },
};
const meta = { type: 'meta', runId: 'r', model: 'm', attempt: 1 };
const token = (token: string) => ({ type: 'token', runId: 'r', token });
const snapshot = (through: number, text = '') => ({
  type: 'snapshot',
  through,
  messages: [],
  turn: { runId: 'r', meta, text, toolCalls: [] },
});

let api: ScriptedApi;
let client: Client;
beforeEach(() => {
  api = new ScriptedApi();
  client = api.client();
});
afterEach(() => {
  client.close();
  vi.unstubAllGlobals();
});

const text = (follower: Follower) => follower.transcript.turn('r')?.text;
const shows = (follower: Follower, wanted: string) => expect.poll(() => text(follower), { interval: 2 }).toBe(wanted);
/** The next request for events; answers what a snapshot makes it ask beside. */
async function dialled() {
  for (;;) {
    const asked = await api.next();
    if (!asked.path.startsWith('/api/runs/r?') && asked.path !== '/api/runs/r') return asked;
    asked.json(404, {});
  }
}

test('it joins with a snapshot, goes on behind it, and connects again with its cursor', async () => {
  const follower = client.follow(ID);
  const first = await dialled();
  expect(first.path).toBe(`${EVENTS}?from=snapshot`);
  expect(first.headers.get('authorization')).toBe('Bearer key');
  expect(first.headers.has('last-event-id')).toBe(false);
  first.stream().event(7, snapshot(7, 'Hel')).event(8, token('lo'));
  await shows(follower, 'Hello');
  expect(follower.status).toBe('live');
  first.bytes('id: 9\ndata: {"type":"token","runId":"r","tok').cut();
  const second = await dialled();
  expect(second.path).toBe(EVENTS);
  expect(second.headers.get('last-event-id')).toBe('8');
  second.stream().event(8, token('lo')).event(9, token(' wor')).event(9, token(' wor')).event(10, token('ld'));
  await shows(follower, 'Hello world');
});

test('one that begins with what is new misses nothing of what happens while it is disconnected', async () => {
  const follower = client.follow(ID, { from: 'now' });
  const first = await dialled();
  expect(first.path).toBe(`${EVENTS}?after=now`);
  first.stream().event(undefined, { type: 'caught_up', through: 7 });
  await expect.poll(() => follower.status, { interval: 2 }).toBe('live');
  first.cut();
  const second = await dialled();
  expect(second.path).toBe(EVENTS);
  expect(second.headers.get('last-event-id')).toBe('7');
  second.stream().event(8, message).event(9, meta).event(10, token('Hello'));
  await shows(follower, 'Hello');
});

test('a hole in a conversation’s numbers, and bytes that are no event, mean to connect again', async () => {
  const follower = client.follow(ID);
  (await dialled()).stream().event(2, snapshot(2, 'a')).event(4, token('c'));
  const second = await dialled();
  expect(second.path).toBe(`${EVENTS}?from=snapshot`);
  second.stream().event(4, snapshot(4, 'abc')).bytes('id: 5\ndata: {"type"\n\n');
  const third = await dialled();
  expect(third.headers.get('last-event-id')).toBe('4');
  third.stream().event(5, token('d'));
  await shows(follower, 'abcd');
});

test('a reset of what the snapshot holds brings a new snapshot at once', async () => {
  const follower = client.follow(ID);
  (await dialled())
    .stream()
    .event(5, snapshot(5, 'void'))
    .event(6, { type: 'reset', runId: 'r', discardAfter: 2, attempt: 2, reason: 'x' });
  const second = await dialled();
  expect(second.path).toBe(`${EVENTS}?from=snapshot`);
  second.stream().event(6, snapshot(6, '')).event(7, token('new'));
  await shows(follower, 'new');
  expect(follower.transcript.turn('r')!.notices).toMatchObject([{ kind: 'resumed' }]);
});

test('a cursor that retention has overtaken joins by a snapshot, and says so', async () => {
  const follower = client.follow(ID, { from: 3 });
  const first = await dialled();
  expect(first.headers.get('last-event-id')).toBe('3');
  first.json(410, { code: 'cursor_gone', detail: 'gone', oldest: 90 });
  const second = await dialled();
  expect(second.path).toBe(`${EVENTS}?from=snapshot`);
  second.stream().event(100, snapshot(100, 'later'));
  await shows(follower, 'later');
  expect(follower.transcript.getSnapshot().notices).toMatchObject([{ kind: 'rejoined' }]);
});

test('a cursor of another history discards what was shown, with a notice', async () => {
  const follower = client.follow(ID);
  const first = await dialled();
  first.stream({ 'x-log-epoch': 'one' }).event(7, snapshot(7, 'Hel')).event(8, token('lo'));
  await shows(follower, 'Hello');
  first.cut();
  const second = await dialled();
  expect(second.path).toBe(`${EVENTS}?epoch=one`);
  expect(second.headers.get('last-event-id')).toBe('8');
  second.json(400, { code: 'cursor_rewound', detail: 'another history', lastSeq: 9 });
  const third = await dialled();
  expect(third.path).toBe(`${EVENTS}?from=snapshot`);
  third.stream({ 'x-log-epoch': 'two' }).event(9, snapshot(9, 'kept'));
  await shows(follower, 'kept');
  expect(follower.transcript.getSnapshot().notices).toMatchObject([{ kind: 'rewound' }]);
  third.cut();
  expect((await dialled()).path).toBe(`${EVENTS}?epoch=two`);
});

test('a server that leaves it no way to join is not asked without a pause', async () => {
  client.follow(ID, { from: 3 });
  const answering = setInterval(() => {
    for (const asked of api.asked) asked.json(410, { code: 'cursor_gone', detail: 'gone' });
  }, 1);
  await new Promise((resolve) => setTimeout(resolve, 400));
  clearInterval(answering);
  // The second at once, then after pauses that grow.
  expect(api.asked.length).toBeGreaterThan(1);
  expect(api.asked.length).toBeLessThan(20);
});

test('while it waits to connect again it is connecting', async () => {
  const statuses: FollowStatus[] = [];
  client.follow(ID, { onStatus: (status) => statuses.push(status) });
  (await dialled()).stream().bytes('retry: 8000\n\n').event(1, snapshot(1, 'x')).end();
  await expect.poll(() => statuses, { interval: 1, timeout: 300 }).toEqual(['live', 'connecting']);
});

test.each([401, 403, 404, 400])('%i ends it with an error, for all who wait', async (status) => {
  const statuses: FollowStatus[] = [];
  const follower = client.follow(ID, { onStatus: (status) => statuses.push(status) });
  const turn = follower.turn('r');
  turn.catch(() => {});
  (await dialled()).json(status, { code: 'no', detail: 'No.' });
  await expect(turn).rejects.toMatchObject({
    name: 'RejoinError',
    status,
    code: 'no',
    detail: 'No.',
    message: `No. (${status} no)`,
  });
  expect(statuses).toEqual(['ended']);
  expect(follower.error?.status).toBe(status);
  // Following again tries again.
  expect(client.follow(ID).status).toBe('connecting');
});

test.each([429, 500, 502, 503])('%i is tried again, not before the server wants it', async (status) => {
  client.follow(ID);
  const began = Date.now();
  (await dialled()).json(status, {}, { 'retry-after': '1' });
  await dialled();
  expect(Date.now() - began).toBeGreaterThanOrEqual(990);
});

test('an answer that is no stream of events is not taken for one', async () => {
  const statuses: FollowStatus[] = [];
  const follower = client.follow(ID, { onStatus: (status) => statuses.push(status) });
  (await dialled()).json(200, { hello: 'from a proxy' });
  (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(follower, 'x');
  expect(statuses).toEqual(['live']);
});

test('a connection that is silent for two and a half heartbeats is given up', async () => {
  client.close();
  client = api.client({ heartbeatMs: 40 });
  const follower = client.follow(ID);
  const first = (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(follower, 'x');
  const began = performance.now();
  const beating = setInterval(() => first.bytes(':hb\n\n'), 40);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(first.aborted).toBe(false);
  clearInterval(beating);
  await expect.poll(() => first.aborted, { interval: 2 }).toBe(true);
  expect(performance.now() - began).toBeGreaterThanOrEqual(300);
  expect((await dialled()).headers.get('last-event-id')).toBe('1');
});

test('an outage is reported, once it is over', async () => {
  const follower = client.follow(ID);
  (await dialled()).stream().event(1, snapshot(1, 'x')).cut();
  (await dialled()).fail();
  const third = await dialled();
  await new Promise((resolve) => setTimeout(resolve, 1100));
  third.stream();
  await expect.poll(() => follower.transcript.getSnapshot().notices).toMatchObject([{ kind: 'reconnected' }]);
  const { text, outageMs } = follower.transcript.getSnapshot().notices[0]!;
  expect(text).toBe(`reconnected after ${Math.round(outageMs! / 1000)} s`);
});

test('followers of a conversation share a connection, which ends with the last of them', async () => {
  const one = client.follow(ID);
  const two = client.follow(ID);
  const only = (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(two, 'x');
  expect(one.transcript).toBe(two.transcript);
  one.close();
  one.close();
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(only.aborted).toBe(false);
  two.close();
  // A follower that returns at once finds it still open.
  const three = client.follow(ID);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(only.aborted).toBe(false);
  expect(three.transcript).toBe(one.transcript);
  three.close();
  await expect.poll(() => only.aborted, { interval: 2 }).toBe(true);
  expect(api.asked.filter((asked) => asked.path.startsWith(EVENTS))).toHaveLength(1);
});

test('who follows a run from its beginning, and comes late, gets all of its events', async () => {
  const had: (number | undefined)[] = [];
  const one = client.follow({ runId: 'r' }, { onEvent: (_, seq) => had.push(seq) });
  (await api.next()).stream().event(10, message).event(12, meta);
  await expect.poll(() => had).toEqual([10, 12]);
  const late: (number | undefined)[] = [];
  const two = client.follow({ runId: 'r' }, { onEvent: (_, seq) => late.push(seq) });
  (await api.next()).stream().event(10, message).event(12, meta);
  await expect.poll(() => late).toEqual([10, 12]);
  expect(had).toEqual([10, 12]);
  one.close();
  two.close();
});

test('a run ends with the answer that says so', async () => {
  const follower = client.follow({ runId: 'r' });
  const first = await api.next();
  expect(first.path).toBe('/api/runs/r/events');
  first
    .stream()
    .event(10, message)
    .event(12, meta)
    .event(17, token('x'))
    .event(20, { type: 'done', runId: 'r', status: 'completed' })
    .end();
  const second = await api.next();
  expect(second.headers.get('last-event-id')).toBe('20');
  second.json(204, undefined);
  await expect.poll(() => follower.status).toBe('ended');
  expect(follower.error).toBeUndefined();
  expect(await follower.turn('r')).toMatchObject({ status: 'completed', text: 'x' });
});

test('a listener that throws harms no other', async () => {
  const caught: unknown[] = [];
  const hook = (error: unknown) => void caught.push(error);
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', hook);
  try {
    client.follow(ID, {
      onEvent: () => {
        throw new Error('mine');
      },
    });
    const follower = client.follow(ID);
    (await dialled()).stream().event(1, snapshot(1, 'x')).event(2, token('y'));
    await shows(follower, 'xy');
    expect(caught).toHaveLength(2);
  } finally {
    process.off('uncaughtException', hook);
    for (const listener of before) process.on('uncaughtException', listener);
  }
});

/** What a page has around it. */
function page() {
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const window = new EventTarget();
  const navigator = { onLine: true };
  vi.stubGlobal('document', document);
  vi.stubGlobal('window', window);
  vi.stubGlobal('navigator', navigator);
  return {
    see: (visible: boolean) => {
      document.visibilityState = visible ? 'visible' : 'hidden';
      document.dispatchEvent(new Event('visibilitychange'));
    },
    online: (online: boolean) => {
      navigator.onLine = online;
      window.dispatchEvent(new Event(online ? 'online' : 'offline'));
    },
  };
}

test('a page that is hidden for long pauses, and goes on from its cursor when it is seen', async () => {
  const { see } = page();
  client.close();
  client = api.client({ hiddenMs: 60 });
  const statuses: FollowStatus[] = [];
  const follower = client.follow(ID, { onStatus: (status) => statuses.push(status) });
  const first = (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(follower, 'x');
  see(false);
  see(true);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(first.aborted).toBe(false);
  see(false);
  await expect.poll(() => follower.status, { interval: 2 }).toBe('paused');
  expect(first.aborted).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(api.asked.filter((asked) => asked.path.startsWith(EVENTS))).toHaveLength(1);
  const began = performance.now();
  see(true);
  const second = await dialled();
  expect(performance.now() - began).toBeLessThan(200);
  expect(second.headers.get('last-event-id')).toBe('1');
  second.stream().event(2, token('y'));
  await shows(follower, 'xy');
  expect(statuses).toEqual(['live', 'paused', 'connecting', 'live']);
  // The page was hidden: nothing was missed.
  expect(follower.transcript.getSnapshot().notices).toEqual([]);
});

test('without a network it waits for one, and connects at once when it is back', async () => {
  const { online } = page();
  const follower = client.follow(ID);
  const first = (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(follower, 'x');
  online(false);
  await expect.poll(() => follower.status, { interval: 2 }).toBe('offline');
  expect(first.aborted).toBe(true);
  const began = performance.now();
  online(true);
  const second = await dialled();
  expect(performance.now() - began).toBeLessThan(200);
  second.stream();
  await expect.poll(() => follower.status, { interval: 2 }).toBe('live');
});

test('a pause between two tries ends when the page is seen again', async () => {
  const { see } = page();
  const follower = client.follow(ID);
  (await dialled()).json(503, {}, { 'retry-after': '30' });
  await expect.poll(() => api.waiting).toBe(0);
  see(false);
  see(true);
  (await dialled()).stream().event(1, snapshot(1, 'x'));
  await shows(follower, 'x');
});

test('a turn that ended before is completed on demand, once, and left as it is where its events are gone', async () => {
  const ended = (runId: string) => ({
    id: `a${runId}`,
    role: 'assistant',
    content: 'Done.',
    createdAt: '2026-01-01T00:00:00Z',
    retrievalContext: { agent_run_id: runId },
  });
  const follower = client.follow(ID);
  (await dialled()).stream().event(9, { ...snapshot(9), messages: [ended('x'), ended('y')], turn: null });
  await expect.poll(() => follower.transcript.turn('x')?.partial).toBe(true);
  const all = Promise.all([follower.complete('x'), follower.complete('x'), follower.complete('y')]);
  const first = await dialled();
  expect(first.path).toBe('/api/runs/x/events');
  first
    .stream()
    .event(1, { ...meta, runId: 'x' })
    .event(2, { type: 'mcp_tool', runId: 'x', callId: 'k', tool: 'look', status: 'completed' })
    .event(3, { ...token('Done.'), runId: 'x' })
    .event(4, { type: 'message', runId: 'x', message: ended('x') })
    .event(5, { type: 'done', runId: 'x', status: 'completed' })
    .end();
  const second = await dialled();
  expect(second.path).toBe('/api/runs/y/events');
  second.json(410, { code: 'cursor_too_old' });
  await all;
  expect(follower.transcript.turn('x')!.parts.map((part) => part.type)).toEqual(['tool', 'text']);
  expect(follower.transcript.turn('y')).toMatchObject({ partial: true, text: 'Done.' });
});
