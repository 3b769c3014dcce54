// Restate: a workflow whose model calls are durable steps. They publish each word to the pub/sub object of docs.restate.dev/ai/patterns/streaming-responses;
// beside it the endpoint of that page. In the environment: RESTATE_INGRESS, RESTATE_ADMIN, MODEL_URL, EFFECT_URL. Arguments: the port, the service's port.
import http from 'node:http';
import process from 'node:process';
import { Readable } from 'node:stream';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createPubsubObject } from '@restatedev/pubsub';
import { createPubsubClient } from '@restatedev/pubsub-client';
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import { jsonSchema, streamText, tool } from 'ai';

const [port, servicePort] = process.argv.slice(2).map(Number);
const url = process.env.RESTATE_INGRESS;
const model = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL, apiKey: 'scripted' })('scripted');
const words = createPubsubClient({ url, name: 'pubsub' });
// Without `execute`: the workflow executes the calls, as durable steps.
const inputSchema = jsonSchema({ type: 'object', properties: { call: { type: 'string' } }, required: ['call'] });
const tools = { record: tool({ description: "Records an effect that can't be undone.", inputSchema }) };

async function record(call) {
  const body = JSON.stringify({ call });
  const response = await fetch(process.env.EFFECT_URL, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return response.text();
}

const turn = restate.workflow({
  name: 'Turn',
  handlers: {
    run: async (ctx, { message }) => {
      const messages = [{ role: 'user', content: message }];
      let whole = '';
      for (let step = 0; ; step += 1) {
        // The same in each attempt: a word that is published again with its number is dropped.
        const id = ctx.rand.uuidv4();
        const answer = await ctx.run(`model ${step}`, async () => {
          const stop = new AbortController();
          ctx.request().attemptCompletedSignal.addEventListener('abort', () => stop.abort());
          const result = streamText({ model, tools, messages, abortSignal: stop.signal });
          let text = '';
          let number = 0;
          for await (const word of result.textStream) {
            text += word;
            await words.publish(ctx.key, { word }, `${id}-${number++}`);
          }
          const [call] = await result.toolCalls;
          return { text, call: call && { id: call.toolCallId, input: call.input } };
        });
        whole += answer.text;
        if (!answer.call) {
          await words.publish(ctx.key, { done: true }, `${id}-done`);
          return whole;
        }
        const value = await ctx.run(`record ${step}`, () => record(answer.call.input.call));
        const called = { toolCallId: answer.call.id, toolName: 'record' };
        const text = answer.text ? [{ type: 'text', text: answer.text }] : [];
        messages.push({ role: 'assistant', content: [...text, { type: 'tool-call', ...called, input: answer.call.input }] });
        messages.push({ role: 'tool', content: [{ type: 'tool-result', ...called, output: { type: 'text', value } }] });
      }
    },
  },
});
for (const name of ['unhandledRejection', 'uncaughtException']) process.on(name, (error) => console.error(name, error?.message));
restate.serve({ services: [turn, createPubsubObject('pubsub', {})], port: servicePort });
const ingress = clients.connect({ url });

function stream(response, topic, offset) {
  const reading = new AbortController();
  response.on('close', () => reading.abort());
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const events = words.sse({ topic, offset, signal: reading.signal });
  Readable.fromWeb(events).on('error', () => response.destroy()).pipe(response);
}

async function cancel(id) {
  const admin = process.env.RESTATE_ADMIN;
  const query = `select id from sys_invocation where target_service_name = 'Turn' and target_service_key = '${id}' and target_handler_name = 'run'`;
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const found = await fetch(`${admin}/query`, { method: 'POST', headers, body: JSON.stringify({ query }) });
  const { rows } = await found.json();
  const cancelled = await fetch(`${admin}/invocations/${rows[0].id}/cancel`, { method: 'PATCH' });
  return cancelled.status;
}

const server = http.createServer(async (request, response) => {
  try {
    const address = new URL(request.url, 'http://localhost');
    const [, , id, verb] = address.pathname.split('/');
    if (request.method === 'POST' && verb === 'cancel') {
      response.writeHead(await cancel(id)).end();
    } else if (request.method === 'POST') {
      let text = '';
      for await (const chunk of request) text += chunk;
      const { id, message } = JSON.parse(text);
      await ingress.workflowClient(turn, id).workflowSubmit({ message });
      stream(response, id, 0);
    } else if (id) {
      stream(response, id, Number(address.searchParams.get('offset') ?? 0));
    } else {
      response.end('{}');
    }
  } catch (error) {
    console.error(error.message);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  }
});
server.listen(port, '127.0.0.1');
