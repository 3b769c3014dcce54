/** Workers as processes: they are stopped, paused, killed, and blocked by their own functions. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { KEY } from './protocolRules.js';
import { ProtocolServer } from './protocolServer.js';
import { program } from './serving.js';

/** Short enough to wait for its end, and longer than a busy machine takes for anything. */
const LEASE_S = 3;

let folder: string;
let api: ProtocolServer & { apiKey: string };
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
  api = Object.assign(await ProtocolServer.start(), { apiKey: KEY });
});
afterEach(async () => {
  rmSync(folder, { recursive: true });
  await api.close();
});

const has = (name: string) => existsSync(join(folder, name));
const end = () => writeFileSync(join(folder, 'end'), '');
const drains = () => api.requests.some(([kind, body]) => kind === 'heartbeats' && body.draining);

test('after SIGTERM calls end, and no others begin', async () => {
  await program(api, async ({ process, ended }) => {
    const call = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    process.kill('SIGTERM');
    await api.until(drains);
    const later = api.offer('echo', { text: 'late' });
    end();
    expect((await api.ended(call)).output).toBe(`process ${process.pid}`);
    expect([await ended, later.status]).toEqual([0, 'waiting']);
  });
  expect([api.workers.size, api.requests.at(-1)![0]]).toEqual([0, 'DELETE registrations']);
});

test('a second signal ends the process at once', async () => {
  api.leaseS = LEASE_S;
  await program(api, async ({ process, ended }) => {
    const call = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    process.kill('SIGINT');
    await api.until(drains);
    process.kill('SIGINT');
    expect(await ended).toBe('SIGINT');
    expect((await api.ended(call)).status).toBe('outcome_unknown');
  });
});

test('calls that do not end in time are left, and do not keep the process', async () => {
  const holds = async () =>
    await program(
      api,
      async ({ process, ended }) => {
        const call = api.offer('hold', { folder });
        await api.until(() => has('begun-1'));
        process.kill('SIGTERM');
        expect([await ended, call.status, api.workers.size]).toEqual([0, 'outcome_unknown', 0]);
      },
      500,
    );
  await holds();
});

test('a call of a killed worker is unknown, unless it may be repeated', async () => {
  api.leaseS = LEASE_S;
  const folders = [join(folder, 'once'), join(folder, 'twice')] as const;
  for (const one of folders) mkdirSync(one);
  await program(api, async (first) => {
    const [once, twice] = [
      api.offer('hold', { folder: folders[0] }),
      api.offer('hold_idempotent', { folder: folders[1] }),
    ];
    await api.until(() => has('once/begun-1') && has('twice/begun-1'));
    first.process.kill('SIGKILL');
    await program(api, async (second) => {
      expect((await api.ended(once)).status).toBe('outcome_unknown');
      await api.until(() => has('twice/begun-2'));
      writeFileSync(join(folders[1], 'end'), '');
      expect([(await api.ended(twice)).output, twice.attempt]).toEqual([`process ${second.process.pid}`, 2]);
    });
  });
  expect(readdirSync(folders[0])).toEqual(['begun-1']);
});

test('a process that was paused for longer than its lease drops its results', async () => {
  api.leaseS = LEASE_S;
  await program(api, async ({ process }) => {
    const call = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    process.kill('SIGSTOP');
    expect((await api.ended(call)).status).toBe('outcome_unknown');
    end();
    process.kill('SIGCONT');
    expect((await api.ended(api.offer('echo', { text: 'again' }))).output).toBe('again');
    expect([call.status, call.output]).toEqual(['outcome_unknown', undefined]);
  });
});

test('a call that arrives after its lease does not begin', async () => {
  api.leaseS = LEASE_S;
  await program(api, async ({ process }) => {
    await api.until(() => api.count('claims'));
    process.kill('SIGSTOP');
    // Handed out to a process that does not read it.
    const call = api.offer('hold', { folder });
    expect((await api.ended(call)).status).toBe('outcome_unknown');
    process.kill('SIGCONT');
    await api.until(() => call.void.has(1));
    expect((await api.ended(api.offer('echo', { text: 'again' }))).output).toBe('again');
  });
  expect(has('begun-1')).toBe(false);
});

test('a pause that is shorter than the lease changes nothing', async () => {
  await program(api, async ({ process }) => {
    const call = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    process.kill('SIGSTOP');
    end();
    await pause(1000);
    process.kill('SIGCONT');
    expect([(await api.ended(call)).output, call.attempt]).toEqual([`process ${process.pid}`, 1]);
  });
});

test('a function that blocks the event loop for longer than the lease loses the calls of its process', async () => {
  api.leaseS = LEASE_S;
  await program(api, async () => {
    const held = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    const blocking = api.offer('block', { ms: (LEASE_S + 2) * 1000, folder });
    expect([(await api.ended(held)).status, (await api.ended(blocking)).status]).toEqual([
      'outcome_unknown',
      'outcome_unknown',
    ]);
    expect((await api.ended(api.offer('echo', { text: 'again' }))).output).toBe('again');
    expect(blocking.output).toBe(undefined);
  });
});

test('a function that blocks for less than the lease loses nothing', async () => {
  api.leaseS = LEASE_S * 3;
  await program(api, async () => {
    const held = api.offer('hold', { folder });
    await api.until(() => has('begun-1'));
    const blocking = await api.ended(api.offer('block', { ms: 1000, folder }));
    end();
    expect([blocking.output, (await api.ended(held)).attempt]).toEqual(['blocked', 1]);
  });
});
