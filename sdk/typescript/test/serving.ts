/** Workers for tests: in this process, and as a program. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type AnyAgent, type AnyTool, type Logger, Worker, type WorkerOptions } from '../src/index.js';
import { KEY } from './protocolRules.js';
import type { ProtocolServer } from './protocolServer.js';

const HERE = fileURLToPath(new URL('..', import.meta.url));
const PROGRAM = join(HERE, 'test', 'workerProgram.js');

/** A logger that keeps what is written. */
export class Log implements Logger {
  readonly lines: string[] = [];

  info = (message: string) => void this.lines.push(`info ${message}`);
  warn = (message: string) => void this.lines.push(`warn ${message}`);
  error = (message: string, cause?: unknown) =>
    void this.lines.push(`error ${message} ${cause instanceof Error ? cause.stack : ''}`);

  /** How many lines have this text. */
  count(text: string): number {
    return this.lines.filter((line) => line.includes(text)).length;
  }
}

export function worker(api: ProtocolServer, tools: (AnyTool | AnyAgent)[], options: WorkerOptions = {}): Worker {
  const limits = { pauseMinMs: 20, pauseMaxMs: 100 };
  return new Worker(tools, { url: api.url, apiKey: KEY, limits, logger: new Log(), ...options });
}

/** Runs the block while a worker serves, which leaves at its end. */
export async function serving(
  api: ProtocolServer,
  tools: (AnyTool | AnyAgent)[],
  block: () => Promise<void>,
  options: WorkerOptions = {},
): Promise<void> {
  const stop = new AbortController();
  const served = worker(api, tools, options).serve(stop.signal);
  try {
    // A worker that ends early fails the test.
    await Promise.race([block(), served.then(() => Promise.reject(new Error('the worker has ended')))]);
  } finally {
    stop.abort();
    await served;
  }
}

/** A worker in another process. */
export interface Program {
  readonly process: ChildProcess;
  /** Its exit code, or the signal that has ended it. */
  readonly ended: Promise<number | string>;
}

/** Runs the block while the program `workerProgram` runs, and kills it at the end, unless it has ended before. */
export async function program<T>(
  api: { readonly url: string; readonly apiKey: string },
  block: (program: Program) => Promise<T>,
  drainTimeoutMs = 60_000,
): Promise<T> {
  const env = { ...process.env, REJOIN_URL: api.url, REJOIN_API_KEY: api.apiKey };
  const child = spawn(process.execPath, [PROGRAM, String(drainTimeoutMs)], {
    env,
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  let log = '';
  child.stderr!.on('data', (bytes: Buffer) => (log = (log + bytes.toString()).slice(-4000)));
  const ended = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ?? code ?? -1)),
  );
  try {
    return await block({ process: child, ended });
  } catch (error) {
    console.error(log);
    throw error;
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** Runs the block while an example of the README, as it is printed, runs in a folder. Fails if it does not end in order. */
export async function example<T>(
  index: number,
  folder: string,
  env: NodeJS.ProcessEnv,
  block: () => Promise<T>,
): Promise<T> {
  const examples = [...readFileSync(join(HERE, 'README.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)];
  writeFileSync(join(folder, 'example.mjs'), examples[index]![1]!);
  mkdirSync(join(folder, 'node_modules', '@rejoin'), { recursive: true });
  symlinkSync(HERE, join(folder, 'node_modules', '@rejoin', 'sdk'));
  symlinkSync(join(HERE, 'node_modules', 'zod'), join(folder, 'node_modules', 'zod'));
  const child = spawn(process.execPath, ['example.mjs'], {
    cwd: folder,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    return await block();
  } finally {
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
  }
}
