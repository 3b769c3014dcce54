/** A real server, for as long as the tests run: `rejoin dev`, with the binary of `REJOIN_TEST_BIN`. Ends only what it has started. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { accessSync, constants, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const READY_LIMIT_MS = 110_000;
const STOP_LIMIT_MS = 40_000;

const binary = process.env.REJOIN_TEST_BIN;

/** Why something is skipped. With CI=true that is an error: there, everything is tried. */
export function skip(reason: string): string {
  if (process.env.CI === 'true') throw new Error(`${reason}, and with CI=true nothing is skipped`);
  return `SKIPPED: ${reason}`;
}

/** Why there are no live tests; none: there are. */
export const skipped = ((): string | undefined => {
  if (!binary) return skip('REJOIN_TEST_BIN names no rejoin binary');
  try {
    accessSync(binary, constants.X_OK);
    return undefined;
  } catch {
    return skip(`${binary} can't be executed`);
  }
})();

export class Server {
  private constructor(
    private readonly child: ChildProcess,
    private readonly dir: string,
    readonly url: string,
    readonly apiKey: string,
    readonly projectId: string,
  ) {}

  static async start(env: Record<string, string> = {}): Promise<Server> {
    const dir = mkdtempSync(join(tmpdir(), 'rejoin-client-'));
    // Neither a model nor a database of the surroundings.
    const own = Object.fromEntries(
      Object.entries(process.env).filter(
        ([name]) => !/^(REJOIN_|DATABASE_URL|OPENAI_|ANTHROPIC_|GEMINI_|OLLAMA_)/.test(name),
      ),
    );
    const child = spawn(binary!, ['dev', '--json', '--port', '0', '--data-dir', dir], {
      env: { ...own, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stderr = '';
    child.stderr!.on('data', (bytes: Buffer) => (stderr = (stderr + bytes.toString()).slice(-4000)));
    const line = await new Promise<string>((resolve, reject) => {
      let out = '';
      const timer = setTimeout(
        () => reject(new Error(`not ready within ${READY_LIMIT_MS} ms: ${stderr}`)),
        READY_LIMIT_MS,
      );
      child.stdout!.on('data', (bytes: Buffer) => {
        out += bytes.toString();
        if (!out.includes('\n')) return;
        clearTimeout(timer);
        resolve(out);
      });
      child.on('exit', (code) => reject(new Error(`it ended with ${code}: ${stderr}`)));
    });
    const { url, apiKey, projectId } = JSON.parse(line) as Record<'url' | 'apiKey' | 'projectId', string>;
    return new Server(child, dir, url, apiKey, projectId);
  }

  /** The worker processes of this moment: children of the one that we started. */
  workers(): number[] {
    return children(this.child.pid!).filter((pid) => args(pid)[1] === 'worker');
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    if (this.child.exitCode === null) {
      this.child.kill('SIGTERM');
      const timer = setTimeout(() => this.child.kill('SIGKILL'), STOP_LIMIT_MS);
      await ended;
      clearTimeout(timer);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function children(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        // The fields behind the name, which may hold anything.
        return readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')[1] === String(parent);
      } catch {
        return false;
      }
    });
}

function args(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}
