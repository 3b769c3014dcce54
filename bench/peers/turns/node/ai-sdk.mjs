// AI SDK with resumable-stream: a chat endpoint as their documentation describes it, without a web framework. Chats and streams are in Redis.
// In the environment: REDIS_SOCKET, MODEL_URL. Argument: the port.
import http from 'node:http';
import { Readable } from 'node:stream';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { convertToModelMessages, createUIMessageStreamResponse, generateId, streamText, toUIMessageStream } from 'ai';
import { createClient } from 'redis';
import { createResumableStreamContext } from 'resumable-stream';

async function connected() {
  const client = createClient({ socket: { path: process.env.REDIS_SOCKET } });
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
const provider = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL, apiKey: 'scripted' });

async function load(id) {
  return JSON.parse((await chats.get(`chat:${id}`)) ?? '{"messages":[]}');
}

async function save(id, changes) {
  await chats.set(`chat:${id}`, JSON.stringify({ ...(await load(id)), ...changes }));
}

async function post(body) {
  const { id, message } = body;
  const messages = [...(await load(id)).messages, message];
  await save(id, { messages, activeStreamId: null });
  const result = streamText({ model: provider('scripted'), messages: await convertToModelMessages(messages) });
  const stream = toUIMessageStream({
    stream: result.stream,
    originalMessages: messages,
    generateMessageId: generateId,
    onEnd: ({ messages }) => save(id, { messages, activeStreamId: null }),
  });
  return createUIMessageStreamResponse({
    stream,
    async consumeSseStream({ stream }) {
      const activeStreamId = generateId();
      await streams.createNewResumableStream(activeStreamId, () => stream);
      await save(id, { activeStreamId });
    },
  });
}

const server = http.createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.end('ready');
    return;
  }
  try {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { id, message } = JSON.parse(text);
    const parts = [{ type: 'text', text: message }];
    const answer = await post({ id, message: { id: generateId(), role: 'user', parts } });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    Readable.fromWeb(answer.body).pipe(response);
  } catch (error) {
    console.error(error);
    response.writeHead(500).end();
  }
});
server.listen(Number(process.argv[2]), '127.0.0.1');
