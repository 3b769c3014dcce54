/** The steps of calls in `protocolRules`: recorded, listed, waited for, and ended. */
import { type Body, type Offered, Problem, type Step } from './protocolRecords.js';

const PAGE = 3;
const STEP_MAX_BYTES = 256 * 1024;
const STEPS_MAX = 1000;
const NAME_MAX = 200;
const WAITS_MAX = 100;
const WAIT_MAX_S = 365 * 86_400;

type WaitKind = 'sleep' | 'event' | 'question' | 'agent' | 'model';
type Violate = (status: number, code: string, what: string) => Problem;

/** A step of a suspension. */
interface Waiting {
  readonly number: number;
  readonly name: string;
  readonly wait: Body & { readonly kind: WaitKind };
}

export function isWaitKind(kind: string): kind is WaitKind {
  return ['sleep', 'event', 'question', 'agent', 'model'].includes(kind);
}

/** Waits for a time or a signal are over; the attempt has read no steps. */
export function handOut(call: Offered): void {
  for (const step of call.steps.values())
    if (step.status === 'begun' && (step.kind === 'sleep' || step.kind === 'event')) step.status = 'completed';
  call.unread = new Set(call.steps.keys());
}

/** Returns a page of steps. */
export function list(call: Offered, after: number): unknown[] {
  const sorted = [...call.steps.values()].sort((a, b) => a.number - b.number);
  const page = sorted.filter(({ number }) => number > after).slice(0, PAGE);
  for (const { number } of page) call.unread.delete(number);
  return page.map(({ number, name, kind, status, output, error }) => ({ number, name, kind, status, output, error }));
}

/** Records a step that the worker executes. */
export function record(call: Offered, body: Body, violate: Violate): string {
  const { number, name, status, attempt } = body as Pick<Step, 'number' | 'name' | 'status' | 'attempt'>;
  if (
    !isNamed(number, name) ||
    'output' in body !== (status === 'completed') ||
    'error' in body !== (status === 'error')
  )
    throw violate(400, 'invalid_step', `step ${JSON.stringify(body)}`);
  if (sizeOf(body.output ?? null) > STEP_MAX_BYTES) throw new Problem(413, 'step_too_large');
  const known = call.steps.get(number);
  if (known && (known.name !== name || known.kind !== 'function')) throw new Problem(409, 'step_changed');
  if (known?.status === 'begun' && status === 'begun' && known.attempt !== attempt)
    violate(0, '', `step ${number} is repeated, and may have taken effect before`);
  if (known && known.status !== 'begun') {
    // A repeated request.
    if (known.attempt === attempt && known.status === status) return call.status;
    throw new Problem(409, 'step_changed');
  }
  const end = { output: body.output ?? null, error: (body.error as string | undefined) ?? null };
  call.steps.set(number, { number, name, kind: 'function', status, attempt, ...end });
  return call.status;
}

/** Hands a call back. The fields of the body have been checked. */
export function suspend(call: Offered, body: Body): void {
  const waits = body.steps as Waiting[];
  const ofRun = waits.filter(({ wait }) => isOfRun(wait.kind));
  const numbers = new Set(waits.map(({ number }) => number));
  const isValid =
    (waits.length === 1 || ofRun.length === waits.length) && waits.length >= 1 && waits.length <= WAITS_MAX;
  if (!isValid || numbers.size < waits.length || !waits.every(isPossible)) throw new Problem(400, 'invalid_suspension');
  if (waits.some(({ wait }) => sizeOf(wait) > STEP_MAX_BYTES)) throw new Problem(413, 'step_too_large');
  if (waits.some(({ number }) => call.steps.has(number))) throw new Problem(409, 'step_changed');
  if (call.runId === null && waits.some(({ wait }) => wait.kind !== 'sleep')) throw new Problem(409, 'no_run');
  let limitS = 0;
  for (const { number, name, wait } of waits) {
    const step: Step = {
      number,
      name,
      kind: wait.kind,
      status: 'begun',
      output: null,
      error: null,
      attempt: call.attempt,
      wait,
    };
    call.steps.set(number, step);
    if (wait.kind === 'sleep') limitS = wait.seconds as number;
    if (wait.kind === 'event') {
      const early = call.signals.findIndex((signal) => signal.name === wait.event);
      const [signal] = early < 0 ? [] : call.signals.splice(early, 1);
      limitS = signal ? 0 : ((wait.timeoutS as number | undefined) ?? Infinity);
      if (signal) Object.assign(step, { status: 'completed', output: { data: signal.data } });
    }
  }
  call.status = suspended(body);
  call.notBefore = performance.now() + limitS * 1000;
}

/** Returns the status of a call that is handed back. */
export function suspended(body: Body): 'suspended' | 'waiting' {
  return (body.steps as Waiting[]).some(({ wait }) => isOfRun(wait.kind)) ? 'suspended' : 'waiting';
}

/** A signal arrives. Returns whether a function that waited for it goes on. */
export function signal(call: Offered, name: string, data: unknown): boolean {
  const isFor = (step: Step) => step.kind === 'event' && step.status === 'begun' && step.wait?.event === name;
  const step = call.status === 'waiting' ? [...call.steps.values()].find(isFor) : undefined;
  if (!step) {
    call.signals.push({ name, data });
    return false;
  }
  Object.assign(step, { status: 'completed', output: { data } });
  call.notBefore = 0;
  return true;
}

/** A question, an agent or a model call has ended. */
export function end(call: Offered, number: number, end: { output: unknown } | { error: string }): void {
  const step = call.steps.get(number);
  if (call.status !== 'suspended' || step?.status !== 'begun') throw new Error(`the call does not wait for ${number}`);
  Object.assign(step, end, { status: 'error' in end ? 'error' : 'completed' });
  if ([...call.steps.values()].some(({ kind, status }) => isOfRun(kind) && status === 'begun')) return;
  call.status = 'waiting';
  call.notBefore = 0;
}

function isOfRun(kind: string): boolean {
  return kind === 'question' || kind === 'agent' || kind === 'model';
}

function isPossible({ number, name, wait }: Waiting): boolean {
  const seconds = (wait.kind === 'sleep' ? wait.seconds : wait.kind === 'event' ? wait.timeoutS : undefined) ?? 0;
  const isInTime = (seconds as number) >= 0 && (seconds as number) <= WAIT_MAX_S;
  return isNamed(number, name) && isInTime && (wait.kind !== 'event' || isNamed(1, wait.event as string));
}

function isNamed(number: number, name: string): boolean {
  const { length } = [...name];
  return number >= 1 && number <= STEPS_MAX && length >= 1 && length <= NAME_MAX;
}

function sizeOf(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length;
}
