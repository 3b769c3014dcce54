// A conversation by the client that `@hey-api/openapi-ts` has generated beside this file. Its argument: {url, key, message}. Prints
// {text, messages, conversations} as JSON.
import { chatPostMessage, conversationsList, conversationsListMessages } from './generated';
import { createClient, createConfig } from './generated/client';
import type { StreamEvent } from './generated';

const { url, key, message } = JSON.parse(process.argv[2] ?? '{}') as { url: string; key: string; message: string };
const client = createClient(createConfig({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } }));

/** What an event adds to the answer. The compiler knows each type's fields by its `type`. */
function added(event: StreamEvent): string {
  return event.type === 'token' ? event.token : '';
}

let text = '';
let conversationId = '';
const { stream } = await chatPostMessage({ client, body: { message } });
for await (const event of stream as AsyncGenerator<StreamEvent>) {
  text += added(event);
  if (event.type === 'meta') conversationId = event.conversationId ?? '';
  if (event.type === 'done') break;
}

const read = await conversationsListMessages({ client, path: { id: conversationId }, throwOnError: true });
const listed = await conversationsList({ client, throwOnError: true });
const messages = read.data.items.map(({ role, content }) => [role, content]);
const conversations = listed.data.items.map(({ id }) => id === conversationId);
console.log(JSON.stringify({ text, messages, conversations }));
