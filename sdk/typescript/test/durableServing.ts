/** Serves one durable function, for a test file that imports this. The API is a strict one, on a real socket. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach } from 'vitest';
import { z } from 'zod';
import { type CallContext, tool } from '../src/index.js';
import type { Offered } from './protocolRecords.js';
import { ProtocolServer } from './protocolServer.js';
import { Log, serving } from './serving.js';

export let api: ProtocolServer;
export let log: Log;
/** What was executed. */
export let executed: string[];
beforeEach(async () => {
  api = await ProtocolServer.start();
  log = new Log();
  executed = [];
});
afterEach(() => api.close());

export const order = (run: (call: CallContext) => unknown) =>
  tool({ name: 'order', description: 'Orders.', input: z.object({}), durable: true, run: (_, call) => run(call) });

/** Executes something, and returns its name. */
export async function execute(name: string): Promise<string> {
  executed.push(name);
  await pause(1);
  return name;
}

/** Serves one call of the function, and returns it when it has ended. `meanwhile`: what others do. */
export async function served(
  run: (call: CallContext) => unknown,
  { call = api.offer('order'), meanwhile }: { call?: Offered; meanwhile?: (call: Offered) => Promise<void> } = {},
): Promise<Offered> {
  await serving(
    api,
    [order(run)],
    async () => {
      await meanwhile?.(call);
      await api.ended(call);
    },
    { logger: log },
  );
  return call;
}

export const suspended = (call: Offered) => api.until(() => call.status === 'suspended');
/** The requests of these kinds about calls, without the fields that all have. */
export const sent = (...kinds: string[]) =>
  api.requests
    .filter(([kind]) => kinds.includes(kind))
    .map(([kind, { workerId: _, attempt: __, ...body } = {}]) => [kind, body]);
