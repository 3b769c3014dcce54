import { afterEach, expect, test, vi } from 'vitest';

import { createClient } from '../src/index.js';
import { ScriptedApi } from './scripted.js';

afterEach(() => vi.unstubAllGlobals());

test('a message carries the same key and body until it is known to be stored', async () => {
  const api = new ScriptedApi();
  const sent = api.client({ projectId: 'p' }).send({ message: 'hi', conversationId: 'c', onBusy: 'reject' });
  const first = await api.next();
  expect([first.method, first.path, first.body]).toEqual([
    'POST',
    '/api/chat/stream?onBusy=reject',
    { message: 'hi', conversationId: 'c' },
  ]);
  expect(first.headers.get('accept')).toBe('application/json');
  expect(first.headers.get('x-project-id')).toBe('p');
  const key = first.headers.get('idempotency-key');
  expect(key).toMatch(/^[0-9a-f]{32}$/);
  first.fail();
  for (const status of [502, 503, 429]) {
    const again = await api.next();
    expect([again.headers.get('idempotency-key'), again.body]).toEqual([key, first.body]);
    again.json(status, { code: 'later' }, { 'retry-after': '0' });
  }
  const last = await api.next();
  expect(last.headers.get('idempotency-key')).toBe(key);
  last.json(202, { conversationId: 'c', messageId: 'm', runId: 'r', cursor: 4 });
  expect(await sent).toEqual({ conversationId: 'c', messageId: 'm', runId: 'r', cursor: 4 });
});

test('two messages have two keys, unless they are given one', async () => {
  const api = new ScriptedApi();
  const client = api.client();
  for (const idempotencyKey of [undefined, undefined, 'mine'])
    void client.send({ message: 'hi', ...(idempotencyKey && { idempotencyKey }) });
  const keys = [await api.next(), await api.next(), await api.next()].map((asked) =>
    asked.headers.get('idempotency-key'),
  );
  expect(new Set(keys).size).toBe(3);
  expect(keys[2]).toBe('mine');
});

test('what the API refuses for good is not sent again', async () => {
  const api = new ScriptedApi();
  for (const status of [400, 401, 409, 422, 500]) {
    const sent = api.client().send({ message: 'hi' });
    (await api.next()).json(status, { code: 'no', detail: 'No.', title: 'Not so', extra: 1 }, { 'retry-after': '7' });
    await expect(sent).rejects.toMatchObject({
      name: 'RejoinError',
      status,
      code: 'no',
      detail: 'No.',
      retryAfter: 7,
      problem: { extra: 1 },
    });
  }
  expect(api.waiting).toBe(0);
});

test('a wait that is longer than the limit is an error at once', async () => {
  const api = new ScriptedApi();
  const sent = api.client().send({ message: 'hi' });
  (await api.next()).json(429, { code: 'quota_exhausted', detail: 'Tomorrow.' }, { 'retry-after': '40000' });
  await expect(sent).rejects.toMatchObject({ code: 'quota_exhausted', retryAfter: 40_000 });
});

test('an aborted message is not sent again', async () => {
  const api = new ScriptedApi();
  const abort = new AbortController();
  const sent = api.client().send({ message: 'hi', signal: abort.signal });
  const first = await api.next();
  abort.abort(new Error('changed my mind'));
  await expect(sent).rejects.toThrow('changed my mind');
  expect(first.aborted).toBe(true);
  await expect(api.client().send({ message: 'hi', signal: abort.signal })).rejects.toThrow('changed my mind');
  expect(api.asked).toHaveLength(1);
});

test('in a page without a key it shows the session’s cookie, to the page’s own server', async () => {
  const api = new ScriptedApi();
  vi.stubGlobal('location', { origin: 'https://chat.example' });
  vi.stubGlobal('fetch', api.fetch);
  void createClient().conversations.list({ limit: 5 });
  const asked = await api.next();
  expect(asked.path).toBe('/api/conversations?limit=5');
  expect(asked.init.credentials).toBe('same-origin');
  expect(asked.headers.has('authorization')).toBe(false);
});

