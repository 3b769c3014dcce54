// Keeps the title of the shown conversation up to date. Another tab may change it, and a model may write it in the background after the first answer.
// No event says so: the lists of chats, which are read again and again, have it.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { TranscriptView } from '../stream';
import { refreshLists, useListedTitle } from './list/chats';

/** When the lists are read again after the first answer: in milliseconds, besides every 15 s. */
const LOOKS_MS = [1_500, 4_000];
/** A title is expected for an answer that is younger, in milliseconds. */
const YOUNG_MS = 30_000;

/** `stored`: the title of the stored conversation, once it is known. */
export function useFreshTitle(id: string, { turns }: TranscriptView, stored: string | undefined): void {
  const queries = useQueryClient();
  const listed = useListedTitle(id);
  useEffect(() => {
    if (stored === undefined || listed === undefined || listed === stored) return;
    void queries.invalidateQueries({ queryKey: ['conversation', id] });
  }, [queries, id, stored, listed]);
  const answeredAt = turns.length === 1 ? turns[0]?.message?.createdAt : undefined;
  useEffect(() => {
    if (answeredAt === undefined || Date.now() - Date.parse(answeredAt) > YOUNG_MS) return;
    const timers = LOOKS_MS.map((ms) => setTimeout(refreshLists, ms, queries));
    return () => {
      for (const timer of timers) clearTimeout(timer);
    };
  }, [queries, answeredAt]);
}
