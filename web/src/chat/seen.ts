// Marks what a user has read, on the server: all browsers of the user show the same conversations as unread.
import { useEffect, useRef, useSyncExternalStore } from 'react';
import { api, type Schemas } from '../api/http';
import type { TranscriptView } from '../stream';

type Listed = Pick<Schemas['ConversationBody'], 'id' | 'marks'>;

/** The last event of each conversation that this page has shown: a list may have been read before the server stored the mark. */
let shown: ReadonlyMap<string, number> = new Map();
const listeners = new Set<() => void>();

function change(id: string, through: number): void {
  shown = new Map(shown).set(id, through);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Whether a listed conversation has answers that its user has not read. */
export function useUnread(): (conversation: Listed) => boolean {
  const through = useSyncExternalStore(subscribe, () => shown);
  return ({ id, marks }) => !!marks && marks.unread > 0 && (through.get(id) ?? 0) < marks.lastMessageSeq;
}

/** The user marks a conversation as unread: that this page has shown it no longer counts. */
export function forgetSeen(id: string): void {
  change(id, 0);
}

/** Marks a conversation as read when its newest answer is on a visible page. */
export function useSeen(id: string, { messages, cursor }: TranscriptView): void {
  const marked = useRef<string | null>(null);
  const newest = messages.findLast(({ role }) => role === 'assistant')?.id;
  useEffect(() => {
    const look = () => {
      if (newest === undefined || newest === marked.current || document.hidden) return;
      marked.current = newest;
      change(id, cursor);
      // A refused mark leaves the conversation unread elsewhere; the next visit marks it again.
      api(`/api/conversations/${id}`, { method: 'PATCH', body: { lastReadSeq: cursor } }).catch(() => {});
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [id, newest, cursor]);
}
