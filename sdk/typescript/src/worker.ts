/** The worker: a process that serves tools and agents. */
import { AgentFunction, type AnyAgent } from './agent.js';
import { Connection } from './connection.js';
import { ConfigurationError } from './errors.js';
import type { AnyTool } from './handler.js';
import { Http } from './http.js';
import { LIMITS, type Limits } from './limits.js';
import { CONSOLE, type Logger } from './logger.js';
import { PromptedAgent } from './promptedAgent.js';
import { Session } from './session.js';
import { type ApiKey, resolve } from './settings.js';
import { exitSoon, onSignals } from './signals.js';
import { environment, processName, readText } from './surroundings.js';
import { Tool } from './tool.js';
import type { Fetch } from './transport.js';

export interface WorkerOptions {
  /** Groups workers, such as `default` or `gpu`. */
  queue?: string;
  /** How many calls run at the same time; default 10, at most 1,000. */
  slots?: number;
  /** Of this program, for lists of workers. Default: the machine and the process. */
  name?: string;
  /** Of this program, for lists of workers. */
  version?: string;
  /** Default: REJOIN_URL, or the server of `rejoin dev` on this machine. */
  url?: string;
  /** Default: REJOIN_API_KEY, or the key of `rejoin dev` on this machine. It needs the scope `worker`. */
  apiKey?: ApiKey;
  /** Default: REJOIN_PROJECT_ID. */
  projectId?: string;
  /** Sends all requests, in place of Node's HTTP client, or of `fetch` elsewhere: for example, through a proxy. */
  fetch?: Fetch;
  /** How long calls may take to end when the worker stops; default 25,000. */
  drainTimeoutMs?: number;
  /** Where the worker writes what happens. Default: `console.error`. */
  logger?: Logger;
  /** Timeouts and retries. */
  limits?: Partial<Limits>;
}

/** A heartbeat names all calls. */
const SLOTS_MAX = 1000;
/** Maximum number of tools of a registration. Each agent of a function has one. */
const TOOLS_MAX = 128;
const AGENTS_MAX = 128;
const DRAIN_TIMEOUT_MS = 25_000;
const QUEUE = /^[A-Za-z0-9_.-]{1,64}$/;

/**
 * Serves tools and agents to a workspace, until it is stopped.
 *
 * Functions share the event loop with the heartbeats: one that blocks it for longer than the lease (15 s) loses the calls of this process.
 */
export class Worker {
  readonly #tools: ReadonlyMap<string, AnyTool>;
  readonly #agents: readonly AnyAgent[];
  readonly #options: WorkerOptions;
  readonly #queue: string;
  readonly #slots: number;

