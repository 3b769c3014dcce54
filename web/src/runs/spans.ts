// The spans of a trace: a run, its model calls, its tool calls and its resets, each with the time that it took.
import type { Schemas } from '../api/http';
import { duration } from '../ui/duration';
import { t } from '../ui/language';
import { stateInWords } from '../ui/states';
import type { RunMessage, ToolCall } from './records';
import type { Reset } from './traceLog';

export type Run = Schemas['RunBody'];

interface Piece {
  className: string;
  /** Milliseconds since 1970. */
  from: number;
  to: number;
  title: string;
}

interface Timed {
  key: string;
  pieces: Piece[];
  /** In milliseconds. */
  took: number;
}

export type Span = Timed &
  (
    | { kind: 'run'; run: Run }
    | { kind: 'model'; runId: string; step: number; message: RunMessage }
    | { kind: 'call'; runId: string; step: number; call: ToolCall }
    /** At no known time: the log has an order, but no clock. */
    | { kind: 'reset'; runId: string; step: number; reset: Reset }
  );

export function spanOfRun(run: Run, now: number): Span {
  const made = Date.parse(run.createdAt);
  const begun = Date.parse(run.startedAt ?? run.createdAt);
  const ended = run.finishedAt ? Date.parse(run.finishedAt) : now;
  return {
    kind: 'run',
    run,
    key: run.id,
    pieces: [
      {
        className: 'waited',
        from: made,
        to: begun,
        title: t('queued for {time}', { time: duration(begun - made) }),
      },
      {
        className: run.state,
        from: begun,
        to: ended,
        title: t('{state}, {time}', { state: t(run.state), time: duration(ended - begun) }),
      },
    ],
    took: ended - begun,
  };
}

/**
 * What a run did, step by step. A step's model was asked once all that was before had come to its end, and had answered when its message
 * was stored. What a fork took over from another run is not of its time.
 */
export function spansWithin(
  run: Run,
  messages: readonly RunMessage[],
  calls: readonly ToolCall[],
  resets: readonly Reset[],
  now: number,
): Span[] {
  const begun = Date.parse(run.startedAt ?? run.createdAt);
  const spans: Span[] = [];
  const left = resets.filter(({ runId }) => runId === run.id);
  let asked = begun;
  for (const message of messages.filter(({ role }) => role === 'assistant')) {
    const step = message.stepNumber;
    while (left[0] && left[0].step <= step) spans.push(spanOfReset(left.shift() as Reset));
    const answered = Date.parse(message.createdAt);
    if (answered >= begun) {
      spans.push({
        kind: 'model',
        runId: run.id,
        step,
        message,
        key: message.id,
        pieces: [
          {
            className: 'model',
            from: asked,
            to: answered,
            title: t('model response, {time}', { time: duration(answered - asked) }),
          },
        ],
        took: answered - asked,
      });
    }
    asked = Math.max(asked, answered);
    for (const call of calls.filter(({ stepNumber }) => stepNumber === step)) {
      if (!call.startedAt) continue;
      const from = Date.parse(call.startedAt);
      const to = call.completedAt ? Date.parse(call.completedAt) : now;
      asked = Math.max(asked, to);
      if (to < begun) continue;
      spans.push({
        kind: 'call',
        runId: run.id,
        step,
        call,
        key: call.id,
        pieces: [
          {
            className: `call ${call.status}`,
            from,
            to,
            title: t('{tool}, {state}', { tool: call.toolName, state: stateInWords(call.status) }),
          },
        ],
        took: call.durationMs ?? to - from,
      });
    }
  }
  return [...spans, ...left.map(spanOfReset)];
}

function spanOfReset(reset: Reset): Span {
  const { runId, seq, step } = reset;
  return { kind: 'reset', runId, step, reset, key: `reset ${seq}`, pieces: [], took: 0 };
}

/** Puts the runs that a run started behind the step that started them. */
export function withChildren(spans: readonly Span[], children: readonly Run[], now: number): Span[] {
  const all = [...spans];
  for (const child of children) {
    const created = Date.parse(child.createdAt);
    let next = all.findIndex(({ kind, pieces }) => kind === 'model' && (pieces[0]?.to ?? 0) > created);
    if (next < 0) next = all.length;
    while (all[next - 1]?.kind === 'reset') next -= 1;
    all.splice(next, 0, spanOfRun(child, now));
  }
  return all;
}
