/** What the API for workers in `protocolRules` knows of workers and calls. */
import type { ToolDefinition } from '../src/index.js';

export type Body = Record<string, unknown>;

/** A response that is not a success. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
  ) {
    super(code);
  }
}

/** A live worker. */
export interface Registered {
  readonly id: string;
  readonly queue: string;
  readonly slots: number;
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  aliveUntil: number;
  drainingSince: number;
}

export type Status = 'waiting' | 'running' | 'suspended' | 'completed' | 'error' | 'outcome_unknown' | 'cancelled';

/** A step of a call. */
export interface Step {
  readonly number: number;
  readonly name: string;
  readonly kind: 'function' | 'sleep' | 'event' | 'question' | 'agent' | 'model';
  status: 'begun' | 'completed' | 'error';
  output: unknown;
  error: string | null;
  /** The attempt that has recorded it. */
  attempt: number;
  /** What is waited for. */
  readonly wait?: Body;
}

/** A call of an agent. */
export interface Offered {
  readonly id: string;
  readonly tool: string;
  readonly version: string;
  readonly input: Body;
  readonly timeoutS: number;
  /** Null: an MCP client has called. */
  readonly runId: string | null;
  readonly steps: Map<number, Step>;
  status: Status;
  attempt: number;
  workerId: string;
  leaseUntil: number;
  notBefore: number;
  repeatable: boolean;
  checkpoint: unknown;
  output: unknown;
  error: string | undefined;
  messages: string[];
  /** The attempt, and the request that has ended it. */
  recorded: string | undefined;
  /** The attempts that the response to a heartbeat has named as cancelled or lost, and when, in milliseconds. */
  void: Map<number, number>;
  /** The attempts that have handed the call back to wait, and their requests. */
  handedBack: Map<number, string>;
  /** The numbers of the steps that this attempt has not read. */
  unread: Set<number>;
  /** Signals that no function has waited for. */
  signals: { readonly name: string; readonly data: unknown }[];
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isWhole: Check = (value) => Number.isInteger(value);
const isNumber: Check = (value) => Number.isFinite(value);
const isFlag: Check = (value) => typeof value === 'boolean';
const isObject: Check = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isAny: Check = (value) => value !== undefined;
const isOneOf =
  (...values: string[]): Check =>
  (value) =>
    values.includes(value as string);

/** A message of a model call. */
const isSaid: Check = (value) => {
  const { role, text, ...others } = Object(value) as Body;
  return isOneOf('user', 'assistant')(role) && isText(text) && text !== '' && Object.keys(others).length === 0;
};

/** The fields of each request. Those with a name that ends in `?` may be absent. */
export const FIELDS = {
  registration: {
    name: isText,
    version: isText,
    language: isText,
    slots: isWhole,
    tools: Array.isArray,
    'agents?': Array.isArray,
  },
  agentOfFunction: { name: isText, description: isText, tool: isText },
  agentOfPrompt: {
    name: isText,
    description: isText,
    systemPrompt: isText,
    'tools?': (value) => Array.isArray(value) && value.every((tool) => isText(tool) && tool.trim() !== ''),
    'model?': (value) => value === null || isText(value),
    'outputSchema?': (value) => value === null || (isObject(value) && (value as Body).type === 'object'),
    'maxSteps?': (value) => Number.isInteger(value) && (value as number) >= 1,
  },
  tool: {
    name: isText,
    version: isText,
    description: isText,
    inputSchema: isObject,
    outputSchema: (value) => value === null || isObject(value),
    readOnly: isFlag,
    idempotent: isFlag,
    confirm: isFlag,
    timeoutS: isWhole,
    whenAbsent: (value) => value === 'wait' || value === 'hide',
  },
  claim: { workerId: isText, max: isWhole, waitS: isWhole },
  heartbeat: { workerId: isText, calls: Array.isArray, draining: isFlag },
  attempt: { id: isText, attempt: isWhole },
  records: { workerId: isText, records: Array.isArray },
  recordedStep: { callId: isText, attempt: isWhole, step: isObject },
  recordedOutput: { callId: isText, attempt: isWhole, output: isAny },
  completion: { workerId: isText, attempt: isWhole, output: isAny },
  failure: { workerId: isText, attempt: isWhole, error: isText, retry: isFlag },
  progress: {
    workerId: isText,
    attempt: isWhole,
    'message?': isText,
    'checkpoint?': (value) => isAny(value) && value !== null,
  },
  steps: {
    workerId: isText,
    attempt: isWhole,
    number: isWhole,
    name: isText,
    status: isOneOf('begun', 'completed', 'error'),
    'output?': isAny,
    'error?': isText,
  },
  suspension: { workerId: isText, attempt: isWhole, steps: Array.isArray },
  wait: { number: isWhole, name: isText, wait: isObject },
  sleep: { kind: isText, seconds: isNumber },
  event: { kind: isText, event: isText, 'timeoutS?': isNumber },
  question: {
    kind: isText,
    question: isText,
    'options?': Array.isArray,
    'interactionType?': isOneOf('buttons', 'select', 'multi_select', 'text'),
    'placeholder?': isText,
    'maxLength?': isWhole,
  },
  agent: { kind: isText, agent: isText, task: isText, 'timeoutS?': isWhole, 'outputSchema?': isObject },
  model: {
    kind: isText,
    messages: (value) =>
      Array.isArray(value) && value.every(isSaid) && (value.at(-1) as Body | undefined)?.role === 'user',
    'system?': isText,
    'model?': (value) => isText(value) && (value as string).trim() !== '',
    'outputSchema?': (value) => isObject(value) && (value as Body).type === 'object',
    'maxTokens?': (value) => isWhole(value) && (value as number) >= 1,
    'temperature?': (value) => isNumber(value) && (value as number) >= 0 && (value as number) <= 2,
  },
} satisfies Record<string, Record<string, Check>>;

/** Returns the names of the fields that are missing, unknown or of another type. */
export function faultsOf(kind: keyof typeof FIELDS, body: Body): string[] {
  const checks = new Map<string, Check>();
  const needed: string[] = [];
  for (const [name, check] of Object.entries(FIELDS[kind] as Record<string, Check>)) {
    checks.set(name.replace('?', ''), check);
    if (!name.endsWith('?')) needed.push(name);
  }
  const names = new Set([...needed, ...Object.keys(Object(body))]);
  return [...names].filter((name) => !checks.get(name)?.(body[name]));
}
