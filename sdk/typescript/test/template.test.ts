/** The program that `rejoin init --lang typescript` makes works as its README says, also if it is killed while it waits. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LiveServer, skipped, until } from './liveServer.js';
import { ScriptedModel } from './scriptedModel.js';

const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), '..');

interface Question {
  readonly id: string;
  readonly question: string;
}

describe.skipIf(skipped)('the program of the template', () => {
  let model: ScriptedModel;
  let server: LiveServer;
  let root: string;
  const programs: ChildProcess[] = [];

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
    model = await ScriptedModel.start();
    server = await LiveServer.start(model.url);
  });
  afterAll(async () => {
    for (const program of programs) program.kill('SIGKILL');
    await server?.stop();
    await model.stop();
    rmSync(root, { recursive: true });
  });

  /** As `npm install`, with the package of this repository and what it has installed. */
  function install(folder: string): void {
    const modules = join(folder, 'node_modules');
    mkdirSync(join(modules, '@rejoin'), { recursive: true });
    symlinkSync(PACKAGE, join(modules, '@rejoin', 'sdk'));
    for (const name of ['zod', 'typescript', '@types', '@typescript'])
      symlinkSync(join(PACKAGE, 'node_modules', name), join(modules, name));
  }

  test('refunds once, whatever happens to it', async () => {
    execFileSync(process.env.REJOIN_TEST_BIN!, ['init', 'my-agent', '--lang', 'typescript'], { cwd: root });
    const folder = join(root, 'my-agent');
    install(folder);
    const tsc = join(PACKAGE, 'node_modules', 'typescript', 'bin', 'tsc');
    execFileSync(process.execPath, [tsc], { cwd: folder, stdio: 'inherit' });
    const tested = execFileSync(process.execPath, ['--test', 'dist/tools.test.js'], { cwd: folder, encoding: 'utf8' });
    expect(tested).toMatch(/pass 2/);

    const serve = async () => {
      const env = { ...process.env, REJOIN_URL: server.url, REJOIN_API_KEY: server.apiKey };
      const program = spawn(process.execPath, ['dist/serve.js'], { cwd: folder, env, stdio: 'inherit' });
      programs.push(program);
      await server.has(`${hostname()}-${program.pid}`);
      return program;
    };
    const first = await serve();
    model.script('Refund order A-7', { tool: 'refund', arguments: { order: 'A-7' } }, { text: 'Done.' });
    const run = await server.ask('refund', 'Refund order A-7');
    let question: Question | undefined;
    await until(async () => {
      const { items } = await server.request<{ items: Question[] }>('GET', '/api/questions?status=pending');
      question = items[0];
      return question !== undefined;
    });
    expect(question?.question).toBe('Refund 12.5 euros for A-7?');
    first.kill('SIGKILL');
    await serve();
    await server.request('POST', `/api/questions/${question?.id}/answer`, { answer: 'yes' });
    expect(await server.ended(run)).toMatchObject({ state: 'completed', summary: 'Done.' });
    expect(readFileSync(join(folder, 'refunds.txt'), 'utf8')).toBe('A-7 12.5\n');
  });
});
