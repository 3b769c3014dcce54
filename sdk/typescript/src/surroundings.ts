/**
 * What the program runs in. This is the only file that uses more than web APIs, and only where it is there: Node.js, Deno and Bun have
 * `process`, and Node's modules, which are loaded when they are needed.
 */

export type Environment = Readonly<Record<string, string | undefined>>;

/** What is used of `process`. */
interface Process {
  readonly pid: number;
  readonly versions?: Readonly<Record<string, string | undefined>>;
  readonly env: Environment;
  exitCode?: number | string | null | undefined;
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
  removeAllListeners(signal: string): unknown;
  kill(pid: number, signal: string): unknown;
  exit(): never;
}

/** Undefined where there is none, such as in a browser. */
export const thisProcess: Process | undefined = (globalThis as { process?: Process }).process;

/** Whether this is Node.js: Deno and Bun have its version, too. */
export const runsInNode: boolean =
  thisProcess?.versions?.node !== undefined && !('Deno' in globalThis) && !('Bun' in globalThis);

/** Calls a function after what else happens in this turn of the event loop. */
export const soon: (then: () => void) => void =
  (globalThis as { setImmediate?: (then: () => void) => unknown }).setImmediate ?? ((then) => void setTimeout(then, 0));

/** The environment variables. */
export function environment(): Environment {
  return thisProcess?.env ?? {};
}

/** Returns the content of a file. Undefined: it can't be read. */
export async function readText(path: string): Promise<string | undefined> {
  try {
    const fs = (await nodeModule('node:fs/promises')) as { readFile(path: string, encoding: string): Promise<string> };
    return await fs.readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Returns a name for this process: its machine, and its number. */
export async function processName(): Promise<string> {
  try {
    const os = (await nodeModule('node:os')) as { hostname(): string };
    if (thisProcess?.pid) return `${os.hostname()}-${thisProcess.pid}`;
  } catch {
    // Not on this machine.
  }
  return `worker-${crypto.randomUUID()}`;
}

/** Returns a module of Node.js. By a variable, so that bundlers for other surroundings do not look for it. */
export function nodeModule(name: string): Promise<unknown> {
  return import(/* @vite-ignore */ name);
}
