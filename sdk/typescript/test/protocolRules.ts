/**
 * The workers and calls of one workspace: docs/reference/worker-protocol.md, read strictly. What a worker may not do is in `violations`.
 *
 * The numbers are smaller than those of a real server, so that no test waits for long.
 */
import { randomUUID } from 'node:crypto';
import type { AgentDefinition, PromptedAgentDefinition, ToolDefinition } from '../src/index.js';
import { type Body, type FIELDS, faultsOf, type Offered, Problem, type Registered } from './protocolRecords.js';
import * as steps from './protocolSteps.js';

export const KEY = 'rejoin_worker_key';
const ATTEMPTS_MAX = 5;
const RETRY_MS = 50;
/** Maximum number of tools, and of agents, of one worker. */
const TOOLS_MAX = 128;
/** Maximum length of an agent's name and description, in characters. */
const AGENT_TEXT_MAX = 200;
/** Maximum length of a prompt, in characters. */
const PROMPT_MAX = 200_000;
/** A claim that was sent before the worker began to drain may arrive after that. */
const LATE_CLAIM_MS = 500;
/** How often a claim that waits looks for calls. */
const LOOK_MS = 10;
/** How long a request may be on its way. */
const IN_FLIGHT_MS = 500;

type Announced = AgentDefinition | PromptedAgentDefinition;

export const nowMs = () => performance.now();

export class ProtocolRules {
  leaseS = 60;
  heartbeatS = 0.2;
  claimWaitMaxS = 1;
  /** Maximum number of records of a request. 0: it takes none with others, as an older server. */
  recordsMax = 0;
  allowed = true;
  readonly workers = new Map<string, Registered>();
  readonly calls = new Map<string, Offered>();
  readonly violations: string[] = [];
  /** The number of times that the API has gone away: a claim that waited then gets nothing. */
  protected epoch = 0;

