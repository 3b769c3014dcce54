// The protocol's own TypeScript client, unmodified, against Rejoin: node client.mjs URL KEY STEPS. STEPS is a JSON list of
// {list: true} | {call: NAME, arguments, cancelAfterProgress?: true} | {wait: true} (until a line comes on standard input).
// Prints one JSON line a step.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, key, steps] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const client = new Client({ name: "test", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { Authorization: `Bearer ${key}` } },
});
await client.connect(transport);
const say = (value) => console.log(JSON.stringify(value));
say({ server: client.getServerVersion(), session: transport.sessionId, instructions: client.getInstructions() });
for (const step of JSON.parse(steps)) {
  if (step.wait) {
    await lines.next();
    continue;
  }
  if (step.list) {
    say(await client.listTools());
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
