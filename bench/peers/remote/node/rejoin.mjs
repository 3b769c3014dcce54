// Ours: RUNS turns of an agent at once, ROUNDS times, whose function has STEPS steps. REJOIN_URL and REJOIN_API_KEY name the server, BENCH_SDK the package.
const { agent, Worker } = await import(process.env.BENCH_SDK);

const [runs, steps, rounds] = process.argv.slice(2).map(Number);
const { REJOIN_URL: url, REJOIN_API_KEY: key } = process.env;
const taken = [];

const bench = agent({
  name: 'bench-steps',
  description: 'Does nothing, several times.',
  run: async ({ message }, call) => {
    for (let step = 0; step < Number(message); step++) {
      const began = process.hrtime.bigint();
      await call.step('work', () => ({ done: true }), { idempotent: true });
      taken.push(Number((process.hrtime.bigint() - began) / 1000n));
    }
    return 'done';
  },
});

async function request(method, path, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(url + path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return response;
}

const silent = { info() {}, warn() {}, error: console.error };
const stop = new AbortController();
const serving = new Worker([bench], { slots: 200, logger: silent }).serve(stop.signal);
const { projectId } = await (await request('GET', '/api/me')).json();
let definition;
while (!definition) {
  const { items } = await (await request('GET', `/api/projects/${projectId}/agents?limit=100`)).json();
  definition = items.find((one) => one.name === 'bench-steps');
  if (!definition) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** A turn, to the end of its events. */
async function turn() {
  const body = { message: String(steps), agentDefinitionId: definition.id, clientTurnId: crypto.randomUUID() };
  const { runId } = await (await request('POST', '/api/chat/stream', body)).json();
  const response = await fetch(`${url}/api/runs/${runId}/events`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
  });
  await response.text();
}

await turn();
taken.length = 0;
const began = performance.now();
for (let round = 0; round < rounds; round++) await Promise.all(Array.from({ length: runs }, turn));
console.log(JSON.stringify({ steps: taken.length, s: (performance.now() - began) / 1000, lat: taken }));
stop.abort();
await serving;