  /** Returns the status and the JSON of a response. Throws a `Problem`. */
  async respond(
    method: string,
    path: string,
    body: Body,
    authorization: string | undefined,
  ): Promise<[number, unknown]> {
    const match =
      /^\/api\/workers\/([A-Za-z0-9_.-]{1,64})\/(registrations|claims|heartbeats|records|calls)((?:\/[^/?]+)*)(\?.*)?$/.exec(
        path,
      );
    if (!match) throw this.#violation(404, 'not_found', `${method} ${path}`);
    const [, queue = '', kind, tail = '', query] = match;
    const rest = tail.split('/').slice(1);
    if (authorization !== `Bearer ${KEY}`) throw new Problem(401, 'unauthenticated');
    if (!this.allowed) throw new Problem(403, 'forbidden');
    this.sweep();
    if (method === 'DELETE' && kind === 'registrations' && rest.length === 1) return [204, this.#leave(rest[0]!)];
    if (method === 'GET' && kind === 'calls' && rest.length === 2) return [200, this.#steps(rest[0]!, rest[1]!, query)];
    if (method !== 'POST' || query !== undefined || rest.length !== (kind === 'calls' ? 2 : 0))
      throw this.#violation(404, 'not_found', `${method} ${path}`);
    if (kind === 'registrations') return [201, this.#register(queue, body)];
    if (kind === 'claims') return [200, await this.#claim(queue, body)];
    if (kind === 'heartbeats') return [200, this.#heartbeat(queue, body)];
    if (kind === 'records') return [200, { records: this.#records(body) }];
    return [200, { status: this.#about(rest[0]!, rest[1]!, body) }];
  }

  /** Ends the leases that were not renewed. */
  sweep(): void {
    for (const worker of this.workers.values()) if (worker.aliveUntil < nowMs()) this.workers.delete(worker.id);
    for (const call of this.calls.values()) if (call.leaseUntil < nowMs()) this.#lose(call);
  }

  #violation(status: number, code: string, what: string): Problem {
    this.violations.push(what);
    return new Problem(status, code);
  }

  #fields(kind: keyof typeof FIELDS, body: Body): void {
    const faults = faultsOf(kind, body);
    if (faults.length > 0) throw this.#violation(400, 'bad_request', `fields ${faults} of ${JSON.stringify(body)}`);
  }

  #register(queue: string, body: Body): unknown {
    this.#fields('registration', body);
    const tools = new Map<string, ToolDefinition>();
    for (const tool of body.tools as ToolDefinition[]) {
      this.#fields('tool', tool as unknown as Body);
      const named = /^[A-Za-z0-9_-]{1,64} [A-Za-z0-9_.-]{1,32}$/.test(`${tool.name} ${tool.version}`);
      const ranged = tool.timeoutS >= 1 && tool.timeoutS <= 86_400 && tool.description;
      if (!named || !ranged || tool.inputSchema.type !== 'object')
        throw this.#violation(400, 'bad_request', `tool ${JSON.stringify(tool)}`);
      tools.set(keyOf(tool.name, tool.version), tool);
    }
    this.#checkAgents((body.agents ?? []) as Announced[], body.tools as ToolDefinition[]);
    for (const other of this.workers.values())
      for (const [key, tool] of other.tools)
        if (tools.has(key) && JSON.stringify(tools.get(key)) !== JSON.stringify(tool))
          throw new Problem(409, 'tool_conflict');
    const worker: Registered = {
      id: randomUUID(),
      queue,
      slots: body.slots as number,
      tools,
      aliveUntil: nowMs() + this.leaseS * 1000,
      drainingSince: Infinity,
    };
    this.workers.set(worker.id, worker);
    const { leaseS, heartbeatS, claimWaitMaxS, recordsMax } = this;
    return { workerId: worker.id, queue, leaseS, heartbeatS, claimWaitMaxS, ...(recordsMax > 0 ? { recordsMax } : {}) };
  }

  #checkAgents(agents: readonly Announced[], tools: readonly ToolDefinition[]): void {
    const served = new Set(tools.map(({ name }) => name));
    for (const agent of agents) {
      const isPrompted = 'systemPrompt' in agent;
      this.#fields(isPrompted ? 'agentOfPrompt' : 'agentOfFunction', agent as unknown as Body);
      const texts = [agent.name, agent.description].map((text) => [...text].length);
      const fits = isPrompted ? [...agent.systemPrompt].length <= PROMPT_MAX : served.has(agent.tool);
      if (!agent.name.trim() || Math.max(...texts) > AGENT_TEXT_MAX || !fits)
        throw this.#violation(400, 'invalid_registration', `agent ${JSON.stringify(agent)}`);
      // The key has the scope `worker`, and no other.
      if (isPrompted && agent.tools.some((tool) => !served.has(tool)))
        throw this.#violation(403, 'scope_missing', `tools of the agent ${JSON.stringify(agent)}`);
    }
    if (agents.length > TOOLS_MAX || new Set(agents.map(({ name }) => name)).size < agents.length)
      throw this.#violation(400, 'invalid_registration', `agents ${JSON.stringify(agents)}`);
  }

  #worker(queue: string, body: Body): Registered {
    const worker = this.workers.get(body.workerId as string);
    if (worker?.queue !== queue) throw new Problem(404, 'worker_unknown');
    return worker;
  }

  async #claim(queue: string, body: Body): Promise<unknown> {
    this.#fields('claim', body);
    const { max, waitS } = body as { max: number; waitS: number };
    const worker = this.#worker(queue, body);
    const has = [...this.calls.values()].filter(
      (call) => call.workerId === worker.id && call.status === 'running',
    ).length;
    if (max < 1 || waitS > this.claimWaitMaxS || has + max > worker.slots)
      throw this.#violation(400, 'bad_request', `claim ${JSON.stringify(body)} of a worker with ${has} calls`);
    if (worker.drainingSince + LATE_CLAIM_MS < nowMs()) this.violations.push('a claim of a worker that drains');
    worker.aliveUntil = Math.max(worker.aliveUntil, nowMs() + (waitS + this.leaseS) * 1000);
    const [untilMs, epoch] = [nowMs() + waitS * 1000, this.epoch];
    for (;;) {
      this.#worker(queue, body);
      const isGone = epoch !== this.epoch || worker.drainingSince <= nowMs();
      const waiting = isGone ? [] : [...this.calls.values()].filter((call) => isFor(worker, call)).slice(0, max);
      if (waiting.length > 0 || isGone || nowMs() >= untilMs)
        return { calls: waiting.map((call) => this.#handOut(call, worker)) };
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      this.sweep();
    }
  }

  #handOut(call: Offered, worker: Registered): unknown {
    const tool = worker.tools.get(keyOf(call.tool, call.version))!;
    call.attempt += 1;
    call.status = 'running';
    call.workerId = worker.id;
    call.leaseUntil = nowMs() + this.leaseS * 1000;
    call.repeatable = tool.readOnly || tool.idempotent;
    steps.handOut(call);
    const { id, attempt, version, input, timeoutS, checkpoint, runId } = call;
    const more = { runId, conversationId: null, callId: 'call_1', createdAt: '2026-11-26T12:00:00Z' };
    const about = { idempotencyKey: `key-${id}`, timeoutS, checkpoint, steps: call.steps.size, ...more };
    return { id, attempt, tool: call.tool, version, input, ...about };
  }

  #heartbeat(queue: string, body: Body): unknown {
    this.#fields('heartbeat', body);
    const worker = this.#worker(queue, body);
    worker.aliveUntil = nowMs() + this.leaseS * 1000;
    if (body.draining) worker.drainingSince = Math.min(worker.drainingSince, nowMs());
    const answer: Record<'held' | 'cancelled' | 'lost', string[]> = { held: [], cancelled: [], lost: [] };
    for (const one of body.calls as { id: string; attempt: number }[]) {
      this.#fields('attempt', one as unknown as Body);
      const call = this.calls.get(one.id)!;
      const has = call.workerId === worker.id && call.attempt === one.attempt;
      const state =
        has && call.status === 'running' ? 'held' : has && call.status === 'cancelled' ? 'cancelled' : 'lost';
      answer[state].push(call.id);
      if (state === 'held') call.leaseUntil = worker.aliveUntil;
      else if (!call.void.has(one.attempt)) call.void.set(one.attempt, nowMs());
    }
    return answer;
  }

  /** A page of recorded steps. */
  #steps(id: string, kind: string, query: string | undefined): unknown {
    const call = this.calls.get(id);
    const after = /^\?after=(\d+)$/.exec(query ?? '')?.[1];
    if (!call || kind !== 'steps' || after === undefined)
      throw this.#violation(404, 'call_not_found', `${kind}${query} of ${id}`);
    return { items: steps.list(call, Number(after)) };
  }

  #records(body: Body): unknown[] {
    this.#fields('records', body);
    const records = body.records as Body[];
    if (records.length < 1 || records.length > this.recordsMax)
      throw this.#violation(400, 'invalid_records', `${records.length} records`);
    return records.map((record) => {
      const kind = 'step' in record ? 'steps' : 'completion';
      this.#fields(kind === 'steps' ? 'recordedStep' : 'recordedOutput', record);
      const fields = kind === 'steps' ? (record.step as Body) : { output: record.output };
      try {
        const about = { workerId: body.workerId, attempt: record.attempt, ...fields };
        return { status: this.#about(record.callId as string, kind, about) };
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        return { problem: { status: error.status, code: error.code, title: error.code } };
      }
    });
  }

  /** A completion, failure, progress, step or suspension. */
  #about(id: string, kind: string, body: Body): string {
    const call = this.calls.get(id);
    if (!call || !isAbout(kind)) throw this.#violation(404, 'call_not_found', `${kind} of ${id}`);
    this.#fields(kind, body);
    const recorded = JSON.stringify([kind, body]);
    const attempt = body.attempt as number;
    if (call.recorded === recorded && call.attempt === attempt)
      return kind === 'suspension' ? steps.suspended(body) : call.status;
    if (call.status !== 'running' || call.workerId !== body.workerId || call.attempt !== attempt) {
      // What was sent before the response may arrive after it.
      if ((call.void.get(attempt) ?? Infinity) + IN_FLIGHT_MS < nowMs() && !call.recorded)
        this.violations.push(`${kind} of an attempt that was cancelled or lost`);
      if ((call.handedBack.get(attempt) ?? recorded) !== recorded)
        this.violations.push(`${kind} of an attempt that has handed its call back`);
      throw new Problem(409, 'stale_attempt');
    }
    if (kind !== 'failure' && kind !== 'progress' && call.unread.size > 0)
      this.violations.push(`${kind} of an attempt that has not read the steps ${[...call.unread]}`);
    if (kind === 'steps') return steps.record(call, body, (...about) => this.#violation(...about));
    if (kind === 'suspension') {
      for (const wait of body.steps as Body[]) {
        this.#fields('wait', wait);
        const { kind: waitKind } = wait.wait as { kind: string };
        if (!steps.isWaitKind(waitKind)) throw this.#violation(400, 'bad_request', `a wait of the kind ${waitKind}`);
        this.#fields(waitKind, wait.wait as Body);
      }
      steps.suspend(call, body);
      call.recorded = recorded;
      call.handedBack.set(attempt, recorded);
      return call.status;
    }
    if (kind === 'progress') {
      if (body.message !== undefined) call.messages.push(body.message as string);
      call.checkpoint = body.checkpoint ?? call.checkpoint;
      return 'running';
    }
    call.recorded = recorded;
    if (kind === 'completion') {
      call.status = 'completed';
      call.output = body.output;
    } else if (body.retry && lossesOf(call) < ATTEMPTS_MAX) {
      call.status = 'waiting';
      call.notBefore = nowMs() + RETRY_MS;
    } else {
      call.status = 'error';
      call.error = body.error as string;
    }
    return call.status;
  }

  #leave(workerId: string): undefined {
    if (!this.workers.delete(workerId)) throw new Problem(404, 'worker_unknown');
    for (const call of this.calls.values()) if (call.workerId === workerId) this.#lose(call);
  }

  #lose(call: Offered): void {
    if (call.status !== 'running') return;
    const isKept = call.repeatable || call.checkpoint !== null || call.steps.size > 0;
    const again = isKept && lossesOf(call) < ATTEMPTS_MAX;
    call.status = again ? 'waiting' : 'outcome_unknown';
  }
}

const ABOUT = ['completion', 'failure', 'progress', 'steps', 'suspension'] as const;

function isAbout(kind: string): kind is (typeof ABOUT)[number] {
  return (ABOUT as readonly string[]).includes(kind);
}

/** The attempts of a call, without those that have handed it back to wait. */
function lossesOf(call: Offered): number {
  return call.attempt - call.handedBack.size;
}

function isFor(worker: Registered, call: Offered): boolean {
  return call.status === 'waiting' && call.notBefore <= nowMs() && worker.tools.has(keyOf(call.tool, call.version));
}

function keyOf(name: string, version: string): string {
  return `${name}@${version}`;
}
