// One DAG, drawn live: what waits for what, how far each task is, and what came of it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, Payload, State, Waiting } from '../ui/parts';
import { placed } from './layers';

type Task = Schemas['TaskBody'];

const WIDTH = 190;
const HEIGHT = 54;
const GAP_X = 60;
const GAP_Y = 18;
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
    <main id="main" className="page">
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
      {task ? <Detail task={task} /> : <p className="quiet">Choose a task to see what came of it.</p>}
    </main>
  );
}

function Picture({ tasks, chosen, choose }: { tasks: Task[]; chosen: string | null; choose: (id: string) => void }) {
  const places = useMemo(() => placed(tasks), [tasks]);
  const at = new Map(places.map((place) => [place.task.id, { x: place.x * (WIDTH + GAP_X), y: place.y * (HEIGHT + GAP_Y) }]));
  const width = Math.max(...places.map((place) => place.x + 1)) * (WIDTH + GAP_X);
  const height = Math.max(...places.map((place) => place.y + 1)) * (HEIGHT + GAP_Y);
  return (
    <div className="picture" role="group" aria-label="Tasks and what they wait for">
      <div style={{ inlineSize: width, blockSize: height }}>
        <svg width={width} height={height} aria-hidden="true">
          {tasks.flatMap((task) =>
            task.after.map((before) => {
              const from = at.get(before);
              const to = at.get(task.id);
              if (!from || !to) return null;
              const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
              return <path key={`${before}-${task.id}`} d={`M${x1} ${y1} C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}`} />;
            }),
          )}
        </svg>
        {places.map(({ task }) => (
          <button
            key={task.id}
            type="button"
            className={`task ${task.state}`}
            aria-pressed={task.id === chosen}
            style={{ insetInlineStart: at.get(task.id)?.x, insetBlockStart: at.get(task.id)?.y, inlineSize: WIDTH, blockSize: HEIGHT }}
            onClick={() => choose(task.id)}
          >
            <b>{task.title}</b>
            <span>
              {task.state.replaceAll('_', ' ')}
              {task.agent ? ` · ${task.agent}` : ''}
            </span>
          </button>
        ))}
      </div>
    </div>
  );
}

function Detail({ task }: { task: Task }) {
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
      {task.failureContext ? <p className="note bad">{task.failureContext}</p> : null}
      {task.summary ? <Payload value={task.summary} /> : null}
    </section>
  );
}
