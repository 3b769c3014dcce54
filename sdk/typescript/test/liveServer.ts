/** A real server, for as long as the tests run: `rejoin dev`, with the binary of REJOIN_TEST_BIN. Ends only what it has started. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const READY_LIMIT_MS = Number(process.env.REJOIN_TEST_READY_S ?? '110') * 1000;
const STOP_LIMIT_MS = 40_000;
const WAIT_LIMIT_MS = 60_000;
/** Neither a model nor a database of the surroundings. */
const FOREIGN = /^(REJOIN_(?!PG_BIN$)|DATABASE_URL|OPENAI_|ANTHROPIC_|GEMINI_|OLLAMA_)/;

/** Why there are no live tests. Undefined: there are. With CI=true nothing is skipped. */
export const skipped = ((): string | undefined => {
  const binary = process.env.REJOIN_TEST_BIN;
  try {
    accessSync(binary ?? '', constants.X_OK);
    return undefined;
  } catch {
    const reason = `REJOIN_TEST_BIN names no binary that can be executed: ${binary}`;
    if (process.env.CI === 'true') throw new Error(`${reason}, and with CI=true nothing is skipped`);
    return reason;
  }
})();

export interface Run {
  readonly state: string;
  readonly summary: string | null;
}

export interface Question {
  readonly id: string;
  readonly runId: string;
  readonly question: string;
}

/** PostgreSQL, API and one worker of Rejoin. */
export class LiveServer {
  private constructor(
    private readonly child: ChildProcess,
    readonly dataDir: string,
    readonly url: string,
    readonly apiKey: string,
    readonly projectId: string,
  ) {}

  static async start(modelUrl: string): Promise<LiveServer> {
    const dataDir = mkdtempSync(join(tmpdir(), 'rejoin-sdk-ts-'));
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !FOREIGN.test(name)));
    const settings = {
      OPENAI_BASE_URL: modelUrl,
      OPENAI_API_KEY: 'scripted',
      REJOIN_MODEL: 'openai:scripted',
      // A worker that is killed is missed soon.
      REJOIN_REMOTE_LEASE_S: '3',
    };
    const command = ['dev', '--json', '--port', '0', '--data-dir', dataDir];
    const child = spawn(process.env.REJOIN_TEST_BIN!, command, {
      env: { ...own, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    try {
      const { url, apiKey, projectId } = JSON.parse(await firstLine(child)) as Record<
        'url' | 'apiKey' | 'projectId',
        string
      >;
      return new LiveServer(child, dataDir, url, apiKey, projectId);
    } catch (error) {
      await end(child, dataDir);
      throw error;
    }
  }

  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers = {
      accept: 'application/json',
      authorization: `Bearer ${this.apiKey}`,
      'content-type': 'application/json',
    };
    const response = await fetch(this.url + path, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  /** An agent that has a tool gets a message. Returns the id of its run. */
  async ask(tool: string, message: string): Promise<string> {
    const name = `agent-${randomUUID().slice(0, 8)}`;
    const agent = {
      name,
      description: 'For a test.',
      systemPrompt: 'Answer.',
      model: { name: 'openai:scripted' },
      tools: [tool],
    };
    const path = `/api/admin/projects/${this.projectId}/agent-definitions`;
    const { id } = await this.request<{ id: string }>('POST', path, { ...agent, flowType: 'single' });
    return (await this.send(message, { agentDefinitionId: id })).runId;
  }

  /** Returns the id of the agent with a name, as clients find it. */
  async agent(name: string): Promise<{ readonly agentDefinitionId: string }> {
    const path = `/api/projects/${this.projectId}/agents?limit=100`;
    const { items } = await this.request<{ items: { id: string; name: string }[] }>('GET', path);
    return { agentDefinitionId: items.find((agent) => agent.name === name)!.id };
  }

  /** Sends a message to an agent, or in a conversation. */
  async send(
    message: string,
    to: { readonly agentDefinitionId: string } | { readonly conversationId: string },
  ): Promise<{ readonly runId: string; readonly conversationId: string }> {
    return await this.request('POST', '/api/chat/stream', { message, ...to, clientTurnId: randomUUID() });
  }

  /** Waits for a question of a run. */
  async question(runId: string): Promise<Question> {
    let found: Question | undefined;
    await until(async () => {
      const { items } = await this.request<{ items: Question[] }>('GET', '/api/questions?status=pending');
      found = items.find((question) => question.runId === runId);
      return found !== undefined;
    });
    return found!;
  }

  /** A user answers a question. */
  async answer({ id }: Question, answer: string): Promise<void> {
    await this.request('POST', `/api/questions/${id}/answer`, { answer });
  }

  /** Waits for the end of a run. */
  async ended(runId: string): Promise<Run> {
    let run: Run | undefined;
    await until(async () => {
      run = await this.request<Run>('GET', `/api/runs/${runId}`);
      return ['completed', 'failed', 'cancelled', 'paused'].includes(run.state);
    });
    return run!;
  }

  /** Waits until a worker is there: its name, or a tool of it. */
  async has(what: string): Promise<void> {
    await until(async () => {
      const { items } = await this.request<{ items: { name: string; alive: boolean; tools: string[] }[] }>(
        'GET',
        '/api/workers',
      );
      return items.some(({ name, alive, tools }) => alive && [name, ...tools].includes(what));
    });
  }

  async stop(): Promise<void> {
    await end(this.child, this.dataDir);
  }
}

/** Waits for a condition. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_LIMIT_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`never true: ${condition}`);
    await pause(20);
  }
}

async function firstLine(child: ChildProcess): Promise<string> {
  let log = '';
  child.stderr!.on('data', (bytes: Buffer) => (log = (log + bytes.toString()).slice(-4000)));
  return await new Promise((resolve, reject) => {
    let out = '';
    const late = setTimeout(() => reject(new Error(`not ready within ${READY_LIMIT_MS} ms: ${log}`)), READY_LIMIT_MS);
    child.stdout!.on('data', (bytes: Buffer) => {
      out += bytes.toString();
      if (!out.includes('\n')) return;
      clearTimeout(late);
      resolve(out);
    });
    child.once('exit', (code) => reject(new Error(`it ended with ${code}: ${log}`)));
  });
}

async function end(child: ChildProcess, dataDir: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const kill = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
    await ended;
    clearTimeout(kill);
  }
  rmSync(dataDir, { recursive: true, force: true });
}
