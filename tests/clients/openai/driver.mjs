// OpenAI's client, told by a test what to call: `node driver.mjs '{"url", "key", "call", "args"}'` prints one line of JSON, the result or the
// error. Streams are read to their end; `stopAfter`: to their nth event.
import OpenAI from 'openai';

const task = JSON.parse(process.argv[2]);
const client = new OpenAI({ apiKey: task.key, baseURL: `${task.url}/v1`, maxRetries: 0 });

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
    let open = () => client.responses.create({ ...body, background: true, stream: true });
    let [id, last, final, text, breaks] = [null, null, null, '', 0];
    while (!final) {
      try {
        for await (const event of await open()) {
          id ??= event.response?.id;
          last = event.sequence_number;
          if (event.type === 'response.output_text.delta') text += event.delta;
          if (event.type === 'response.completed') final = event.response;
        }
      } catch (error) {
        if (id === null || error.status !== undefined) throw error;
      }
      if (final) break;
      breaks += 1;
      await new Promise((resolve) => setTimeout(resolve, 100));
      open = () => client.responses.retrieve(id, { stream: true, starting_after: last });
    }
    return { final, text, breaks };
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
  const result = await tasks[task.task ?? 'call'](task);
  console.log(JSON.stringify({ result: result ?? null }));
} catch (error) {
  const { name, status, code, type, param, message } = error;
  console.log(JSON.stringify({ error: { name: name === 'Error' ? error.constructor.name : name, status, code, type, param, message } }));
}
