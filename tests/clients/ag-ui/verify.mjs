// Reads streams, one JSON string a line, from the file that is the argument, and gives each to an unmodified HttpAgent as the answer to a
// request. Prints the number of streams, and what the client found wrong with any: a violation of the protocol's order, an event that does
// not match its schema, material that it had to remove.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const { HttpAgent } = require("@ag-ui/client");

let warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = (...words) => warnings.push(words.join(" "));

const lines = readFileSync(process.argv[2], "utf8").split("\n").filter((line) => line !== "");
const wrong = [];
let events = 0;
for (const [index, line] of lines.entries()) {
  const { body, text } = JSON.parse(line);
  warnings = [];
  const headers = { "content-type": "text/event-stream" };
  const agent = new HttpAgent({ url: "http://localhost/", threadId: "t", fetch: async () => new Response(body, { headers }) });
  agent.addMessage({ id: "u", role: "user", content: "Hi" });
  try {
    await agent.runAgent({ runId: "r" }, { onEvent: () => void (events += 1) });
  } catch (error) {
    warnings.push(String(error?.message ?? error));
  }
  const replied = agent.messages
    .filter((message) => message.role === "assistant" && message.subagentRunId === undefined)
    .map((message) => message.content ?? "")
    .join("");
  if (text !== null && replied !== text) warnings.push(`the text is ${JSON.stringify(replied)}, not ${JSON.stringify(text)}`);
  if (warnings.length > 0) wrong.push({ index, warnings, body });
}
console.log(JSON.stringify({ streams: lines.length, events, wrong: wrong.slice(0, 5), count: wrong.length }));
