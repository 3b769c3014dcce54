/**
 * Folds one event of a run into its turn. Only the transcript uses it.
 *
 * Invariant: an event changes the turn under its own number, so that a `reset` can take the change back (see `turn`).
 */
import { operated, planned } from './plan.js';
import { defined, type TurnFold } from './turn.js';
import type { Question, Turn } from './view.js';
import type { RunEvent, UsageEvent } from './wire.js';

/** Maximum number of events of programs that a turn keeps: the newest. */
const EVENTS_MAX = 200;

/** Folds an event into its turn. False: a reset names events that a snapshot holds, so a new snapshot is needed. */
export function foldEvent(turn: TurnFold, seq: number, event: RunEvent): boolean {
  switch (event.type) {
    case 'meta': {
      const { agent, agentDefinitionId, model, citations, attempt } = event;
      turn.set(seq, { status: 'running', agent, agentDefinitionId, model, citations, attempt });
      break;
    }
    case 'token':
      start(turn, seq);
      turn.append(seq, 'text', event.token);
      break;
    case 'reasoning':
      start(turn, seq);
      turn.append(seq, 'reasoning', event.text);
      break;
    case 'mcp_tool':
      start(turn, seq);
      turn.tool(seq, event, event.status === 'started' ? Date.now() : undefined);
      turn.set(seq, { plan: planned(turn.head.plan, event) });
      break;
    case 'plan_created':
    case 'plan_ready_for_review':
    case 'plan_review':
    case 'step_start':
    case 'step_complete':
    case 'executor_spawned':
      turn.set(seq, { plan: planned(turn.head.plan, event) });
      break;
    case 'operation':
      turn.set(seq, { operations: operated(turn.head.operations, event.operation) });
      break;
    case 'reset': {
      const isUndone = turn.reset(event.discardAfter);
      const { attempt, reason, runId } = event;
      const step = (turn.head.usage?.steps ?? 0) + 1;
      turn.notice({ kind: 'resumed', text: `worker lost, resumed at step ${step}`, runId, attempt, reason, step });
      if (!isUndone) return false;
      turn.set(seq, { status: 'running', attempt });
      break;
    }
    case 'agent_state':
      turn.set(seq, { status: event.state.startsWith('waiting') ? 'waiting' : 'running' });
      break;
    case 'usage':
      turn.set(seq, { usage: usage(event) });
      break;
    case 'handoff':
      turn.handoff(seq, {
        type: 'handoff',
        from: event.from,
        to: event.to,
        ...(event.reason !== undefined && { reason: event.reason }),
      });
      break;
    case 'custom': {
      const { name, data, callId } = event;
      const emitted = { name, data, ...(callId !== undefined && { callId }) };
      turn.set(seq, { events: [...(turn.head.events ?? []), emitted].slice(-EVENTS_MAX) });
      break;
    }
    case 'telemetry':
      turn.set(seq, {
        details: [...(turn.head.details ?? []), { type: event.type, value: { name: event.name, data: event.data } }],
      });
      break;
    case 'debug_context':
      turn.set(seq, { details: [...(turn.head.details ?? []), { type: event.type, value: event.debug }] });
      break;
    case 'question':
      turn.question(seq, event.questionId, {}, pending(event));
      break;
    case 'question_answered':
      turn.question(seq, event.questionId, { status: event.status, answer: event.answer });
      break;
    case 'limit':
      turn.set(seq, { limits: [...turn.head.limits, { limit: event.limit, message: event.message }] });
      break;
    case 'output':
      turn.set(seq, { output: event.output });
      break;
    case 'error': {
      const { error, code, retryable } = event;
      turn.set(seq, { errors: [...turn.head.errors, { error, code, retryable }] });
      break;
    }
    case 'sub_agent': {
      const { task, summary, usage, error, code = '' } = event;
      const status = event.status === 'started' ? 'running' : event.status;
      const errors = error ? [...turn.head.errors, { error, code, retryable: false }] : undefined;
      turn.set(seq, { status, task, summary, usage, errors });
      if (turn.over) turn.settle();
      break;
    }
    case 'done':
      turn.set(seq, { status: event.status, usage: event.usage });
      turn.settle();
      break;
    default:
    // An event type that this version does not know.
  }
  return true;
}

/** Sets a queued turn to `running`: its answer has begun. */
function start(turn: TurnFold, seq: number): void {
  if (turn.head.status === 'queued') turn.set(seq, { status: 'running' });
}

/** The sums of a usage event, without the fields that have no value. */
function usage(event: UsageEvent): Turn['usage'] {
  const { inputTokens, outputTokens, totalTokens, cachedTokens, cacheWriteTokens, reasoningTokens, costUsd, steps } =
    event;
  return defined({
    inputTokens,
    outputTokens,
    totalTokens,
    cachedTokens,
    cacheWriteTokens,
    reasoningTokens,
    costUsd,
    steps,
  }) as Turn['usage'];
}

/** An open question, as an event or a snapshot describes it. */
export function pending({ questionId, runId, question, options, interactionType }: Omit<Question, 'status'>): Question {
  return { questionId, runId, question, options, interactionType, status: 'pending' };
}
