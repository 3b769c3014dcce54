/** A second, simple way to fold a log, to compare with: drops void events first, and takes snapshots as the server does. */
import type { RunEvent, SnapshotEvent, SnapshotTurn, WireEvent, WireMessage } from '../src/wire.js';

export type Log = [seq: number, event: WireEvent][];

/** The log without the events that its resets void. */
export function kept(log: Log): Log {
  let left: Log = [];
  for (const [seq, event] of log) {
    if (event.type === 'reset') {
      const { discardAfter, runId } = event as RunEvent & { discardAfter: number };
      left = left.filter(
        ([earlier, of]) => earlier <= discardAfter || (of as RunEvent).runId !== runId || of.type === 'message',
      );
    }
    left.push([seq, event]);
  }
  return left;
}

export const textOf = (log: Log, runId: string): string =>
  kept(log)
    .map(([, event]) => (event.type === 'token' && event.runId === runId ? event.token : ''))
    .join('');

/** What the server answers to `from=snapshot` after these events. */
export function snapshot(log: Log): SnapshotEvent {
  const messages: WireMessage[] = [];
  const open: string[] = [];
  for (const [seq, event] of log) {
    if (event.type === 'message') {
      const { message, runId } = event as { message: WireMessage; runId?: string };
      messages.push({
        ...message,
        seq,
        retrievalContext: message.role === 'assistant' ? { agent_run_id: runId! } : null,
      });
      if (runId && message.role === 'user' && !open.includes(runId)) open.push(runId);
    }
    if (event.type === 'done') open.splice(open.indexOf((event as RunEvent).runId), 1);
  }
  const through = log.at(-1)?.[0] ?? 0;
  const root = open[0];
  if (!root) return { type: 'snapshot', through, messages, turn: null };
  const turn: SnapshotTurn = { runId: root, text: '', reasoning: '', toolCalls: [], agents: [], questions: [] };
  for (const [, event] of kept(log)) {
    const mine = event as RunEvent;
    const agent = turn.agents!.find((agent) => agent.runId === mine.runId);
    if (mine.runId !== root && mine.parentRunId === undefined) continue;
    if (mine.type === 'meta' && mine.runId === root) turn.meta = mine;
    if (mine.type === 'token') (agent ?? turn).text += mine.token;
    if (mine.type === 'reasoning' && !agent) turn.reasoning += mine.text;
    if (mine.type === 'question') turn.questions!.push(mine);
    if (mine.type === 'question_answered')
      turn.questions = turn.questions!.filter((open) => open.questionId !== mine.questionId);
    if (mine.type === 'sub_agent') {
      if (agent) agent.status = mine.status;
      else {
        const afterText = (turn.agents!.find((parent) => parent.runId === mine.parentRunId) ?? turn).text.length;
        turn.agents!.push({
          runId: mine.runId,
          parentRunId: mine.parentRunId!,
          agent: mine.agent!,
          status: mine.status,
          task: mine.task!,
          text: '',
          toolCalls: [],
          afterText,
        });
      }
    }
    if (mine.type === 'mcp_tool') {
      const calls = agent?.toolCalls ?? turn.toolCalls;
      const known = calls.find((call) => call.callId === mine.callId);
      const { callId, tool, status, input, result, error } = mine;
      const state = JSON.parse(JSON.stringify({ callId, tool, status, input, result, error })) as typeof mine;
      if (known) Object.assign(known, { status: state.status, result: state.result, error: state.error });
      else calls.push({ ...state, afterText: (agent ?? turn).text.length });
    }
  }
  return { type: 'snapshot', through, messages, turn };
}
