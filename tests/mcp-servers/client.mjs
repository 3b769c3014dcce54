// The protocol's own TypeScript client, unmodified, against Rejoin: node client.mjs URL KEY STEPS. STEPS is a JSON list of
// {list: true} | {call: NAME, arguments, cancelAfterProgress?: true} | {together: CALLS} | {resources: true} | {templates: true} | {read: URI} |
// {wait: true} (until a line comes on standard input). With a first step {answers: LIST}, its user is asked, and gives these results, one after the
// other; with {cutSeed: NUMBER}, the responses to calls end after a random number of bytes. Prints one JSON line a step, and one for each
// question: {asked}.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, steps] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const todo = JSON.parse(steps);
const { answers, cutSeed } = todo[0]?.answers || todo[0]?.cutSeed !== undefined ? todo.shift() : {};
const capabilities = answers ? { elicitation: {} } : {};
const client = new Client({ name: "test", version: "1.0.0" }, { capabilities });

let state = Math.imul((cutSeed ?? 0) + 1, 2654435761) >>> 0;
let cuts = 0;
/** Ends a body, behind its first event, without which a client does not read on. */
async function* cut(body) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  let left = 150 + Math.floor((state / 2 ** 32) * 1000);
  for await (const bytes of body) {
    yield bytes.slice(0, left);
    left -= bytes.length;
    if (left > 0) continue;
    cuts += 1;
    return;
  }
}

async function cutting(address, init) {
  const response = await fetch(address, init);
  if (cutSeed === undefined || !String(init.body).includes("tools/call")) return response;
  return new Response(ReadableStream.from(cut(response.body)), { status: response.status, headers: response.headers });
}

const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
  fetch: cutting,
});
const say = (value) => console.log(JSON.stringify(value));
if (answers) {
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    say({ asked: params });
    return answers.shift();
  });
}

async function call(step) {
  const progress = [];
  const stop = new AbortController();
  try {
    const result = await client.callTool({ name: step.call, arguments: step.arguments }, undefined, {
      signal: stop.signal,
      resetTimeoutOnProgress: true,
      onprogress: (notice) => {
        progress.push(notice.message);
        if (step.cancelAfterProgress) {
          stop.abort("enough");
        }
      },
    });
    return { ...result, progress };
  } catch (error) {
    return { failed: String(error), progress };
  }
}

await client.connect(transport);
say({ server: client.getServerVersion(), session: transport.sessionId, instructions: client.getInstructions() });
for (const step of todo) {
  if (step.wait) {
    await lines.next();
    continue;
  }
  if (step.list) {
    say(await client.listTools());
    continue;
  }
  if (step.resources) {
    say(await client.listResources());
    continue;
  }
  if (step.templates) {
    say(await client.listResourceTemplates());
    continue;
  }
  if (step.read) {
    say(await client.readResource({ uri: step.read }).catch((error) => ({ failed: String(error) })));
    continue;
  }
  if (step.together) {
    say({ results: await Promise.all(step.together.map(call)), cuts });
    continue;
  }
  say(await call(step));
}
process.exit(0);