test('outside of a page it needs a url', () => {
  expect(() => createClient()).toThrow('needs a url');
});

test('a key may be requested for each request', async () => {
  const api = new ScriptedApi();
  let count = 0;
  const client = api.client({ apiKey: async () => `token ${++count}` });
  void client.conversations.list().catch(() => {});
  void client.conversations.list().catch(() => {});
  const keys = [await api.next(), await api.next()].map((asked) => asked.headers.get('authorization'));
  expect(keys).toEqual(['Bearer token 1', 'Bearer token 2']);
});

test('each call is the request that the wire names', async () => {
  const api = new ScriptedApi();
  const client = api.client({ url: 'http://api.test/' });
  const calls: [() => Promise<unknown>, string, unknown?][] = [
    [() => client.cancel('r'), 'POST /api/runs/r/cancel'],
    [() => client.tell('r', 'x'), 'POST /api/runs/r/messages', { message: 'x' }],
    [() => client.answer('q', ['a']), 'POST /api/questions/q/answer', { answer: ['a'] }],
    [() => client.answer('q', 'edit', { n: 1 }), 'POST /api/questions/q/answer', { answer: 'edit', input: { n: 1 } }],
    [() => client.resume('r'), 'POST /api/runs/r/resume', {}],
    [() => client.resume('r', 'x'), 'POST /api/runs/r/resume', { message: 'x' }],
    [() => client.fork('r', { step: 2, message: 'x' }), 'POST /api/runs/r/fork', { step: 2, message: 'x' }],
    [() => client.runs.get('r'), 'GET /api/runs/r'],
    [() => client.questions.list({ status: 'pending' }), 'GET /api/questions?status=pending'],
    [() => client.conversations.get('a/b'), 'GET /api/conversations/a%2Fb'],
    [() => client.conversations.create({ title: 't' }), 'POST /api/conversations', { title: 't' }],
    [() => client.conversations.rename('c', 't'), 'PATCH /api/conversations/c', { title: 't' }],
    [() => client.conversations.delete('c'), 'DELETE /api/conversations/c'],
    [
      () => client.conversations.messages('c', { cursor: 'x&y', limit: 2 }),
      'GET /api/conversations/c/messages?cursor=x%26y&limit=2',
    ],
    [() => client.request('PUT', '/api/x', [1]), 'PUT /api/x', [1]],
  ];
  for (const [call, wanted, body] of calls) {
    const answered = call();
    const asked = await api.next();
    expect([`${asked.method} ${asked.path}`, asked.body]).toEqual([wanted, body]);
    asked.json(200, { ok: 1 });
    expect(await answered).toEqual({ ok: 1 });
  }
  const agents = client.agents.list();
  const asked = await api.next();
  expect(asked.path).toBe('/api/me');
  asked.json(200, { projectId: 'p' });
  const listed = await api.next();
  expect(listed.path).toBe('/api/projects/p/agents');
  listed.json(200, { items: [{ id: 'a', name: 'n', description: 'd' }], nextCursor: null });
  expect((await agents).items.map(({ name }) => name)).toEqual(['n']);
});

test('a chat is made ready before its first message', async () => {
  const api = new ScriptedApi();
  const client = api.client();
  const focus = { projectId: 'w', projectName: 'Apollo', focusType: 'task', focusEntityId: 't' };
  const answer = { warmed: true, session: { id: 'c' }, created: true, keptS: 300 };
  const made = client.prewarm({ contextType: 'project', projectFocus: focus, agentDefinitionId: 'a' });
  const first = await api.next();
  expect([first.method, first.path, first.body]).toEqual([
    'POST',
    '/api/agent/prewarm',
    { contextType: 'project', projectFocus: focus, agentDefinitionId: 'a' },
  ]);
  first.json(200, answer);
  expect(await made).toEqual(answer);
  void client.prewarm({ conversationId: 'c' });
  expect((await api.next()).body).toEqual({ sessionId: 'c' });
});
