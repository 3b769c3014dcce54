// The AI SDK's page "Chatbot Resume Streams" on node:http: POST /api/chat, GET /api/chat/ID/stream, POST /api/chat/ID/stop, GET /api/chat/ID.
// Storage of chats and the stop endpoint are left to applications: here Redis, and an AbortController in the one process.
// In the environment: REDIS_URL, MODEL_URL, EFFECT_URL. Argument: the port.
import http from 'node:http';
import process from 'node:process';
import { Readable } from 'node:stream';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { convertToModelMessages, createUIMessageStreamResponse, generateId, jsonSchema, streamText, tool, toUIMessageStream, UI_MESSAGE_STREAM_HEADERS } from 'ai';
import { createClient } from 'redis';
import { createResumableStreamContext } from 'resumable-stream';

async function connected() {
  const client = createClient({ url: process.env.REDIS_URL });
  // Without a listener, a lost connection ends the process.
  client.on('error', (error) => console.error('redis', error.message));
  await client.connect();
  return client;
}

const chats = await connected();
const streams = createResumableStreamContext({
  waitUntil: (work) => void Promise.resolve(work).catch((error) => console.error(error.message)),
  publisher: await connected(),
  subscriber: await connected(),
});
const model = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL, apiKey: 'scripted' })('scripted');
const tools = {
  record: tool({
    description: "Records an effect that can't be undone.",
    inputSchema: jsonSchema({ type: 'object', properties: { call: { type: 'string' } }, required: ['call'] }),
    execute: async ({ call }) => {
      const body = JSON.stringify({ call });
      const response = await fetch(process.env.EFFECT_URL, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      return response.json();
    },
  }),
};
const active = new Map();
for (const name of ['unhandledRejection', 'uncaughtException']) process.on(name, (error) => console.error(name, error?.message));

async function load(id) {
  const fields = await chats.hGetAll(`chat:${id}`);
  return { messages: JSON.parse(fields.messages ?? '[]'), activeStreamId: JSON.parse(fields.activeStreamId ?? 'null') };
}

// Fields are stored one by one: the end of a short turn is saved while its stream is.
async function save(id, changes) {
  const fields = Object.entries(changes).map(([name, value]) => [name, JSON.stringify(value)]);
  await chats.hSet(`chat:${id}`, Object.fromEntries(fields));
}

async function post({ id, message }) {
  const messages = [...(await load(id)).messages, message];
  await save(id, { messages, activeStreamId: null });
  const abort = new AbortController();
  let hasEnded = false;
  const result = streamText({
    model,
    tools,
    stopWhen: ({ steps }) => steps.length >= 5,
    messages: await convertToModelMessages(messages),
    abortSignal: abort.signal,
  });
  const stream = toUIMessageStream({
    stream: result.stream,
    originalMessages: messages,
    generateMessageId: generateId,
    onEnd: ({ messages }) => {
      hasEnded = true;
      return save(id, { messages, activeStreamId: null });
    },
  });
  return createUIMessageStreamResponse({
    stream,
    async consumeSseStream({ stream }) {
      const activeStreamId = generateId();
      active.set(activeStreamId, abort);
      await streams.createNewResumableStream(activeStreamId, () => stream);
      if (!hasEnded) await save(id, { activeStreamId });
    },
  });
}

async function resume(id) {
  const { activeStreamId } = await load(id);
  if (activeStreamId == null) return new Response(null, { status: 204 });
  return new Response(await streams.resumeExistingStream(activeStreamId), { headers: UI_MESSAGE_STREAM_HEADERS });
}

async function stop(id) {
  const { activeStreamId } = await load(id);
  if (activeStreamId != null) {
    active.get(activeStreamId)?.abort();
    await save(id, { activeStreamId: null });
  }
  return Response.json({});
}

async function answer(request) {
  const [, , , id, verb] = request.url.split('/');
  if (request.method === 'POST' && verb === 'stop') return stop(id);
  if (request.method === 'POST') {
    let text = '';
    for await (const chunk of request) text += chunk;
    return post(JSON.parse(text));
  }
  if (verb === 'stream') return resume(id);
  return Response.json(id ? await load(id) : {});
}

const server = http.createServer(async (request, response) => {
  try {
    const answered = await answer(request);
    response.writeHead(answered.status, Object.fromEntries(answered.headers));
    if (answered.body) Readable.fromWeb(answered.body).on('error', () => response.destroy()).pipe(response);
    else response.end();
  } catch (error) {
    console.error(error.message);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  }
});
server.listen(Number(process.argv[2]), '127.0.0.1');
