// The protocol's own TypeScript client, unmodified, against Rejoin: node client.mjs URL KEY STEPS. STEPS is a JSON list of
// {list: true} | {call: NAME, arguments, cancelAfterProgress?: true} | {resources: true} | {templates: true} | {read: URI} | {wait: true}
// (until a line comes on standard input). With a first step {answers: LIST}, its user is asked, and gives these results, one after the other.
// Prints one JSON line a step, and one for each question: {asked}.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, steps] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const todo = JSON.parse(steps);
const answers = todo[0]?.answers ? todo.shift().answers : undefined;
const capabilities = answers ? { elicitation: {} } : {};
const client = new Client({ name: "test", version: "1.0.0" }, { capabilities });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
});
const say = (value) => console.log(JSON.stringify(value));
if (answers) {
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    say({ asked: params });
    return answers.shift();
  });
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
    say({ ...result, progress });
  } catch (error) {
    say({ failed: String(error), progress });
  }
}
process.exit(0);
