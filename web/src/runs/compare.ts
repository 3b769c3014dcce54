// Aligns two runs step by step: messages with messages, and tool calls with tool calls, in their order.
import type { Schemas } from '../api/http';

type RunExport = Schemas['RunExport'];

/** What one run has at a place. */
export interface Piece {
  /** `user`, `assistant` and the like; of a call, its tool. */
  name: string;
  /** Of a call: how it ended. */
  state?: string;
  durationMs?: number | null;
  /** One line of it. */
  line: string;
  /** All of it. */
  whole: unknown;
}

export interface Pair {
  left: Piece | undefined;
  right: Piece | undefined;
  isSame: boolean;
}

export interface Step {
  step: number;
  pairs: Pair[];
}

const LINE_MAX_CHARS = 140;

function line(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > LINE_MAX_CHARS ? `${text.slice(0, LINE_MAX_CHARS)}…` : text;
}

/** The words of a message: numbers of calls in it are other ones in every run. */
function words(content: unknown): unknown {
  if (typeof content !== 'object' || content === null) return content;
  return 'text' in content && content.text ? content.text : 'content' in content ? content.content : content;
}

/** What a call's answer is already shown with. */
function isOfCalls({ role }: Schemas['RunMessageDetail']): boolean {
  return role === 'tool_result';
}

/** What a run has of each step, by kind. */
function pieces(run: RunExport): Map<number, { messages: Piece[]; calls: Piece[] }> {
  const steps = new Map<number, { messages: Piece[]; calls: Piece[] }>();
  const at = (step: number) => {
    const known = steps.get(step) ?? { messages: [], calls: [] };
    steps.set(step, known);
    return known;
  };
  for (const message of run.messages) {
    if (isOfCalls(message)) continue;
    const content = words(message.content);
    const isNothing = typeof message.content === 'object' && message.content !== null && content === message.content;
    // An assistant that only calls has no words.
    if (isNothing && message.role === 'assistant') continue;
    at(message.stepNumber).messages.push({ name: message.role, line: line(content), whole: content });
  }
  for (const call of run.toolCalls) {
    const whole = { input: call.input, ...(call.error ? { error: call.error } : { output: call.output }) };
    at(call.stepNumber).calls.push({
      name: call.toolName,
      state: call.status,
      durationMs: call.durationMs,
      line: line(call.input),
      whole,
    });
  }
  return steps;
}

function isSame(left: Piece | undefined, right: Piece | undefined): boolean {
  return (
    left?.name === right?.name &&
    left?.state === right?.state &&
    JSON.stringify(left?.whole) === JSON.stringify(right?.whole)
  );
}

function beside(left: Piece[], right: Piece[]): Pair[] {
  return Array.from({ length: Math.max(left.length, right.length) }, (_, nth) => ({
    left: left[nth],
    right: right[nth],
    isSame: isSame(left[nth], right[nth]),
  }));
}

export function aligned(left: RunExport, right: RunExport): Step[] {
  const [ofLeft, ofRight] = [pieces(left), pieces(right)];
  const steps = [...new Set([...ofLeft.keys(), ...ofRight.keys()])].sort((a, b) => a - b);
  return steps.map((step) => {
    const [here, there] = [ofLeft.get(step), ofRight.get(step)];
    return {
      step,
      pairs: [...beside(here?.messages ?? [], there?.messages ?? []), ...beside(here?.calls ?? [], there?.calls ?? [])],
    };
  });
}
