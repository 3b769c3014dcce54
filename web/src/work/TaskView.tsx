// Shows one task of a project, and changes it. What was typed stays if another user changed the task in the meantime.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { type FormEvent, useId, useState } from 'react';
import { api, ifMatch } from '../api/http';
import { useMe } from '../api/me';
import { Markdown } from '../chat/Markdown';
import { confirmed } from '../ui/Dialog';
import { Fact, Facts } from '../ui/Facts';
import { LoadFailed } from '../ui/LoadFailed';
import { number, rich, t } from '../ui/language';
import { Ago, ErrorNote, ReadOnlyKey, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { toast } from '../ui/toasts';
import { DAY_LOCALE, detailsOf, type Entity, type Graph, graphKey, IN_ORDER, ofType, STATES } from './board';
import { isConflict } from './documents/document';
import { FROM_HERE } from './moves';
import { changesOf, draftOf, type TaskDraft } from './taskDraft';
import './work.css';

const PRIORITIES = [
  t('{priority} (most urgent)', { priority: 1 }),
  number(2),
  number(3),
  number(4),
  t('{priority} (least urgent)', { priority: 5 }),
];

export function TaskView() {
  const { projectId, taskId } = useParams({ from: '/work/$projectId/tasks/$taskId' });
  const mayWrite = useMe().scopes.includes('write');
  const task = useQuery({
    queryKey: ['work-task', taskId],
    queryFn: ({ signal }) => api<Entity>(`/api/onto/tasks/${taskId}`, { signal }),
    // The form is made of what was read first: who saves over a newer version is asked.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    gcTime: 0,
  });
  const graph = useQuery({
    queryKey: graphKey(projectId),
    queryFn: ({ signal }) => api<Graph>(`/api/onto/projects/${projectId}/graph`, { signal }),
  });
  useTitle(task.data?.name ?? t('Task'));
  if (task.isPending) return <Waiting what={t('the task')} />;
  if (task.isError) return <LoadFailed reading={task} what={t('This task')} />;
  return (
    <main id="main" className="page">
      <div className="title">
        <h1 dir="auto">{task.data.name}</h1>
        <State state={task.data.stateKey} />
        {mayWrite ? <Remove task={task.data} /> : null}
      </div>
      <nav className="parts" aria-label={t('Task sections')}>
        <Link to="/work/$projectId" params={{ projectId }}>
          {graph.data ? t('Board of {project}', { project: graph.data.project.name }) : t('Board')}
        </Link>
        <Link to="/graph/$id" params={{ id: taskId }}>
          {t('In the graph')}
        </Link>
      </nav>
      <p className="quiet">
        {rich('Version {version}, {when}', {
          version: String(task.data.version),
          when: <Ago at={task.data.updatedAt} />,
        })}
      </p>
      {graph.data ? <Dependencies task={task.data} graph={graph.data} /> : null}
      {mayWrite ? <TaskForm key={taskId} task={task.data} graph={graph.data} /> : <Read task={task.data} />}
    </main>
  );
}

function Remove({ task }: { task: Entity }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { id, name, projectId } = task;
  const remove = useMutation({
    mutationFn: () => api(`/api/onto/tasks/${id}`, { method: 'DELETE', headers: FROM_HERE }),
    onSuccess: async () => {
      toast(t('Deleted “{name}”.', { name }));
      await navigate({ to: '/work/$projectId', params: { projectId } });
      await queries.invalidateQueries({ queryKey: graphKey(projectId) });
    },
  });
  const ask = async () => {
    const request = {
      title: t('Delete “{name}”?', { name }),
      detail: t('Its links are deleted too.'),
      action: t('Delete task'),
    };
    if (await confirmed(request)) remove.mutate();
  };
  return (
    <>
      <div className="actions">
        <button type="button" disabled={remove.isPending} onClick={() => void ask()}>
          {t('Delete task')}
        </button>
      </div>
      {remove.isError ? <ErrorNote error={remove.error} /> : null}
    </>
  );
}

/** Links to the tasks that it waits for, and to those that wait for it. */
function Dependencies({ task, graph }: { task: Entity; graph: Graph }) {
  const links = graph.links.filter(({ type }) => type === 'depends_on');
  const tasks = ofType(graph, 'task');
  const named = (ids: string[]) => tasks.filter(({ id }) => ids.includes(id));
  const groups = [
    [t('Waits for'), named(links.filter(({ source }) => source.id === task.id).map(({ target }) => target.id))],
    [t('Blocks'), named(links.filter(({ target }) => target.id === task.id).map(({ source }) => source.id))],
  ] as const;
  if (groups.every(([, others]) => others.length === 0)) return null;
  return (
    <Facts>
      {groups.map(([name, others]) =>
        others.length === 0 ? null : (
          <Fact key={name} name={name}>
            {others.map(({ id, name: called, projectId, stateKey }) => (
              <div key={id}>
                <Link dir="auto" to="/work/$projectId/tasks/$taskId" params={{ projectId, taskId: id }}>
                  {called}
                </Link>{' '}
                <State state={stateKey} />
              </div>
            ))}
          </Fact>
        ),
      )}
    </Facts>
  );
}

function Read({ task }: { task: Entity }) {
  const { description, priority, dueAt, assignee, labels } = detailsOf(task);
  return (
    <>
      <Facts>
        <Fact name={t('Priority')}>{priority === null ? t('None') : number(priority)}</Fact>
        <Fact name={t('Due date')}>{dueAt === null ? t('None') : new Date(dueAt).toLocaleDateString(DAY_LOCALE)}</Fact>
        <Fact name={t('Assignee')}>{assignee || t('None')}</Fact>
        <Fact name={t('Labels')}>{labels.join(', ') || t('None')}</Fact>
      </Facts>
      {description ? <Markdown text={description} isLive={false} /> : <p className="quiet">{t('No description.')}</p>}
      <p className="quiet">
        <ReadOnlyKey action={t('Changing tasks')} />
      </p>
    </>
  );
}

function TaskForm({ task, graph }: { task: Entity; graph: Graph | undefined }) {
  const queries = useQueryClient();
  const people = useId();
  const [before, setBefore] = useState(() => draftOf(task));
  const [draft, setDraft] = useState(before);
  /** The version that the next change is based on: after a conflict the one that was found. */
  const [based, setBased] = useState(task);
  const [status, setStatus] = useState('');
  const path = `/api/onto/tasks/${task.id}`;
  const take = (now: Entity) => {
    setBased(now);
    setBefore(draftOf(now));
    setDraft(draftOf(now));
    queries.setQueryData(['work-task', task.id], now);
  };
  const save = useMutation({
    mutationFn: () =>
      api<Entity>(path, {
        method: 'PATCH',
        body: { ...changesOf(before, draft), updateStrategy: 'merge' },
        headers: { ...ifMatch(based.version), ...FROM_HERE },
      }),
    onMutate: () => setStatus(''),
    onSuccess: async (now) => {
      take(now);
      setStatus(t('Saved.'));
      await queries.invalidateQueries({ queryKey: graphKey(task.projectId) });
    },
    onError: async (error) => {
      if (isConflict(error)) await api<Entity>(path).then(setBased, () => undefined);
    },
  });
  const isChanged = Object.keys(changesOf(before, draft)).length > 0;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isChanged && !save.isPending) save.mutate();
    else setStatus(t('No changes to save.'));
  };
  const set = (change: Partial<TaskDraft>) => {
    setStatus('');
    setDraft({ ...draft, ...change });
  };
  const assignees = new Set((graph ? ofType(graph, 'task') : []).map((one) => detailsOf(one).assignee));
  assignees.delete('');
  return (
    <form className="editor" onSubmit={submit}>
      <label>
        {t('Title')}{' '}
        <input required pattern=".*\S.*" value={draft.title} onChange={(event) => set({ title: event.target.value })} />
      </label>
      <label>
        {t('Description (Markdown)')}{' '}
        <textarea rows={6} value={draft.description} onChange={(event) => set({ description: event.target.value })} />
      </label>
      <div className="fields">
        <label>
          {t('State')}{' '}
          <select value={draft.stateKey} onChange={(event) => set({ stateKey: event.target.value })}>
            {IN_ORDER.map((state) => (
              <option key={state} value={state}>
                {STATES[state]}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t('Priority')}{' '}
          <select value={draft.priority} onChange={(event) => set({ priority: event.target.value })}>
            <option value="">{t('None')}</option>
            {PRIORITIES.map((words, nth) => (
              <option key={words} value={nth + 1}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t('Due date')} <input type="date" value={draft.due} onChange={(event) => set({ due: event.target.value })} />
        </label>
      </div>
      <div className="fields">
        <label>
          {t('Assignee')}{' '}
          <input
            list={people}
            maxLength={200}
            value={draft.assignee}
            onChange={(event) => set({ assignee: event.target.value })}
          />
          <datalist id={people}>
            {[...assignees].map((name) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
        <label>
          {t('Labels (separated by commas)')}{' '}
          <input maxLength={1_000} value={draft.labels} onChange={(event) => set({ labels: event.target.value })} />
        </label>
      </div>
      {isConflict(save.error) ? (
        <div className="note bad" role="alert">
          <p>
            {t(
              'Your changes were not saved: another user changed the task in the meantime. Click “Save” again to apply them to the current version.',
            )}
          </p>
          <button
            type="button"
            onClick={() => {
              take(based);
              save.reset();
            }}
          >
            {t('Discard my changes and reload')}
          </button>
        </div>
      ) : save.isError ? (
        <ErrorNote error={save.error} />
      ) : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={save.isPending}>
          {t('Save')}
        </button>
        <span className="quiet" role="status">
          {status}
        </span>
      </div>
    </form>
  );
}
