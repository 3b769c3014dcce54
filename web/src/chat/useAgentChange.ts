// Changes the agent of an open chat, which answers from the next message on.
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef } from 'react';
import { api } from '../api/http';

/** The change, and what a message that is sent in the meantime waits for. */
export function useAgentChange(id: string): [(agentDefinitionId: string) => Promise<void>, () => Promise<unknown>] {
  const queries = useQueryClient();
  const pending = useRef<Promise<unknown>>(Promise.resolve());
  const change = useCallback(
    async (agentDefinitionId: string) => {
      const changed = api(`/api/conversations/${id}`, { method: 'PATCH', body: { agentDefinitionId } });
      pending.current = changed.catch(() => {});
      try {
        await changed;
      } finally {
        await queries.invalidateQueries({ queryKey: ['conversation', id] });
      }
    },
    [id, queries],
  );
  return [change, useCallback(() => pending.current, [])];
}
