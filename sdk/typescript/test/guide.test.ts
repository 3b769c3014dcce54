/** The guide (docs/guide/typescript-tools.md) works in an empty folder, as it is printed: what it installs, runs, asks and kills. */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LiveServer, skipped, until } from './liveServer.js';
import { ScriptedModel } from './scriptedModel.js';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const GUIDE = readFileSync(join(PACKAGE, '..', '..', 'docs', 'guide', 'typescript-tools.md'), 'utf8');
/** The process that the guide kills. */
const KILLED = '4711';

/** A command of the guide. */
interface Command {
  readonly process: ChildProcess;
  /** What it has printed, as a terminal shows it. */
  printed: string;
  /** Its exit code, or the signal that has ended it. */
  readonly ended: Promise<number | string>;
}

/** The blocks of the guide in this language. */
function blocks(language: string): string[] {
  return [...GUIDE.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, block]) => block!);
}

/** Copies the package as a copy of the repository has it. */
function copyPackage(to: string): void {
  const isCopied = (path: string) => !['node_modules', 'dist'].includes(relative(PACKAGE, path));
  cpSync(PACKAGE, to, { recursive: true, filter: isCopied });
}

describe.skipIf(skipped)('the guide', () => {
  const [start, install, runTools, askClerk, runRefunds, askCashier, kill, runAgain] = blocks('sh');
  const [tools, refunds] = blocks('js');
  const [answered, unknown, repeated] = blocks('text');
  const commands: Command[] = [];
  let model: ScriptedModel;
  let server: LiveServer;
  /** The folder of the reader, and what is beside it. */
  let folder: string;
  let beside: string;

  beforeAll(async () => {
    beside = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
    folder = join(beside, 'my-tools');
    mkdirSync(join(beside, 'bin'));
    symlinkSync(process.env.REJOIN_TEST_BIN!, join(beside, 'bin', 'rejoin'));
    copyPackage(join(beside, 'rejoin', 'sdk', 'typescript'));
    model = await ScriptedModel.start();
    const env = { ...process.env, npm_config_prefer_offline: 'true' };
    const installed = promisify(execFile)('bash', ['-ec', install!], { cwd: beside, env });
    server = await LiveServer.start(model.url);
    await installed;
  });
  afterAll(async () => {
    for (const one of commands) one.process.kill('SIGKILL');
    await server?.stop();
    await model?.stop();
    rmSync(beside, { recursive: true });
  });

  /** Begins a command in the folder of the reader. The server is found by its data folder. */
  function command(line: string): Command {
    const others = Object.entries(process.env).filter(([name]) => !name.startsWith('REJOIN_'));
    const PATH = [join(beside, 'bin'), process.env.PATH].join(delimiter);
    const env = { ...Object.fromEntries(others), PATH, REJOIN_DATA_DIR: server.dataDir };
    const child = spawn('bash', ['-c', `exec ${line.trim()} 2>&1`], {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise<number | string>((resolve) =>
      child.once('close', (code, signal) => resolve(signal ?? code ?? -1)),
    );
    const begun: Command = { process: child, printed: '', ended };
    child.stdout.setEncoding('utf8').on('data', (text: string) => (begun.printed += text));
    commands.push(begun);
    return begun;
  }

  /** Begins a program of the guide, and waits until it is registered. */
  async function serve(line: string): Promise<Command> {
    const program = command(line);
    await server.has(`${hostname()}-${program.process.pid}`);
    return program;
  }

  /** Ends a program as Ctrl-C does. */
  async function stop(program: Command): Promise<void> {
    program.process.kill('SIGINT');
    expect(await program.ended).toBe(0);
  }

  /** Waits until a program has printed a line of the guide, which names another process. */
  async function hasPrinted(program: Command, line: string): Promise<void> {
    const expected = line.replace(/process \d+/, `process ${program.process.pid}`);
    await until(() => program.printed.includes(expected));
  }

  test('the first program answers', async () => {
    expect(start).toBe('rejoin dev\n');
    expect(readdirSync(folder).sort()).toEqual(['node_modules', 'package-lock.json', 'package.json']);
    writeFileSync(join(folder, 'tools.mjs'), tools!);
    const text = answered!.trim().split('\n').at(-1)!;
    model.script('Where is my order A-7?', { tool: 'order_status', arguments: { order: 'A-7' } }, { text });
    const program = await serve(runTools!);
    const asking = command(askClerk!);
    expect(await asking.ended).toBe(0);
    expect(asking.printed.replace(/\d+ ms/, '9 ms')).toBe(answered);
    await stop(program);
  });

  describe('when a process is killed in the middle of a call', () => {
    const begun = `refund of A-7: attempt 1, process ${KILLED}`;

    /** Returns what the chat shows. `printed`: what the program prints that is started then. */
    async function killed(program: string, text: string, printed = ''): Promise<string> {
      writeFileSync(join(folder, 'refunds.mjs'), program);
      model.script('Refund order A-7.', { tool: 'refund', arguments: { order: 'A-7' } }, { text });
      const first = await serve(runRefunds!);
      const asking = command(askCashier!);
      await hasPrinted(first, begun);
      execFileSync('bash', ['-c', kill!.replace(KILLED, String(first.process.pid))]);
      expect(await first.ended).toBe('SIGKILL');
      const second = await serve(runAgain!);
      await hasPrinted(second, printed);
      expect(await asking.ended).toBe(0);
      await stop(second);
      return asking.printed;
    }

    test('the outcome is unknown, and the model learns it', async () => {
      expect(GUIDE).toContain(`\`${begun}\``);
      const [called, outcome, answer] = unknown!.trim().split('\n') as [string, string, string];
      const shown = await killed(refunds!, answer);
      expect(shown.startsWith(`${called}\n`)).toBe(true);
      // The machine has another name here.
      for (const part of outcome.replace(' It was not repeated. …', '').split(`shop-${KILLED}`))
        expect(shown).toContain(part);
      expect(shown.endsWith(`${answer}\n`)).toBe(true);
      expect(model.learned('Refund order A-7.')).toContain('It was not repeated.');
    });

    test('an idempotent function is called again', async () => {
      expect(GUIDE).toContain("add `idempotent: true, version: '2',` below `name: 'refund',`");
      const repeatable = refunds!.replace("name: 'refund',", "$&\n  idempotent: true, version: '2',");
      // And the bank is faster.
      const program = repeatable.replace('30_000', '10_000');
      expect(program).toContain("version: '2'");
      expect(await killed(program, 'It was refunded.', repeated!.trim())).toMatch(/It was refunded\.\n$/);
      expect(model.learned('Refund order A-7.')).toContain('refunded');
    });
  });
});
