/**
 * Where the API is, and the key for it: from arguments, else from the environment, else from the file that `rejoin dev` leaves on this
 * machine, as the command line does it.
 *
 * Invariant: the file's key is sent to the file's API only.
 */
import { ConfigurationError } from './errors.js';
import type { Environment } from './surroundings.js';
import type { Fetch } from './transport.js';

export const DEFAULT_URL = 'http://127.0.0.1:7420';

/** An API key or a token, or a function that returns one for each request. */
export type ApiKey = string | (() => string | Promise<string>);

/** What a program may set. */
export interface Given {
  readonly url?: string | undefined;
  readonly apiKey?: ApiKey | undefined;
  readonly projectId?: string | undefined;
  /** Sends all requests: for example, through a proxy. */
  readonly fetch?: Fetch | undefined;
}

/** An API and its credentials. */
export interface Settings {
  readonly url: string;
  readonly apiKey: ApiKey;
  readonly projectId: string | undefined;
  readonly fetch?: Fetch | undefined;
}

/**
 * Returns the API to use, with its key. An empty variable counts as absent. `read` returns the content of a file, if there is one.
 *
 * Rejects with a `ConfigurationError` if no key is known.
 */
export async function resolve(
  given: Given,
  environment: Environment,
  read: (path: string) => Promise<string | undefined>,
): Promise<Settings> {
  const wanted = given.url || environment.REJOIN_URL;
  const found = devInstance(await readIfAny(instanceFile(environment), read));
  // The file applies to its own API only.
  const instance = wanted && trimmed(wanted) !== trimmed(found.url ?? '') ? {} : found;
  const url = trimmed(wanted || instance.url || DEFAULT_URL);
  const apiKey = given.apiKey || environment.REJOIN_API_KEY || instance.apiKey;
  if (!apiKey)
    throw new ConfigurationError(
      `no API key for ${url}: start \`rejoin dev\` on this machine, or set REJOIN_API_KEY (and REJOIN_URL) for your server; ` +
        '`rejoin keys create --scopes worker` creates a key',
    );
  // The project of another key is unknown.
  const ofInstance = apiKey === instance.apiKey ? instance.projectId : undefined;
  const projectId = given.projectId || environment.REJOIN_PROJECT_ID || ofInstance;
  return { url, apiKey, projectId, fetch: given.fetch };
}

function trimmed(url: string): string {
  return url.replace(/\/+$/, '');
}

async function readIfAny(path: string | undefined, read: (path: string) => Promise<string | undefined>) {
  return path === undefined ? undefined : await read(path);
}

function instanceFile(environment: Environment): string | undefined {
  const { REJOIN_DATA_DIR, XDG_DATA_HOME, HOME } = environment;
  if (REJOIN_DATA_DIR) return `${REJOIN_DATA_DIR}/current.json`;
  if (XDG_DATA_HOME) return `${XDG_DATA_HOME}/rejoin/dev/current.json`;
  return HOME ? `${HOME}/.local/share/rejoin/dev/current.json` : undefined;
}

/** Reads what `rejoin dev` has written for other programs on this machine; empty if there is nothing to read. */
function devInstance(content: string | undefined): { url?: string; apiKey?: string; projectId?: string } {
  try {
    const fields = Object.entries(Object(JSON.parse(content ?? '{}')) as Record<string, unknown>);
    return Object.fromEntries(fields.filter(([, value]) => typeof value === 'string'));
  } catch {
    return {};
  }
}
