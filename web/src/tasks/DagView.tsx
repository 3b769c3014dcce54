// Shows one task graph live: dependencies, states and results.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { LoadFailed } from '../ui/LoadFailed';
import { t } from '../ui/language';
import { Ago, ErrorNote, Payload, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Picture } from './Picture';

type Task = Schemas['TaskBody'];

const VERBS: Record<string, string> = { pause: t('Pause'), cancel: t('Cancel'), resume: t('Resume') };
const OVER = ['completed', 'failed', 'cancelled'];

export function DagView() {
  const { id } = useParams({ from: '/tasks/$id' });
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/projects/${me.projectId}/task-dags/${id}`;
  const dag = useQuery({
    queryKey: ['dag', id],
    queryFn: () => api<Schemas['DagDetail']>(path),
    refetchInterval: ({ state }) =>
      state.status === 'error' || (state.data && OVER.includes(state.data.state)) ? false : 1_000,
  });
  const act = useMutation({
    mutationFn: (verb: string) => api(`${path}/${verb}`, { method: 'POST' }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['dag', id] }),
  });
  const [chosen, choose] = useState<string | null>(null);
  useTitle(dag.data?.name || t('Tasks'));
  if (dag.isPending) return <Waiting what={t('the tasks')} />;
  if (dag.isError) return <LoadFailed reading={dag} what={t('This task graph')} />;
  const task = dag.data.tasks.find((task) => task.id === chosen);
  // Its tasks are done in its maker's name: others may at most stop it.
  const isMine = dag.data.createdBy === null || dag.data.createdBy === undefined || dag.data.createdBy === me.userId;
  const may = (verb: string) => isMine || (isAdmin(me) && verb !== 'resume');
  const verbs = ({ active: ['pause', 'cancel'], paused: ['resume', 'cancel'] }[dag.data.state] ?? []).filter(may);
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1 dir="auto">{dag.data.name}</h1>
        <State state={dag.data.state} />
        <div className="actions">
          {verbs.map((verb) => (
            <button key={verb} type="button" onClick={() => act.mutate(verb)}>
              {VERBS[verb]}
            </button>
          ))}
        </div>
      </div>
      {act.isError ? <ErrorNote error={act.error} /> : null}
      <Picture tasks={dag.data.tasks} label={t('Tasks and their dependencies')} chosen={chosen} choose={choose} />
      {task ? (
        <Detail
          task={task}
          tasks={dag.data.tasks}
          choose={choose}
          retry={isMine ? () => act.mutate(`tasks/${encodeURIComponent(task.id)}/retry`) : null}
        />
      ) : (
        <p className="quiet">{t('Select a task to see its result.')}</p>
      )}
    </main>
  );
}

/** Names of tasks that one can go to. */
function Others({
  name,
  ids,
  tasks,
  choose,
}: {
  name: string;
  ids: readonly string[];
  tasks: Task[];
  choose: (id: string) => void;
}) {
  const others = ids.map((id) => tasks.find((task) => task.id === id)).filter((task) => task !== undefined);
  if (others.length === 0) return null;
  return (
    <p className="others">
      {name}{' '}
      {others.map((task) => (
        <button key={task.id} type="button" className="small" onClick={() => choose(task.id)}>
          <bdi>{task.title}</bdi> <State state={task.state} />
        </button>
      ))}
    </p>
  );
}

function Detail({
  task,
  tasks,
  choose,
  retry,
}: {
  task: Task;
  tasks: Task[];
  choose: (id: string) => void;
  retry: (() => void) | null;
}) {
  return (
    <section>
      <h2 dir="auto">{task.title}</h2>
      <p>
        <State state={task.state} />{' '}
        {task.agent ? `${task.agent}${task.agentBecause ? `: ${task.agentBecause}` : ''}` : null}
        {task.retryCount > 0
          ? ` · ${t('{count, plural, one {# attempt} other {# attempts}}', { count: task.retryCount + 1 })}`
          : null}
        {task.finishedAt ? (
          <>
            {' · '}
            <Ago at={task.finishedAt} />
          </>
        ) : null}
        {task.runId ? (
          <>
            {' · '}
            <Link to="/runs/$id" params={{ id: task.runId }}>
              {t('View run')}
            </Link>
          </>
        ) : null}
        {' · '}
        <Link to="/graph/$id" params={{ id: task.objectId }}>
          {t('View object')}
        </Link>
      </p>
      <Others name={t('Depends on')} ids={task.after} tasks={tasks} choose={choose} />
      <Others
        name={t('Blocks')}
        ids={tasks.filter((other) => other.after.includes(task.id)).map((other) => other.id)}
        tasks={tasks}
        choose={choose}
      />
      {task.failureContext ? (
        <p dir="auto" className="note bad">
          {task.failureContext}
        </p>
      ) : null}
      {task.state === 'failed' && retry ? (
        <button type="button" className="small" onClick={retry}>
          {t('Retry')}
        </button>
      ) : null}
      {task.summary ? <Payload value={task.summary} /> : null}
    </section>
  );
}
