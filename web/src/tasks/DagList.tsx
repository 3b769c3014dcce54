// Lists task graphs (DAGs), newest first.
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';

export function DagList() {
  useTitle('Tasks');
  const me = useMe();
  const dags = usePages<Schemas['DagPage']['items'][number]>(['dags'], `/api/projects/${me.projectId}/task-dags`, {
    refetchMs: 5_000,
  });
  return (
    <main id="main" className="page">
      <h1>Tasks</h1>
      {dags.reading.isError ? <ErrorNote error={dags.reading.error} /> : null}
      {dags.reading.isPending ? <Waiting what="tasks" /> : null}
      {dags.reading.isSuccess && dags.items.length === 0 ? (
        <p className="note quiet">
          No tasks yet. Agents create them with <code>create_tasks</code>. You can create them with{' '}
          <code>rejoin tasks apply FILE.yaml</code>.
        </p>
      ) : null}
      {dags.items.length > 0 ? (
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col">Tasks</th>
              <th scope="col">Created</th>
            </tr>
          </thead>
          <tbody>
            {dags.items.map((dag) => (
              <tr key={dag.id}>
                <td>
                  <Link to="/tasks/$id" params={{ id: dag.id }}>
                    {dag.name}
                  </Link>
                </td>
                <td>
                  <State state={dag.state} />
                </td>
                <td>
                  {Object.entries(dag.counts as Record<string, number>)
                    .map(([state, count]) => `${count} ${state.replaceAll('_', ' ')}`)
                    .join(', ')}
                </td>
                <td>
                  <Ago at={dag.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <More of={dags} />
    </main>
  );
}
