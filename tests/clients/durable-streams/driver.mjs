// Durable Streams' client, directed by a test: `node driver.mjs '{"url", "headers", "call", …}'` prints one line of JSON, the result or the error.
// CLIENT_FOLDER: where its packages are installed.
import { createRequire } from 'node:module';

const { DurableStream, stream } = createRequire(`${process.env.CLIENT_FOLDER}/`)('@durable-streams/client');

const task = JSON.parse(process.argv[2]);
const { url, headers } = task;
// Errors are the test's.
const backoffOptions = { initialDelay: 100, maxDelay: 1000, multiplier: 2, maxRetries: task.retries ?? 0 };

async function follow(offset, live, stopAfter, take) {
  const response = await stream({ url, headers, offset, live, backoffOptions });
  let taken = 0;
  await new Promise((resolve, reject) => {
    const stop = response.subscribeJson(async (batch) => {
      take(batch);
      taken += batch.items.length;
      if (taken >= stopAfter) {
        stop();
        resolve();
      }
      // `closed` is fulfilled before the last batches are delivered.
      if (batch.streamClosed) resolve();
    });
    response.closed.catch(reject);
  });
  return { offset: response.offset, closed: response.streamClosed };
}

const calls = {
  async head() {
    return await DurableStream.head({ url, headers });
  },
  // What there is.
  async catchUp({ offset }) {
    const response = await stream({ url, headers, offset, live: false, backoffOptions });
    const items = await response.json();
    return { items, offset: response.offset, closed: response.streamClosed };
  },
  // Follows until the stream is closed; when its connection breaks in the middle of a response, goes on from the last offset.
  async resumes({ offset, live }) {
    const items = [];
    let breaks = 0;
    for (;;) {
      try {
        const rest = await follow(offset, live, Infinity, (batch) => {
          items.push(...batch.items);
          offset = batch.offset;
        });
        return { items, breaks, closed: rest.closed };
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        breaks += 1;
      }
    }
  },
  // Follows until the stream is closed, or `stopAfter` items have come. Each batch's offset is where a reader could go on.
  async follow({ offset, live, stopAfter = Infinity }) {
    const items = [];
    const offsets = [];
    const end = await follow(offset, live, stopAfter, (batch) => {
      if (batch.items.length > 0) offsets.push(batch.offset);
      items.push(...batch.items);
    });
    return { items, offsets, ...end };
  },
};

try {
  console.log(JSON.stringify({ result: await calls[task.call](task) }));
} catch (error) {
  console.log(JSON.stringify({ error: { name: error.name, code: error.code, status: error.status, message: error.message } }));
}
process.exit(0);
