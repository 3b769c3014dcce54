/** Tools in TypeScript on a real server: agents call them, and get the honest outcome if their process dies. */
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { verifyWebhook } from '../src/index.js';
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
    await serving(async (first) => {
      const run = await asked('order', { folder });
      await has('begun-1');
      first.process.kill('SIGKILL');
      await serving(async (second) => {
        const question = await server.question(run);
        expect(question.question).toBe(`Pay for ${folder}?`);
        expect(effects()).toEqual(['reserved']);
        await server.answer(question, 'yes');
        const result = await learned(run);
        for (const part of [`reserved by process ${first.process.pid}`, 'yes', `paid by process ${second.process.pid}`])
          expect(result).toContain(part);
      });
    });
    expect(effects()).toEqual(['reserved', 'paid']);
  });

  test('an agent in TypeScript answers a message to its name', async () => {
    await serving(async () => {
      const { runId, conversationId } = await server.send('Hello', await server.agent('Billing clerk'));
      expect(await server.ended(runId)).toMatchObject({ state: 'completed', summary: 'Hello' });
      const further = await server.send('Grüße', { conversationId });
      const summary = 'user: Hello\nassistant: Hello\nGrüße';
      expect(await server.ended(further.runId)).toMatchObject({ state: 'completed', summary });
    });
  });

  test('an agent in TypeScript asks its user, and ends', async () => {
    await serving(async () => {
      const { runId } = await server.send(`Refund ${marker}`, await server.agent('asker'));
      const question = await server.question(runId);
      expect(question.question).toBe(`Which order? Refund ${marker}`);
      await server.answer(question, 'A-7');
      expect(await server.ended(runId)).toMatchObject({ state: 'completed', summary: `Refund ${marker}: A-7` });
    });
  });

  test('a turn of a process that was killed goes on in another', async () => {
    await serving(async (first) => {
      const { runId } = await server.send(folder, await server.agent('orderer'));
      await has('begun-1');
      first.process.kill('SIGKILL');
      await serving(async (second) => {
        await server.answer(await server.question(runId), 'yes');
        const summary = `reserved by process ${first.process.pid}, yes, paid by process ${second.process.pid}`;
        expect(await server.ended(runId)).toMatchObject({ state: 'completed', summary });
      });
    });
    expect(effects()).toEqual(['reserved', 'paid']);
  });

  test('an agent with a prompt of a program calls its tool', async () => {
    model.script(marker, { tool: 'echo', arguments: { text: 'Grüße' } }, { text: 'Done.' });
    await serving(async () => {
      const { runId } = await server.send(`Repeat it. ${marker}`, await server.agent('repeater'));
      expect(await learned(runId)).toContain('Grüße');
    });
    // It stays when its program has ended.
    expect(await server.agent('repeater')).toBeDefined();
  });

  test('the agent of the README works as it is printed', async () => {
    const env = { REJOIN_URL: server.url, REJOIN_API_KEY: server.apiKey };
    await example(3, folder, env, async () => {
      await server.has('clerk@1');
      const { runId } = await server.send('Refund A-7', await server.agent('clerk'));
      const question = await server.question(runId);
      expect(question.question).toBe('Refund A-7?');
      await server.answer(question, 'Yes');
      expect(await server.ended(runId)).toMatchObject({ state: 'completed', summary: 'Refunded A-7.' });
    });
  });

  test('a webhook of the server is genuine', async () => {
    let received: { readonly headers: IncomingHttpHeaders; readonly body: Uint8Array } | undefined;
    const receiver = createServer(async (request, response) => {
      received = { headers: request.headers, body: await buffer(request) };
      response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const path = `/api/admin/projects/${server.projectId}/webhooks`;
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
    const { secret, webhook } = await server.request<{ secret: string; webhook: { id: string } }>('POST', path, {
      url,
      events: ['run.ended'],
    });
    await server.request('POST', `${path}/${webhook.id}/test`);
    await until(() => received !== undefined);
    await new Promise((resolve) => receiver.close(resolve));
    const { headers, body } = received!;
    expect(await verifyWebhook(headers, body, secret)).toMatchObject({
      type: 'webhook.test',
      data: { webhookId: webhook.id },
    });
    await expect(verifyWebhook(headers, Buffer.concat([body, Buffer.from(' ')]), secret)).rejects.toThrow(
      'no signature',
    );
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
