// One DAG, drawn live: what waits for what, how far each task is, and what came of it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, Payload, State, Waiting } from '../ui/parts';
import { drawn } from '../ui/columns';
import { chainOf, columnsOf } from './layers';

type Task = Schemas['TaskBody'];

/** How large tasks are drawn, and how far from each other [px]; with many of them, smaller. */
const ROOMY = { width: 220, height: 54, gapX: 60, gapY: 18 };
const DENSE = { width: 160, height: 46, gapX: 46, gapY: 10 };
const MANY = 24;
const OVER = ['completed', 'failed', 'cancelled'];

export function DagView() {
  const { id } = useParams({ from: '/tasks/$id' });
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/projects/${me.projectId}/task-dags/${id}`;
  const dag = useQuery({
    queryKey: ['dag', id],
    queryFn: () => api<Schemas['DagDetail']>(path),
    refetchInterval: ({ state }) => (state.data && OVER.includes(state.data.state) ? false : 1_000),
  });
  const act = useMutation({
    mutationFn: (verb: string) => api(`${path}/${verb}`, { method: 'POST' }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['dag', id] }),
  });
  const [chosen, choose] = useState<string | null>(null);
  if (dag.isPending) return <Waiting what="the tasks" />;
  if (dag.isError) return <ErrorNote error={dag.error} />;
  const task = dag.data.tasks.find((task) => task.id === chosen);
  const verbs = { active: ['pause', 'cancel'], paused: ['resume', 'cancel'] }[dag.data.state] ?? [];
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{dag.data.name}</h1>
        <State state={dag.data.state} />
        <div className="actions">
          {verbs.map((verb) => (
            <button key={verb} type="button" onClick={() => act.mutate(verb)}>
              {verb}
            </button>
          ))}
        </div>
      </div>
      {act.isError ? <ErrorNote error={act.error} /> : null}
      <Picture tasks={dag.data.tasks} chosen={chosen} choose={choose} />
      {task ? <Detail task={task} tasks={dag.data.tasks} choose={choose} retry={() => act.mutate(`tasks/${encodeURIComponent(task.id)}/retry`)} /> : <p className="quiet">Choose a task to see what came of it.</p>}
    </main>
  );
}

function Picture({ tasks, chosen, choose }: { tasks: Task[]; chosen: string | null; choose: (id: string) => void }) {
  // What one points at, or has gone to with the keyboard: all that it hangs together with stands out.
  const [looked, look] = useState<string | null>(null);
  const about = looked ?? chosen;
  const shape = JSON.stringify(tasks.map(({ id, after }) => ({ id, after })));
  const sizes = tasks.length > MANY ? DENSE : ROOMY;
  // Drawn anew when other tasks wait for others, not when one has gone on.
  const drawing = useMemo(() => {
    const shaped = JSON.parse(shape) as { id: string; after: string[] }[];
    const lines = shaped.flatMap((task) => task.after.map((before): [string, string] => [before, task.id]));
    return drawn(columnsOf(shaped), lines, sizes);
  }, [shape, sizes]);
  const chain = useMemo(() => (about === null ? null : chainOf(tasks, about)), [tasks, about]);
  /** What it is to the one that is looked at. */
  const kin = (id: string) => {
    if (chain === null || id === about) return '';
    return chain.before.has(id) ? 'before' : chain.behind.has(id) ? 'behind' : 'apart';
  };
  const isOfChain = (before: string, after: string) =>
    chain !== null && (after === about || chain.before.has(after) || before === about || chain.behind.has(before)) && kin(before) !== 'apart' && kin(after) !== 'apart';
  return (
    <div className={tasks.length > MANY ? 'picture dense' : 'picture'} role="group" aria-label="Tasks and what they wait for">
      <div style={{ inlineSize: drawing.width, blockSize: drawing.height }}>
        <svg width={drawing.width} height={drawing.height} aria-hidden="true">
          {tasks.flatMap((task) =>
            task.after.map((before) => (
              <path
                key={`${before}-${task.id}`}
                className={chain === null ? undefined : isOfChain(before, task.id) ? 'of-chain' : 'apart'}
                d={drawing.path(before, task.id)}
              />
            )),
          )}
        </svg>
        {tasks.map((task) => {
          const { x, y } = drawing.at(task.id);
          return (
            <button
              key={task.id}
              type="button"
              className={`task ${task.state} ${kin(task.id)}`}
              aria-pressed={task.id === chosen}
              title={task.title}
              style={{ insetInlineStart: x, insetBlockStart: y, inlineSize: sizes.width, blockSize: sizes.height }}
              onClick={() => choose(task.id)}
              onMouseEnter={() => look(task.id)}
              onMouseLeave={() => look(null)}
              onFocus={() => look(task.id)}
              onBlur={() => look(null)}
            >
              <b>{task.title}</b>
              <span>
                {task.state.replaceAll('_', ' ')}
                {task.agent ? ` · ${task.agent}` : ''}
              </span>
            </button>
          );
        })}
      </div>
    </div>
  );
}

/** Names of tasks that one can go to. */
function Others({ name, ids, tasks, choose }: { name: string; ids: readonly string[]; tasks: Task[]; choose: (id: string) => void }) {
  const others = ids.map((id) => tasks.find((task) => task.id === id)).filter((task) => task !== undefined);
  if (others.length === 0) return null;
  return (
    <p className="others">
      {name}{' '}
      {others.map((task) => (
        <button key={task.id} type="button" className="small" onClick={() => choose(task.id)}>
          {task.title} <State state={task.state} />
        </button>
      ))}
    </p>
  );
}

function Detail({ task, tasks, choose, retry }: { task: Task; tasks: Task[]; choose: (id: string) => void; retry: () => void }) {
  return (
    <section>
      <h2>{task.title}</h2>
      <p>
        <State state={task.state} /> {task.agent ? `${task.agent}${task.agentBecause ? `: ${task.agentBecause}` : ''}` : null}
        {task.retryCount > 0 ? ` · tried ${task.retryCount + 1} times` : null}
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
              its run
            </Link>
          </>
        ) : null}
        {' · '}
        <Link to="/graph/$id" params={{ id: task.objectId }}>
          its object
        </Link>
      </p>
      <Others name="Waits for" ids={task.after} tasks={tasks} choose={choose} />
      <Others name="Holds up" ids={tasks.filter((other) => other.after.includes(task.id)).map((other) => other.id)} tasks={tasks} choose={choose} />
      {task.failureContext ? <p className="note bad">{task.failureContext}</p> : null}
      {task.state === 'failed' ? (
        <button type="button" className="small" onClick={retry}>
          Try again
        </button>
      ) : null}
      {task.summary ? <Payload value={task.summary} /> : null}
    </section>
  );
}
