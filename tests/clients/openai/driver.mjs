// OpenAI's client, told by a test what to call: `node driver.mjs '{"url", "key", "call", "args"}'` prints one line of JSON, the result or the
// error. Streams are read to their end; `stopAfter`: to their nth event. With `times`, the task is repeated, and the result has them all. With
// `cutSeed`, streams end after a random number of bytes.
import { randomUUID } from 'node:crypto';
import OpenAI from 'openai';

const task = JSON.parse(process.argv[2]);

let state = Math.imul((task.cutSeed ?? 0) + 1, 2654435761) >>> 0;
/// Random numbers that the test can have again.
function random(below) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

/// Of this answer. Later ones are cut later, so that each answer ends.
let connections = 0;
async function* cut(body) {
  connections += 1;
  let left = 1 + random(1500 * connections);
  for await (const bytes of body) {
    yield bytes.slice(0, left);
    left -= bytes.length;
    if (left <= 0) return;
  }
}

async function cutting(address, init) {
  const response = await fetch(address, init);
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
  return new Response(ReadableStream.from(cut(response.body)), { status: response.status, headers: response.headers });
}

const more = task.cutSeed === undefined ? {} : { fetch: cutting };
const client = new OpenAI({ apiKey: task.key, baseURL: `${task.url}/v1`, maxRetries: 0, ...more });
const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

/// Resolves `responses.inputItems.list` to the bound method.
function method(path) {
  const names = path.split('.');
  const name = names.pop();
  const owner = names.reduce((object, step) => object[step], client);
  return owner[name].bind(owner);
}

async function eventsOf(stream, stopAfter = Infinity) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length >= stopAfter) break;
  }
  return events;
}

const tasks = {
  // Calls a method; what it returns is read whole.
  async call({ call, args, stopAfter }) {
    const result = await method(call)(...args);
    return result?.[Symbol.asyncIterator] ? { items: await eventsOf(result, stopAfter) } : result;
  },
  // The helpers that put a stream together.
  async gather({ args }) {
    const stream = client.responses.stream(...args);
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => (text += delta));
    return { final: await stream.finalResponse(), text };
  },
  async gatherChat({ args }) {
    const stream = client.chat.completions.stream(...args);
    let text = '';
    stream.on('content', (delta) => (text += delta));
    return { final: await stream.finalChatCompletion(), text };
  },
  // The helper that executes functions and sends their outputs.
  async runTools({ body, returns }) {
    const called = [];
    const tools = Object.entries(returns).map(([name, value]) => ({
      type: 'function',
      function: {
        name,
        description: name,
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
        parse: JSON.parse,
        function: (input) => {
          called.push({ name, input });
          return value;
        },
      },
    }));
    const runner = client.chat.completions.runTools({ ...body, tools });
    return { text: await runner.finalContent(), called };
  },
  // Streams a background response; when the connection breaks, reads on after the last event.
  async resumes({ body }) {
    let [id, last, final, text, breaks] = [null, null, null, '', 0];
    const headers = { 'Idempotency-Key': randomUUID() };
    const begin = () => client.responses.create({ ...body, background: true, stream: true }, { headers });
    const readOn = () => client.responses.retrieve(id, { stream: true, starting_after: last });
    for (;;) {
      try {
        for await (const event of await (id === null ? begin() : readOn())) {
          id ??= event.response?.id;
          last = event.sequence_number;
          if (event.type === 'response.output_text.delta') text += event.delta;
          if (event.type === 'response.completed') final = event.response;
        }
      } catch (error) {
        if (error.status !== undefined) throw error;
      }
      if (final) return { final, text, breaks };
      breaks += 1;
      await pause();
    }
  },
  // Streams a completion; when the connection breaks, sends the same request with its key, and reads it from its beginning.
  async repeats({ body }) {
    const headers = { 'Idempotency-Key': randomUUID() };
    for (let breaks = 0; ; breaks += 1) {
      let text = '';
      try {
        for await (const { choices } of await client.chat.completions.create({ ...body, stream: true }, { headers })) {
          text += choices[0]?.delta.content ?? '';
          if (choices[0]?.finish_reason) return { text, finish: choices[0].finish_reason, breaks };
        }
      } catch (error) {
        if (error.status !== undefined) throw error;
      }
      await pause();
    }
  },
  // Reads a response's stream again after each of its events; `wrong` are the cuts after which something else came.
  async cuts({ id }) {
    const all = await eventsOf(await client.responses.retrieve(id, { stream: true }));
    const wrong = [];
    for (const [at, { sequence_number: number }] of all.entries()) {
      const rest = await eventsOf(await client.responses.retrieve(id, { stream: true, starting_after: number }));
      if (JSON.stringify(rest) !== JSON.stringify(all.slice(at + 1))) wrong.push(number);
    }
    return { events: all, wrong, whole: await client.responses.retrieve(id) };
  },
};

try {
  const results = [];
  for (let nth = 0; nth < (task.times ?? 1); nth += 1) {
    connections = 0;
    results.push((await tasks[task.task ?? 'call'](task)) ?? null);
  }
  console.log(JSON.stringify({ result: task.times ? results : results[0] }));
} catch (error) {
  const { name, status, code, type, param, message } = error;
  console.log(JSON.stringify({ error: { name: name === 'Error' ? error.constructor.name : name, status, code, type, param, message } }));
}
