// Restate: RUNS invocations at once, ROUNDS times, with STEPS steps each. RESTATE_INGRESS and RESTATE_ADMIN name the server. KIND=call: each step is a call of
// another service, which does nothing.
import http2 from 'node:http2';
import * as restate from '@restatedev/restate-sdk';
import * as clients from '@restatedev/restate-sdk-clients';

const [runs, steps, rounds] = process.argv.slice(2).map(Number);
const { RESTATE_INGRESS: ingress, RESTATE_ADMIN: admin, KIND: kind } = process.env;
const taken = [];

const other = restate.service({ name: 'other', handlers: { work: async () => ({ done: true }) } });
const bench = restate.service({
  name: 'bench',
  handlers: {
    run: async (context, count) => {
      for (let step = 0; step < count; step++) {
        const began = process.hrtime.bigint();
        if (kind === 'call') await context.serviceClient(other).work();
        else await context.run('work', async () => ({ done: true }));
        taken.push(Number((process.hrtime.bigint() - began) / 1000n));
      }
      return 'done';
    },
  },
});

const server = http2.createServer(restate.createEndpointHandler({ services: [bench, other] }));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const uri = `http://127.0.0.1:${server.address().port}`;
const registered = await fetch(`${admin}/deployments`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ uri, force: true }),
});
if (!registered.ok) throw new Error(`registering: ${registered.status} ${await registered.text()}`);
const client = clients.connect({ url: ingress }).serviceClient(bench);
await client.run(steps);
taken.length = 0;
const began = performance.now();
for (let round = 0; round < rounds; round++) await Promise.all(Array.from({ length: runs }, () => client.run(steps)));
const measured = JSON.stringify({ steps: taken.length, s: (performance.now() - began) / 1000, lat: taken });
// Connections are left open. A pipe takes what does not fit into it later: all of it, before the end.
process.stdout.write(`${measured}\n`, () => process.exit(0));
