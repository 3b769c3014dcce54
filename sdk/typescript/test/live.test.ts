/** Tools in TypeScript on a real server: agents call them, and get the honest outcome if their process dies. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { LiveServer, skipped, until } from './liveServer.js';
import { ScriptedModel } from './scriptedModel.js';
import { example, type Program, program } from './serving.js';

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

  const effects = () => readFileSync(join(folder, 'effects'), 'utf8').trim().split('\n');

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

  test('a durable function is continued by another process, and each effect happens once', async () => {
    interface Question {
      readonly id: string;
      readonly runId: string;
      readonly question: string;
    }
    await serving(async (first) => {
      const run = await asked('order', { folder });
      await has('begun-1');
      first.process.kill('SIGKILL');
      await serving(async (second) => {
        let question: Question | undefined;
        await until(async () => {
          const path = '/api/questions?status=pending';
          const { items } = await server.request<{ items: Question[] }>('GET', path);
          question = items.find(({ runId }) => runId === run);
          return question !== undefined;
        });
        expect(question!.question).toBe(`Pay for ${folder}?`);
        expect(effects()).toEqual(['reserved']);
        await server.request('POST', `/api/questions/${question!.id}/answer`, { answer: 'yes' });
        const result = await learned(run);
        for (const part of [`reserved by process ${first.process.pid}`, 'yes', `paid by process ${second.process.pid}`])
          expect(result).toContain(part);
      });
    });
    expect(effects()).toEqual(['reserved', 'paid']);
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
    const env = { REJOIN_DATA_DIR: server.dataDir, REJOIN_URL: '', REJOIN_API_KEY: '' };
    await example(0, folder, env, async () => {
      await server.has('refund@1');
      const result = await learned(await asked('refund', { order: 'A-7', amount: 2.5 }));
      expect(result).toContain('2.5');
      marker = randomUUID();
      expect(await learned(await asked('refund', { order: '7', amount: 2.5 }))).toContain('Orders begin with A-');
    });
  });
});
