/** Functions are stopped: their run was cancelled, their call was lost, or their time is used up. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { type CallContext, ToolFailure, tool } from '../src/index.js';
import { ProtocolServer } from './protocolServer.js';
import { Log, serving } from './serving.js';

const none = z.object({});
const echo = tool({ name: 'echo', description: 'Returns nothing.', input: none, run: () => null });

let api: ProtocolServer;
beforeEach(async () => {
  api = await ProtocolServer.start();
});
afterEach(() => api.close());

/** A tool that waits for its signal, and how its functions have ended. */
function waiting(after: (call: CallContext) => unknown = (call) => call.signal.throwIfAborted()) {
  const begun: string[] = [];
  const stopped: string[] = [];
  const wait = tool({
    name: 'wait',
    description: 'Waits without end.',
    input: none,
    run: async (_, call) => {
      begun.push(call.id);
      await new Promise((resolve) => call.signal.addEventListener('abort', resolve));
      stopped.push(String(call.signal.reason.message).replace(/.*: /, ''));
      return await after(call);
    },
  });
  return { wait, begun, stopped };
}

const ways: [string, (call: CallContext) => unknown][] = [
  ['throws the reason', (call) => call.signal.throwIfAborted()],
  ['completes', () => 'done'],
  ['fails', () => Promise.reject(new ToolFailure('no'))],
  ['stores', (call) => call.saveCheckpoint(1)],
  ['reports', (call) => call.progress('stopping')],
];

test.each(ways)('of a call that was cancelled nothing is sent, if its function then %s', async (_, after) => {
  const { wait, begun, stopped } = waiting(after);
  await serving(api, [wait, echo], async () => {
    const call = api.offer('wait');
    await api.until(() => begun.includes(call.id));
    api.cancel(call);
    await api.until(() => stopped.length === 1);
    // Its slot is free again.
    await api.ended(api.offer('echo'));
  });
  expect(stopped).toEqual(['its run does not want the result']);
  expect(['failure', 'progress'].map((kind) => api.count(kind))).toEqual([0, 0]);
  expect(api.count('completion')).toBe(1);
});

test('a call that was lost is stopped, and nothing is sent', async () => {
  const { wait, begun, stopped } = waiting();
  await serving(api, [wait], async () => {
    const call = api.offer('wait');
    await api.until(() => begun.includes(call.id));
    api.take(call);
    await api.until(() => stopped.length === 1);
  });
  expect(stopped).toEqual(['another attempt has the call, or it has ended']);
  expect(['completion', 'failure', 'progress'].map((kind) => api.count(kind))).toEqual([0, 0, 0]);
});

test('the time of an attempt is limited', async () => {
  const { wait, stopped } = waiting((call) => pause(1, undefined, { signal: call.signal }));
  await serving(api, [wait], async () => {
    const call = await api.ended(api.offer('wait', {}, 1));
    expect(call.error).toBe('The tool did not end within 1 s and was stopped. It may have had an effect.');
  });
  expect(stopped).toEqual(['its time is used up']);
});

test('a result that comes too late is dropped', async () => {
  // The result is faster than the next heartbeat.
  api.heartbeatS = 20;
  let free: () => void = () => undefined;
  const isFree = new Promise<void>((resolve) => {
    free = resolve;
  });
  const saved: string[] = [];
  const log = new Log();
  const hold = tool({
    name: 'hold',
    description: 'Waits, and perhaps stores.',
    input: z.object({ stores: z.boolean() }),
    run: async ({ stores }, call) => {
      await isFree;
      if (stores) await call.saveCheckpoint(1).catch((error) => saved.push(error.name));
    },
  });
  await serving(
    api,
    [hold],
    async () => {
      const calls = [api.offer('hold', { stores: false }), api.offer('hold', { stores: true })];
      await api.until(() => calls.every((call) => call.status === 'running'));
      for (const call of calls) api.take(call);
      free();
      await api.until(() => saved.length === 1 && log.count('a result is not sent again: hold') === 1);
      expect([calls.map((call) => call.status), calls[1]!.checkpoint]).toEqual([['running', 'running'], null]);
    },
    { logger: log },
  );
  expect([saved, api.count('completion'), api.count('failure')]).toEqual([['CallCancelledError'], 1, 0]);
});
