/** The requests of the worker protocol (docs/reference/worker-protocol.md), and what they return. Nothing here does I/O. */
import { z } from 'zod';
import type { AgentDefinition } from './agent.js';
import type { Piece } from './answers.js';
import type { Completed, Failed, Suspended } from './outcomes.js';
import type { PromptedAgentDefinition } from './promptedAgent.js';
import type { EndedStep, RecordedStep } from './steps.js';
import type { ToolDefinition } from './tool.js';

/** One request, and how its response is read. */
export interface Request<T> {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly response: z.ZodType<T>;
  /** What it records of a call, if that may be sent with records of others. */
  readonly record?: AboutCall;
}

/** A record of a call, as it is sent with others. */
export interface AboutCall {
  readonly queue: string;
  readonly workerId: string;
  readonly fields: object;
}

/** A body that is JSON already. */
export class Json {
  constructor(readonly text: string) {}
}

const registration = z.object({
  workerId: z.string(),
  leaseS: z.number().positive(),
  heartbeatS: z.number().positive(),
  claimWaitMaxS: z.number().nonnegative(),
  // An older server takes each alone.
  recordsMax: z.number().default(0),
});
const claimedCall = z.object({
  id: z.string(),
  attempt: z.number(),
  tool: z.string(),
  version: z.string(),
  input: z.record(z.string(), z.unknown()),
  idempotencyKey: z.string(),
  timeoutS: z.number().positive(),
  runId: z.string().nullish(),
  conversationId: z.string().nullish(),
  checkpoint: z.unknown(),
  steps: z.number().default(0),
});
const recordedStep: z.ZodType<RecordedStep> = z.object({
  number: z.number(),
  name: z.string(),
  kind: z.string(),
  status: z.string(),
  output: z.unknown(),
  error: z.string().nullish(),
});
const stepPage = z.object({ items: z.array(recordedStep) });
const claimed = z.object({ calls: z.array(claimedCall) });
const ids = z.array(z.string()).default([]);
const heartbeatAnswer = z.object({ cancelled: ids, lost: ids });
const recorded = z.object({ status: z.string() });
const recordedTogether = z.object({
  records: z.array(z.object({ status: z.string().optional(), problem: z.record(z.string(), z.unknown()).optional() })),
});
const nothing = z.undefined();

/** A registered worker. */
export type Registration = z.output<typeof registration>;
/** A call that this worker has to execute. */
export type ClaimedCall = z.output<typeof claimedCall>;
/** The calls of a heartbeat that are to be stopped, by their ids. */
export type HeartbeatAnswer = z.output<typeof heartbeatAnswer>;

/** What became of a record that was sent with others: the state of its call, or the problem. */
export type RecordedAnswer = z.output<typeof recordedTogether>['records'][number];

/** What a worker registers with. */
export interface Announcement {
  readonly name: string;
  readonly version: string;
  readonly slots: number;
  readonly tools: readonly ToolDefinition[];
  readonly agents: readonly (AgentDefinition | PromptedAgentDefinition)[];
}

/** Registers a worker. */
export function register(queue: string, announcement: Announcement): Request<Registration> {
  const { agents, ...others } = announcement;
  // An older server refuses the field, which a worker without agents does not need.
  const body = { ...others, language: 'typescript', ...(agents.length > 0 ? { agents } : {}) };
  return { method: 'POST', path: path(queue, 'registrations'), body, response: registration };
}

/** Claims calls. */
export function claim(queue: string, workerId: string, max: number, waitS: number): Request<z.output<typeof claimed>> {
  return { method: 'POST', path: path(queue, 'claims'), body: { workerId, max, waitS }, response: claimed };
}

/** Renews the leases of calls. */
export function heartbeat(
  queue: string,
  workerId: string,
  calls: readonly { id: string; attempt: number }[],
  draining: boolean,
): Request<HeartbeatAnswer> {
  const body = { workerId, calls: calls.map(({ id, attempt }) => ({ id, attempt })), draining };
  return { method: 'POST', path: path(queue, 'heartbeats'), body, response: heartbeatAnswer };
}

/** An attempt of a call, as those name it that send something about it. */
export interface Attempt {
  readonly queue: string;
  readonly workerId: string;
  readonly id: string;
  readonly attempt: number;
}

/** Records how an attempt has ended. */
export function result(attempt: Attempt, outcome: Completed | Failed | Suspended): Request<unknown> {
  if (outcome.kind === 'suspended') return about(attempt, 'suspension', { steps: outcome.steps });
  if (outcome.kind === 'completed') {
    const { output } = outcome;
    return { ...about(attempt, 'completion', { output }), record: record(attempt, { output }) };
  }
  return about(attempt, 'failure', { error: outcome.error, retry: outcome.retry });
}

/** Shows a message to people. */
export function progress(attempt: Attempt, message: string): Request<unknown> {
  return about(attempt, 'progress', { message });
}

/** Stores a checkpoint for the next attempt. */
export function checkpoint(attempt: Attempt, value: unknown): Request<unknown> {
  return about(attempt, 'progress', { checkpoint: value });
}

/** Records a step. */
export function step(attempt: Attempt, ended: EndedStep): Request<unknown> {
  return { ...about(attempt, 'steps', ended), record: record(attempt, { step: ended }) };
}

/** Records steps and outputs of several calls: JSON of the `fields` of their records. */
export function records(
  queue: string,
  workerId: string,
  fields: readonly string[],
): Request<z.output<typeof recordedTogether>> {
  const body = new Json(`{"workerId":${JSON.stringify(workerId)},"records":[${fields.join(',')}]}`);
  return { method: 'POST', path: path(queue, 'records'), body, response: recordedTogether };
}

/** Publishes a piece of an answer, or an event. */
export function write(attempt: Attempt, piece: Piece): Request<unknown> {
  return about(attempt, 'text', piece);
}

/** Lists recorded steps after this number. */
export function steps({ queue, id }: Attempt, after: number): Request<z.output<typeof stepPage>> {
  return { method: 'GET', path: `${path(queue, 'calls', id, 'steps')}?after=${after}`, response: stepPage };
}

/** Ends a registration. */
export function leave(queue: string, workerId: string): Request<undefined> {
  return { method: 'DELETE', path: path(queue, 'registrations', workerId), response: nothing };
}

function about({ queue, workerId, id, attempt }: Attempt, what: string, fields: object): Request<unknown> {
  const body = { workerId, attempt, ...fields };
  return { method: 'POST', path: path(queue, 'calls', id, what), body, response: recorded };
}

function record({ queue, workerId, id, attempt }: Attempt, what: object): AboutCall {
  return { queue, workerId, fields: { callId: id, attempt, ...what } };
}

function path(...parts: string[]): string {
  return `/api/workers/${parts.map(encodeURIComponent).join('/')}`;
}
