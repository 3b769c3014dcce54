/** Tools in TypeScript on a real server: agents call them, and get the honest outcome if their process dies. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { LiveServer, skipped, until } from './liveServer.js';
import { ScriptedModel } from './scriptedModel.js';
import { type Program, program } from './serving.js';

const HERE = fileURLToPath(new URL('..', import.meta.url));

if (skipped) console.warn(`SKIPPED: ${skipped}`);

describe.skipIf(skipped)('on a real server', () => {
  let model: ScriptedModel;
  let server: LiveServer;
  let folder: string;
  let marker: string;

  beforeAll(async () => {
    model = await ScriptedModel.start();
    server = await LiveServer.start(model.url);
  });
  afterAll(async () => {
    await server?.stop();
    await model.stop();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
    marker = randomUUID();
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const has = (name: string) => until(() => existsSync(join(folder, name)));

  /** An agent calls a tool, and then answers `Done.` */
  async function asked(tool: string, given: Record<string, unknown>): Promise<string> {
    model.script(marker, { tool, arguments: given }, { text: 'Done.' });
    return await server.ask(tool, `Call it. ${marker}`);
  }

  /** Waits for the end of the run. Returns what the model has learned about the call. */
  async function learned(runId: string): Promise<string | undefined> {
    expect(await server.ended(runId)).toMatchObject({ state: 'completed', summary: 'Done.' });
    return model.learned(marker);
  }

  /** A registered worker in another process. */
  function serving<T>(block: (program: Program) => Promise<T>): Promise<T> {
    return program(server, async (one) => {
      await server.has(`program-${one.process.pid}`);
      return await block(one);
    });
  }

  test('an agent calls a tool in TypeScript', async () => {
    await serving(async () => {
      expect(await learned(await asked('echo', { text: 'Grüße' }))).toContain('Grüße');
    });
  });

  test('a call waits for a worker', async () => {
    await serving(async ({ process, ended }) => {
      process.kill('SIGTERM');
      expect(await ended).toBe(0);
    });
    const run = await asked('echo', { text: 'later' });
    await serving(async () => expect(await learned(run)).toContain('later'));
  });

  test('the outcome of a call whose process was killed is unknown, and the model learns it', async () => {
    await serving(async ({ process }) => {
      const run = await asked('hold', { folder });
      await has('begun-1');
      process.kill('SIGKILL');
      await serving(async () => expect(await learned(run)).toMatch(/unknown/));
    });
    // It was not repeated.
    expect(readdirSync(folder)).toEqual(['begun-1']);
  });

  test('an idempotent call of a process that was killed is repeated', async () => {
    await serving(async (first) => {
      const run = await asked('hold_idempotent', { folder });
      await has('begun-1');
      first.process.kill('SIGKILL');
      await serving(async (second) => {
        await has('begun-2');
        writeFileSync(join(folder, 'end'), '');
        expect(await learned(run)).toContain(`process ${second.process.pid}`);
      });
    });
  });

  test('a worker that stops ends its calls', async () => {
    await serving(async ({ process, ended }) => {
      const run = await asked('hold', { folder });
      await has('begun-1');
      process.kill('SIGTERM');
      writeFileSync(join(folder, 'end'), '');
      expect(await ended).toBe(0);
      expect(await learned(run)).toContain(`process ${process.pid}`);
    });
  });

  test('cancelling a run stops the function', async () => {
    await serving(async () => {
      const run = await asked('wait_cancelled', { folder });
      await has('begun-1');
      await server.request('POST', `/api/runs/${run}/cancel`);
      await has('stopped');
      expect((await server.ended(run)).state).toBe('cancelled');
    });
  });

  test('the example of the README works as it is printed, with the server and the key of rejoin dev', async () => {
    const [, example] = /```ts\n(.*?)```/s.exec(readFileSync(join(HERE, 'README.md'), 'utf8'))!;
    writeFileSync(join(folder, 'refund.mjs'), example!);
    mkdirSync(join(folder, 'node_modules', '@rejoin'), { recursive: true });
    symlinkSync(HERE, join(folder, 'node_modules', '@rejoin', 'sdk'));
    symlinkSync(join(HERE, 'node_modules', 'zod'), join(folder, 'node_modules', 'zod'));
    const env = { ...process.env, REJOIN_DATA_DIR: server.dataDir, REJOIN_URL: '', REJOIN_API_KEY: '' };
    const child = spawn(process.execPath, ['refund.mjs'], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    try {
      await server.has('refund@1');
      const result = await learned(await asked('refund', { order: 'A-7', amount: 2.5 }));
      expect(result).toContain('2.5');
      marker = randomUUID();
      expect(await learned(await asked('refund', { order: '7', amount: 2.5 }))).toContain('Orders begin with A-');
    } finally {
      child.kill('SIGTERM');
      expect(await ended).toBe(0);
    }
  });
});
