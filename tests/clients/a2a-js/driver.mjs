// Drives the unmodified client of A2A. Argument: {url, key, binding, agent?, cutSeed?, resumes?, calls: [{call, params}]} as JSON. Prints a line of JSON
// for each {event} that a stream yields, and {result} or {error} at the end of each call. In params, "$task" and "$context" stand for the last
// task and its context. With cutSeed, streams end after a random number of bytes, and the client subscribes to the task again; with resumes, it
// does so when a connection breaks.
import { createRequire } from "node:module";

const require = createRequire(`${process.env.CLIENT_FOLDER}/`);
const sdk = require("@a2a-js/sdk");
const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  require("@a2a-js/sdk/client");

const { url, key, binding, agent, cutSeed, resumes, calls } = JSON.parse(process.argv[2]);
const say = (said) => console.log(JSON.stringify(said));

let state = Math.imul((cutSeed ?? 0) + 1, 2654435761) >>> 0;
/** Random numbers that the test can have again. */
function random(below) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
}

let cuts = 0;
async function* cut(body) {
  let left = 1 + random(4000);
  for await (const bytes of body) {
    if (bytes.length >= left) {
      yield bytes.slice(0, left);
      cuts += 1;
      return;
    }
    left -= bytes.length;
    yield bytes;
  }
}

async function fetchImpl(address, init = {}) {
  const headers = { ...init.headers, Authorization: `Bearer ${key}` };
  const response = await fetch(address, { ...init, headers });
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
  if (cutSeed === undefined || !isStream) return response;
  return new Response(ReadableStream.from(cut(response.body)), { status: response.status, headers: response.headers });
}

const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [binding],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  }),
);
const card = `/.well-known/agent-card.json${agent ? `?agent=${encodeURIComponent(agent)}` : ""}`;
const client = await factory.createFromUrl(url, card);

const last = { task: "", context: "" };
let rests = false;
function note(task, context, status) {
  if (task) last.task = task;
  if (context) last.context = context;
  if (status) {
    rests = /(COMPLETED|FAILED|CANCELED|INPUT_REQUIRED)$/.test(status.state);
  }
}

/** Whether a stream ended in the middle of a frame, or its connection broke or could not be made. */
function isCut(error) {
  if (cutSeed !== undefined) return /parse|JSON/i.test(error.message);
  return resumes && /terminated|fetch failed|socket|ECONN/i.test(`${error.message} ${error.cause?.message}`);
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 100));

/** `until`: a state of the task after which no more is read. */
async function read(stream, until) {
  try {
    for await (const response of stream) {
      const event = sdk.StreamResponse.toJSON(response);
      if (event.task) note(event.task.id, event.task.contextId, event.task.status);
      if (event.statusUpdate) note(null, null, event.statusUpdate.status);
      say({ event });
      const { state } = (event.task ?? event.statusUpdate ?? {}).status ?? {};
      if (until && state === until) return;
    }
  } catch (error) {
    if (!isCut(error)) throw error;
  }
}

const task = (value) => sdk.Task.toJSON(value);
const pushConfig = (value) => sdk.TaskPushNotificationConfig.toJSON(value);
const methods = {
  async stream(params) {
    rests = false;
    last.task = "";
    for (;;) {
      try {
        // The same message again is the same task.
        await read(
          last.task
            ? client.resubscribeTask({ id: last.task, tenant: "" })
            : client.sendMessageStream(sdk.SendMessageRequest.fromJSON(params)),
        );
      } catch (error) {
        // It has ended meanwhile.
        if (error.name !== "UnsupportedOperationError" || !last.task) throw error;
        const ended = task(await client.getTask({ id: last.task, tenant: "" }));
        note(ended.id, ended.contextId, ended.status);
        say({ event: { task: ended } });
      }
      if (rests || !(resumes || cutSeed !== undefined)) return { cuts };
      if (resumes) {
        // The stream may have ended without an error, as in Node 20.
        cuts += 1;
        await pause();
      }
    }
  },
  async subscribe({ until, ...params }) {
    await read(client.resubscribeTask({ tenant: "", ...params }), until);
    return {};
  },
  async send(params) {
    const sent = task(await client.sendMessage(sdk.SendMessageRequest.fromJSON(params)));
    note(sent.id, sent.contextId, sent.status);
    return sent;
  },
  get: async (params) => task(await client.getTask({ tenant: "", ...params })),
  cancel: async (params) => task(await client.cancelTask({ tenant: "", metadata: undefined, ...params })),
  list: async (params) => sdk.ListTasksResponse.toJSON(await client.listTasks(sdk.ListTasksRequest.fromJSON(params))),
  pushCreate: async (params) => pushConfig(await client.createTaskPushNotificationConfig(sdk.TaskPushNotificationConfig.fromJSON(params))),
  pushGet: async (params) => pushConfig(await client.getTaskPushNotificationConfig({ tenant: "", ...params })),
  async pushList(params) {
    const page = await client.listTaskPushNotificationConfig(sdk.ListTaskPushNotificationConfigsRequest.fromJSON(params));
    return { configs: page.configs.map(pushConfig) };
  },
  async pushDelete(params) {
    await client.deleteTaskPushNotificationConfig({ tenant: "", ...params });
    return {};
  },
  card: async () => sdk.AgentCard.toJSON(await client.getAgentCard()),
};

for (const { call, params } of calls) {
  const context = JSON.stringify(last.context).slice(1, -1);
  const filled = JSON.stringify(params ?? {}).replaceAll("$task", last.task).replaceAll("$context", () => context);
  try {
    say({ result: await methods[call](JSON.parse(filled)) });
  } catch (error) {
    say({ error: { name: error.name, message: String(error.message) } });
  }
}
