/** Fills turns from a snapshot and from stored messages. Only the transcript uses it, and it creates the turns. */
import type { TurnFold } from './turn.js';
import type { Message } from './view.js';
import type { SnapshotAgent, SnapshotToolCall, SnapshotTurn } from './wire.js';

/** Shows a turn of which only the stored message is known. */
export function showStored(turn: TurnFold, message: Message): void {
  turn.append(0, 'text', message.content);
  turn.set(0, {
    status: turn.over ? turn.head.status : 'completed',
    partial: true,
    message,
    citations: message.citations,
  });
  turn.settle();
}

/** Replaces a turn's parts and values with those that a snapshot has of its run, except text, calls and sub-agents. */
export function showSnapshot(turn: TurnFold, through: number, snapshot: SnapshotTurn): void {
  turn.clear(through);
  const { agent, agentDefinitionId, model, citations, attempt } = snapshot.meta ?? {};
  const isWaiting =
    (snapshot.questions ?? []).length > 0 || snapshot.agents?.some((agent) => agent.status === 'started');
  const status = snapshot.meta ? (isWaiting ? 'waiting' : 'running') : turn.head.status;
  turn.set(through, {
    status,
    agent,
    agentDefinitionId,
    model,
    citations,
    attempt,
    plan: snapshot.plan,
    operations: snapshot.operations ?? [],
  });
  turn.append(through, 'reasoning', snapshot.reasoning ?? '');
}

/** Replaces the values of a sub-agent's turn with those that a snapshot has of it, except text, calls and sub-agents. */
export function showSnapshotAgent(turn: TurnFold, through: number, parent: TurnFold, snapshot: SnapshotAgent): void {
  turn.clear(through);
  const status = snapshot.status === 'started' ? 'running' : snapshot.status;
  const { agent, task, source = 'sub_agent', stepNumber } = snapshot;
  turn.set(through, {
    status,
    agent,
    task,
    source,
    stepNumber,
    planId: source === 'plan_step' ? parent.head.plan?.id : undefined,
  });
}

/** The sub-agents of a snapshot by the run that started them. Those of an unknown parent belong to the turn's own run. */
export function agentsByParent({ runId, agents = [] }: SnapshotTurn): Map<string, SnapshotAgent[]> {
  const byParent = new Map<string, SnapshotAgent[]>();
  for (const agent of agents) {
    const parent =
      agent.parentRunId && agents.some((other) => other.runId === agent.parentRunId) ? agent.parentRunId : runId;
    byParent.set(parent, [...(byParent.get(parent) ?? []), agent]);
  }
  return byParent;
}

/** A stretch of a turn's text, a call, or a sub-agent. */
export type Piece = { text: string } | { call: SnapshotToolCall } | { agent: SnapshotAgent };

/** A turn's text, calls and sub-agents in their order. Where a server states no order, the text comes last. */
export function pieces(
  text: string,
  calls: readonly SnapshotToolCall[] = [],
  agents: readonly SnapshotAgent[] = [],
): Piece[] {
  const result: Piece[] = [];
  let shown = 0;
  const showUntil = (end: number): void => {
    result.push({ text: text.slice(shown, end) });
    shown = Math.max(shown, end);
  };
  // Calls and sub-agents are each in order. At the same place of the text the calls come first, as a call may start sub-agents.
  const marks = [
    ...calls.map((call) => ({ at: call.afterText ?? 0, piece: { call } })),
    ...agents.map((agent) => ({ at: agent.afterText ?? 0, piece: { agent } })),
  ];
  for (const { at, piece } of marks.sort((a, b) => a.at - b.at)) {
    showUntil(at);
    result.push(piece);
  }
  showUntil(text.length);
  return result;
}