  /** Throws a `TypeError` or a `RangeError`, with what to change, if something is wrong with the arguments. */
  constructor(tools: Iterable<AnyTool | AnyAgent>, options: WorkerOptions = {}) {
    const given = [...tools];
    this.#agents = distinct(given.filter((one) => one instanceof AgentFunction || one instanceof PromptedAgent));
    this.#tools = byName(served(given), this.#agents);
    this.#options = options;
    this.#queue = options.queue ?? 'default';
    this.#slots = options.slots ?? 10;
    if (!QUEUE.test(this.#queue))
      throw new TypeError(
        `the queue ${JSON.stringify(this.#queue)} does not have 1 to 64 letters, digits, \`_\`, \`-\` and \`.\``,
      );
    if (!Number.isInteger(this.#slots) || this.#slots < 1 || this.#slots > SLOTS_MAX)
      throw new RangeError(`slots is ${this.#slots}; choose 1 to ${SLOTS_MAX}, and start more processes for more`);
  }

  /**
   * Serves until `signal` is aborted; then it ends its calls, and leaves.
   *
   * It waits for an API that is away, and registers again if the API has lost it.
   *
   * Rejects with a `ConfigurationError` if no key is known, and with an `APIError` if the API refuses the worker: 403 without the scope, 409 if
   * another worker serves the same version of a tool differently.
   */
  async serve(signal?: AbortSignal): Promise<void> {
    await this.#serve(signal);
  }

  /**
   * Serves until SIGTERM or SIGINT; then it ends its calls, and leaves. A second signal ends the process at once. Rejects as `serve` does.
   *
   * If functions have not stopped by then, they do not keep the process: it exits within a second.
   */
  async run(): Promise<void> {
    const { logger = CONSOLE } = this.#options;
    const signals = onSignals((name) =>
      logger.warn(`${name}: the worker ends its calls, and stops; a second signal stops it at once`),
    );
    try {
      if ((await this.#serve(signals.stop)) > 0) exitSoon();
    } finally {
      signals.close();
    }
  }

  /** Returns how many functions have not ended. */
  async #serve(signal: AbortSignal | undefined): Promise<number> {
    const { logger = CONSOLE, drainTimeoutMs = DRAIN_TIMEOUT_MS } = this.#options;
    const settings = await resolve(this.#options, environment(), readText);
    if (!URL.canParse(settings.url)) throw new ConfigurationError(`the URL ${settings.url} is not one`);
    const announcement = {
      name: this.#options.name || (await processName()),
      version: this.#options.version ?? '',
      slots: this.#slots,
      tools: [...this.#tools.values()].map((tool) => tool.definition()),
      agents: this.#agents.map((agent) => agent.definition()),
    };
    if (signal?.aborted) return 0;
    const ended = new AbortController();
    const limits = { ...LIMITS, ...this.#options.limits };
    const connection = new Connection(new Http(settings), this.#queue, announcement, limits, logger, ended.signal);
    return await new Session(connection, this.#tools, this.#slots, drainTimeoutMs, () => ended.abort()).run(signal);
  }
}

function distinct(agents: readonly AnyAgent[]): readonly AnyAgent[] {
  const names = new Set<string>();
  for (const { name } of agents) {
    if (names.has(name)) throw new TypeError(`there are two agents named ${name}; give one of them another name`);
    names.add(name);
  }
  if (agents.length > AGENTS_MAX)
    throw new RangeError(
      `a worker has at most ${AGENTS_MAX} agents, not ${agents.length}; start another worker for the others`,
    );
  return agents;
}

/** Returns the tools of a list with those of its agents: what an agent with a prompt may call is served once. */
function served(given: readonly (AnyTool | AnyAgent)[]): AnyTool[] {
  const tools: AnyTool[] = [];
  const called = new Set<AnyTool>();
  for (const one of given) {
    if (one instanceof PromptedAgent) {
      for (const tool of one.tools) if (typeof tool !== 'string') called.add(tool);
    } else {
      tools.push(one instanceof AgentFunction ? one.tool : one);
    }
  }
  return [...tools, ...[...called].filter((tool) => !tools.includes(tool))];
}

function byName(tools: Iterable<AnyTool>, agents: readonly AnyAgent[]): ReadonlyMap<string, AnyTool> {
  const found = new Map<string, AnyTool>();
  for (const one of tools) {
    // Callers without a type checker.
    if (!(one instanceof Tool))
      throw new TypeError(`${String(one)} is neither a tool nor an agent; make one with tool({…}) or agent({…})`);
    if (found.has(one.name))
      throw new TypeError(
        `there are two tools named ${one.name}; a second version needs another worker, and an agent may have another toolName`,
      );
    found.set(one.name, one);
  }
  if (found.size === 0) {
    if (agents.length === 0) throw new TypeError('a worker needs at least one tool or agent');
    const names = agents.map(({ name }) => name).join(', ');
    throw new TypeError(
      `a worker serves at least one tool, and its agents (${names}) bring none; pass a tool to it, or in the tools of an agent`,
    );
  }
  if (found.size > TOOLS_MAX)
    throw new RangeError(
      `a worker has at most ${TOOLS_MAX} tools and agents, not ${found.size}; start another worker for the others`,
    );
  return found;
}
