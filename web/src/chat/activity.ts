// Which conversations have an answer under way, and how the last one of the others ended.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';

/** Runs that are looked at: the newest. */
const LOOKED_AT = 50;
/** How often, in milliseconds: while something is under way, and otherwise. */
const LIVE_MS = 3_000;
const QUIET_MS = 15_000;

export type Mark = 'running' | 'waiting' | 'failed';

const MARKS: Record<string, Mark> = {
  queued: 'running',
  running: 'running',
  waiting: 'waiting',
  paused: 'waiting',
  failed: 'failed',
};

/** The mark of each conversation whose newest run has one. */
export function useActivity(): ReadonlyMap<string, Mark> {
  const me = useMe();
  const runs = useQuery({
    // Below the conversations: what changes them changes this.
    queryKey: ['conversations', 'activity'],
    queryFn: () => api<Schemas['RunPage']>(`/api/projects/${me.projectId}/agent-runs?topLevel=true&limit=${LOOKED_AT}`),
    refetchInterval: ({ state }) =>
      state.data?.items.some((run) => MARKS[run.state] === 'running') ? LIVE_MS : QUIET_MS,
    select: marksOf,
  });
  return runs.data ?? NONE;
}

const NONE: ReadonlyMap<string, Mark> = new Map();

function marksOf({ items }: Schemas['RunPage']): ReadonlyMap<string, Mark> {
  const marks = new Map<string, Mark>();
  const seen = new Set<string>();
  for (const { conversationId, state } of items) {
    if (!conversationId || seen.has(conversationId)) continue;
    seen.add(conversationId);
    const mark = MARKS[state];
    if (mark) marks.set(conversationId, mark);
  }
  return marks;
}
