// @vitest-environment happy-dom
import { act, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { renderToString } from 'react-dom/server';
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { Client } from '../src/index.js';
import type { ConversationState } from '../src/react.js';
import { useConversation } from '../src/react.js';
import { ScriptedApi } from './scripted.js';

const meta = { type: 'meta', runId: 'r', model: 'm', attempt: 1 };
const snapshot = { type: 'snapshot', through: 3, messages: [], turn: { runId: 'r', meta, text: 'Hel', toolCalls: [] } };
const EVENTS = '/api/conversations/c/events';

let api: ScriptedApi;
let client: Client;
let root: ReturnType<typeof createRoot>;
let shown: ConversationState;

beforeEach(() => {
  (globalThis as Record<string, unknown>).IS_REACT_ACT_ENVIRONMENT = true;
  api = new ScriptedApi();
  client = api.client();
  root = createRoot(document.createElement('div'));
});
afterEach(() => {
  act(() => root.unmount());
  client.close();
});

function Chat({ id, client: of }: { id?: string; client: Client }) {
  shown = useConversation(of, id);
  return <p>{shown.transcript.turns.map((turn) => turn.text)}</p>;
}
const render = (id?: string) =>
  act(() =>
    root.render(
      <StrictMode>
        <Chat client={client} {...(id && { id })} />
      </StrictMode>,
    ),
  );
const settles = (check: () => void) =>
  act(async () => {
    await expect
      .poll(
        () => {
          try {
            check();
            return true;
          } catch {
            return false;
          }
        },
        { interval: 5 },
      )
      .toBe(true);
  });
const next = async () => {
  let asked = await api.next();
  while (asked.path === '/api/runs/r') asked = await api.next();
  return asked;
};

test('a component shows a conversation while it grows, over one connection, and leaves it when it goes', async () => {
  render('c');
  expect(shown).toMatchObject({ status: 'connecting', conversationId: 'c', transcript: { turns: [] } });
  const stream = (await next()).stream().event(3, snapshot).event(4, { type: 'token', runId: 'r', token: 'lo' });
  await settles(() => expect(shown.transcript.turns[0]!.text).toBe('Hello'));
  expect(shown.status).toBe('live');
  expect(shown.transcript.active!.runId).toBe('r');
  let cancelled!: Promise<void>;
  act(() => {
    cancelled = shown.cancel();
  });
  const cancel = await next();
  expect(cancel.path).toBe('/api/runs/r/cancel');
  cancel.json(202, { runId: 'r', state: 'cancelled' });
  await cancelled;
  stream.event(5, { type: 'done', runId: 'r', status: 'cancelled' });
  await settles(() => expect(shown.transcript.active).toBeUndefined());
  expect(api.asked.filter((asked) => asked.path.startsWith(EVENTS))).toHaveLength(1);
  act(() => root.render(null));
  await expect.poll(() => stream.aborted).toBe(true);
});

test('without an id the first message begins a conversation, which is followed from then on', async () => {
  render();
  expect(api.asked).toHaveLength(0);
  let sent!: Promise<unknown>;
  act(() => {
    sent = shown.send('hi', { agentDefinitionId: 'a' });
  });
  const post = await next();
  expect(post.body).toEqual({ message: 'hi', agentDefinitionId: 'a' });
  await act(async () => {
    post.json(202, { conversationId: 'c', messageId: 'm', runId: 'r', cursor: 0 });
    await sent;
  });
  expect(shown.conversationId).toBe('c');
  (await next()).stream().event(3, snapshot);
  await settles(() => expect(shown.transcript.turns[0]!.text).toBe('Hel'));
  act(() => {
    sent = shown.send('again');
  });
  const second = await next();
  expect(second.body).toEqual({ message: 'again', conversationId: 'c' });
  second.json(409, { code: 'busy', detail: 'Busy.' });
  await expect(sent).rejects.toMatchObject({ status: 409 });
});

test('an end has its error', async () => {
  render('c');
  (await next()).json(404, { code: 'conversation_not_found', detail: 'It was not found' });
  await settles(() => expect(shown.status).toBe('ended'));
  expect(shown.error).toMatchObject({ status: 404 });
});

test('on a server it renders without asking anybody', () => {
  expect(renderToString(<Chat client={client} id="c" />)).toBe('<p></p>');
  expect(api.asked).toHaveLength(0);
});
