// Drives the unmodified HttpAgent through a conversation. Argument: {url, key, threadId, cutSeed?, resumes?, actions: […]} as JSON. Prints a line of
// JSON after each action: what the client then has. Warnings of the client count as errors: it warns of what it has to remove.
import { createRequire } from "node:module";
import { resumingFetch } from "./resuming-fetch.mjs";

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const { HttpAgent, runHttpRequest, transformHttpEventStream } = require("@ag-ui/client");

const { url, key, threadId, cutSeed, resumes, actions } = JSON.parse(process.argv[2]);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = (...words) => warnings.push(words.join(" "));

/** Random numbers that the test can have again. */
function random(seed) {
  let state = Math.imul(seed + 1, 2654435761) >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

let cuts = 0;
let connections = 0;
/** Passes a body on. Each but the first goes on after a cut; the body before it may have ended without an error, as in Node 20. */
async function* whole(body) {
  connections += 1;
  if (connections > 1) cuts += 1;
  yield* body;
}

/** Ends a body after a random number of bytes. */
function cutting(seed) {
  const next = random(seed);
  return async function* (body) {
    let left = 1 + next(3000);
    for await (const bytes of body) {
      if (bytes.length >= left) {
        yield bytes.slice(0, left);
        cuts += 1;
        return;
      }
      left -= bytes.length;
      yield bytes;
    }
  };
}

/** What a page does that opens a thread: HttpAgent leaves `connect` to its user. */
class ThreadAgent extends HttpAgent {
  connect(input) {
    const origin = new URL(this.url).origin;
    const address = `${origin}/api/ag-ui/threads/${encodeURIComponent(input.threadId)}/events`;
    return transformHttpEventStream(runHttpRequest(() => fetch(address, { headers: this.headers })));
  }
}

const config = { url, threadId, headers: { Authorization: `Bearer ${key}` } };
if (cutSeed !== undefined) config.fetch = resumingFetch(cutting(cutSeed));
if (resumes) config.fetch = resumingFetch(whole);
const agent = new ThreadAgent(config);
let pending = [];

async function act(action) {
  const events = [];
  const said = { outcome: null, error: null, runError: null };
  const subscriber = {
    onEvent: ({ event }) => {
      events.push(event);
      if (action.abortAt === event.type) agent.abortRun();
      // The test waits for the first words.
      if (event.type === action.tellAt) console.log(JSON.stringify({ told: event.type }));
    },
    onRunFinishedEvent: (finished) => {
      said.outcome = finished.outcome;
      pending = finished.pendingToolCallIds ?? [];
    },
    onRunErrorEvent: ({ event }) => {
      said.runError = event;
    },
  };
  if (action.message !== undefined) agent.addMessage({ id: `user-${agent.messages.length}`, role: "user", content: action.message });
  if (action.toolResult !== undefined) {
    for (const toolCallId of pending) {
      agent.addMessage({ id: `result-${toolCallId}`, role: "tool", toolCallId, content: action.toolResult });
    }
  }
  const parameters = { runId: action.runId, tools: action.tools, context: action.context };
  if (action.answer !== undefined) {
    parameters.resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, ...action.answer }));
  }
  try {
    const result = action.connect
      ? await agent.connectAgent(parameters, subscriber)
      : await agent.runAgent(parameters, subscriber);
    said.result = result.result;
  } catch (error) {
    said.error = String(error?.message ?? error);
  }
  return {
    ...said,
    messages: agent.messages,
    state: agent.state,
    interrupts: agent.pendingInterrupts,
    pending,
    events,
    cuts,
    warnings: warnings.splice(0),
  };
}

for (const action of actions) console.log(JSON.stringify(await act(action)));
