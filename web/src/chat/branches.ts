// Branches of a chat: another version of a message is in another chat, which begins with copies of the messages before it.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useCallback } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import type { Item } from '../stream';
import { forkedFrom, shownTitle } from './titles';

export type BranchPoint = Schemas['BranchPoint'];
/** What is different in a branch: the message, the agent that answers, or its model. */
export type Change = Omit<Schemas['ForkRequest'], 'step'>;

const NONE: ReadonlyMap<string, BranchPoint> = new Map();

/** The messages of a chat that have several versions, by their ids. */
export function useBranches(id: string): ReadonlyMap<string, BranchPoint> {
  const branches = useQuery({
    queryKey: ['branches', id],
    queryFn: () => api<Schemas['Branches']>(`/api/conversations/${id}/branches`),
    select: byMessage,
  });
  return branches.data ?? NONE;
}

function byMessage({ items }: Schemas['Branches']): ReadonlyMap<string, BranchPoint> {
  // The other versions may be deleted.
  return new Map(items.filter(({ versions }) => versions.length > 1).map((point) => [point.messageId, point]));
}

/** Answers the message of a run again, in a branch, and shows the branch. */
export function useBranching(): (runId: string, change?: Change) => Promise<void> {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return useCallback(
    async (runId, change = {}) => {
      const body: Schemas['ForkRequest'] = { step: 0, ...change };
      const fork = await api<Schemas['Triggered']>(`/api/runs/${runId}/fork`, { method: 'POST', body });
      const { conversationId } = await api<Schemas['RunDetail']>(`/api/runs/${fork.runId}`);
      if (conversationId) await navigate({ to: '/c/$id', params: { id: conversationId } });
      for (const name of ['branches', 'conversations']) void queries.invalidateQueries({ queryKey: [name] });
    },
    [navigate, queries],
  );
}

/** The chat that a branch was made of. Null: it was deleted. Undefined: it is not known yet, or this is no branch. */
export function useOrigin(metadata: unknown): { id: string; title: string } | null | undefined {
  const runId = forkedFrom(metadata);
  const origin = useQuery({
    queryKey: ['origin', runId],
    queryFn: () => originOf(runId ?? ''),
    enabled: runId !== null,
  });
  return origin.data;
}

async function originOf(runId: string): Promise<{ id: string; title: string } | null> {
  try {
    const { conversationId } = await api<Schemas['RunDetail']>(`/api/runs/${runId}`);
    if (!conversationId) return null;
    const conversation = await api<Schemas['ConversationDetail']>(`/api/conversations/${conversationId}`);
    return { id: conversationId, title: shownTitle(conversation) };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Which run answers each message of the user. A turn answers the message before it, unless its own is known. */
export function answersOf(items: readonly Item[]): ReadonlyMap<string, string> {
  const asked = new Set(items.flatMap((item) => (item.type === 'message' ? [item.message.id] : [])));
  const runs = new Map<string, string>();
  for (const [nth, item] of items.entries()) {
    if (item.type === 'message') continue;
    const { messageId, runId } = item.turn;
    const before = items[nth - 1];
    if (messageId !== undefined && asked.has(messageId)) runs.set(messageId, runId);
    else if (before?.type === 'message') runs.set(before.message.id, runId);
  }
  return runs;
}
