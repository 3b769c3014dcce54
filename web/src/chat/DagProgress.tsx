// Shows the progress of the tasks that a tool call created, next to the call: counts, and a link to the task graph.
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import type { ToolCall } from '../stream';
import { message, t } from '../ui/language';

/** The tool whose calls make tasks. */
export const MAKES_TASKS = 'create_tasks';

const LIVE_MS = 2_000;
/** The call is of the newest ones. */
const LOOKED_AT = 20;
/** The states of tasks, in the order of their counts. */
const COUNTED = {
  completed: message('{count} completed'),
  in_progress: message('{count} in progress'),
  failed: message('{count} failed'),
  skipped: message('{count} skipped'),
  pending: message('{count} pending'),
};
/** How all of them ended. */
const ENDED: Readonly<Record<string, string>> = {
  completed: message('completed: {tasks}'),
  failed: message('failed: {tasks}'),
  cancelled: message('cancelled: {tasks}'),
};

export function DagProgress({ call, runId }: { call: ToolCall; runId: string }) {
  const me = useMe();
  const path = `/api/projects/${me.projectId}/task-dags`;
  const output = call.output as { dag_id?: string } | undefined;
  const name = (call.input as { name?: string } | undefined)?.name;
  const id = typeof output?.dag_id === 'string' ? output.dag_id : null;
  const dag = useQuery({
    queryKey: ['dag-of', runId, call.callId, id],
    queryFn: async () => {
      if (id) return await api<Schemas['DagBody']>(`${path}/${id}`);
      // The call returns the DAG's id when it ends. Until then the DAG is found by the run that waits for it.
      const { items } = await api<Schemas['DagPage']>(`${path}?limit=${LOOKED_AT}`);
      const own = items.filter((one) => one.waitingRunId === runId);
      return own.find((one) => one.name === name) ?? own[0] ?? null;
    },
    enabled: id !== null || call.status === 'running',
    refetchInterval: ({ state }) => (state.data?.finishedAt ? false : LIVE_MS),
  });
  if (!dag.data) return null;
  const { counts, finishedAt, state } = dag.data;
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const over = all - (counts.pending ?? 0) - (counts.in_progress ?? 0);
  const tasks = Object.entries(COUNTED)
    .flatMap(([state, words]) => (counts[state] ? [t(words, { count: counts[state] })] : []))
    .join(t(', '));
  return (
    <p className="dag">
      <Link dir="auto" to="/tasks/$id" params={{ id: dag.data.id }}>
        {dag.data.name || t('Tasks')}
      </Link>
      <progress value={over} max={all} aria-label={t('{over} of {all} tasks finished', { over, all })} />
      <span className="quiet" role="status">
        {finishedAt ? t(ENDED[state] ?? '{state}: {tasks}', { state, tasks }) : tasks}
      </span>
    </p>
  );
}
