/** An API for workers, on a real socket, with the faults that a test wants. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Body, type Offered, Problem, type Status, type Step } from './protocolRecords.js';
import { nowMs, ProtocolRules } from './protocolRules.js';
import * as steps from './protocolSteps.js';

const WAIT_LIMIT_MS = 60_000;

export class ProtocolServer extends ProtocolRules {
  /** What was requested: the kind, such as `claims`, and the body. */
  readonly requests: [kind: string, body: Body][] = [];
  /** Statuses of the next responses, by kind of the request. 0: the request is carried out, and the connection is cut. */
  readonly faults: Record<string, number[]> = {};
  /** How long the responses to claims that have calls take. */
  claimDelayMs = 0;
  #http: Server | undefined;
  #port = 0;

  private constructor() {
    super();
  }

  static async start(
    settings: Partial<Pick<ProtocolRules, 'leaseS' | 'heartbeatS' | 'claimWaitMaxS' | 'recordsMax'>> = {},
  ) {
    const server = Object.assign(new ProtocolServer(), settings);
    await server.back();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** An agent calls a tool. */
  offer(tool: string, input: Body = {}, timeoutS = 60, version = '1', runId: string | null = 'run'): Offered {
    const call: Offered = {
      ...{
        id: randomUUID(),
        tool,
        version,
        input,
        timeoutS,
        status: 'waiting',
        attempt: 0,
        workerId: '',
        leaseUntil: Infinity,
      },
      ...{ notBefore: 0, repeatable: false, checkpoint: null, output: undefined, error: undefined, messages: [] },
      ...{ recorded: undefined, void: new Map<number, number>(), handedBack: new Map<number, string>() },
      ...{ runId, steps: new Map<number, Step>(), unread: new Set<number>(), signals: [] },
    };
    this.calls.set(call.id, call);
    return call;
  }

  /** An agent calls a tool, and an earlier attempt has recorded these steps. */
  offerAgain(tool: string, recorded: Partial<Step>[], input: Body = {}): Offered {
    const call = this.offer(tool, input);
    call.attempt = 1;
    for (const [index, step] of recorded.entries()) {
      const number = index + 1;
      const usual = { number, name: `step ${number}`, kind: 'function', status: 'completed', output: number } as const;
      call.steps.set(number, { ...usual, error: null, attempt: 1, ...step });
    }
    return call;
  }

  /** A program sends a signal to the run of a call. Returns whether it was delivered. */
  signal(call: Offered, name: string, data: unknown): boolean {
    return steps.signal(call, name, data);
  }

  /** What a call waits for has ended: a user has answered, or an agent has ended. */
  answer(call: Offered, number: number, end: { readonly output: unknown } | { readonly error: string }): void {
    steps.end(call, number, end);
  }

  /** The run of a call is cancelled. */
  cancel(call: Offered): void {
    call.status = 'cancelled';
  }

  /** Gives a call to another worker, as if its lease had expired. */
  take(call: Offered): void {
    call.attempt += 1;
    call.workerId = 'another';
    call.leaseUntil = Infinity;
  }

  /** Loses all registrations. */
  forgetWorkers(): void {
    this.workers.clear();
  }

  /** Ends: connections are cut and refused. */
  async away(): Promise<void> {
    this.epoch += 1;
    const http = this.#http!;
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  }

  /** Begins, at the same address. */
  async back(): Promise<void> {
    const http = createServer(
      (request, response) => void this.#answer(request, response).catch(() => response.destroy()),
    );
    this.#http = http;
    await new Promise<void>((resolve) => http.listen(this.#port, '127.0.0.1', resolve));
    this.#port = (http.address() as AddressInfo).port;
  }

  /** Ends, and fails the test if a worker has violated the protocol. */
  async close(): Promise<void> {
    if (this.#http?.listening) await this.away();
    expect(this.violations).toEqual([]);
  }

  /** How often something was requested. */
  count(kind: string): number {
    return this.requests.filter(([one]) => one === kind).length;
  }

  /** Waits for a condition. */
  async until(condition: () => unknown): Promise<void> {
    const deadline = nowMs() + WAIT_LIMIT_MS;
    while (!condition()) {
      if (nowMs() > deadline)
        throw new Error(`never true: ${condition}; ${JSON.stringify([...this.calls.values()])}; ${this.violations}`);
      await pause(10);
      this.sweep();
    }
  }

  /** Waits for the end of a call. */
  async ended(call: Offered): Promise<Offered> {
    const open: Status[] = ['waiting', 'running', 'suspended'];
    await this.until(() => !open.includes(call.status));
    return call;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let raw = '';
    for await (const chunk of request.setEncoding('utf8')) raw += chunk;
    const body = (raw ? JSON.parse(raw) : undefined) as Body;
    const { method = '', url = '' } = request;
    const last = url
      .split('?')[0]!
      .split('/')
      .at(method === 'DELETE' ? -2 : -1)!;
    const kind = method === 'POST' ? last : `${method} ${last}`;
    this.requests.push([kind, body]);
    const fault = this.faults[kind]?.shift();
    let [status, answer]: [number, unknown] = [fault ?? 0, { status: fault, code: 'fault', title: 'fault' }];
    if (!fault) {
      try {
        [status, answer] = await this.respond(method, url, body, request.headers.authorization);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        [status, answer] = [error.status, { status: error.status, code: error.code, title: error.code }];
      }
    }
    if (fault === 0) {
      response.destroy();
      return;
    }
    if (kind === 'claims' && (answer as { calls?: unknown[] }).calls?.length) await pause(this.claimDelayMs);
    response.writeHead(status, { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' });
    response.end(status === 204 ? undefined : JSON.stringify(answer));
  }
}
