// Restate: a workflow whose model call is one durable step. The step publishes each token to the pub/sub object that Restate's documentation proposes for
// streams; beside it, the endpoint that reads from there. In the environment: RESTATE_INGRESS, MODEL_URL. Arguments: the port, the service's port.
import http from 'node:http';
import { Readable } from 'node:stream';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { createPubsubObject } from '@restatedev/pubsub';
import { createPubsubClient } from '@restatedev/pubsub-client';
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';
import { streamText } from 'ai';

const [port, servicePort] = process.argv.slice(2).map(Number);
const url = process.env.RESTATE_INGRESS;
const provider = createOpenAICompatible({ name: 'scripted', baseURL: process.env.MODEL_URL, apiKey: 'scripted' });
const tokens = createPubsubClient({ url, name: 'pubsub' });

const turn = restate.workflow({
  name: 'Turn',
  handlers: {
    run: async (ctx, { message }) => {
      // The same in each attempt: a token that is published again is dropped.
      const id = ctx.rand.uuidv4();
      const answer = await ctx.run('model', async () => {
        const { textStream } = streamText({ model: provider('scripted'), prompt: message });
        let text = '';
        let nth = 0;
        for await (const token of textStream) {
          text += token;
          await tokens.publish(ctx.key, { token }, `${id}-${nth++}`);
        }
        return text;
      });
      await tokens.publish(ctx.key, { done: true }, `${id}-done`);
      return answer;
    },
  },
});
restate.serve({ services: [turn, createPubsubObject('pubsub', {})], port: servicePort });
const ingress = clients.connect({ url });

async function stream(topic, response) {
  const reading = new AbortController();
  response.on('close', () => reading.abort());
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const events = Readable.fromWeb(tokens.sse({ topic, offset: 0, signal: reading.signal }));
  for await (const event of events) {
    response.write(event);
    if (Buffer.from(event).includes('"done":true')) break;
  }
  response.end();
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
    await ingress.workflowClient(turn, id).workflowSubmit({ message });
    await stream(id, response);
  } catch (error) {
    console.error(error.message);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  }
});
server.listen(port, '127.0.0.1');
