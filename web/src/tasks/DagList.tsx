// Lists task graphs (DAGs), newest first.
import { Link } from '@tanstack/react-router';
import { Workflow } from 'lucide-react';
import type { Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';

export function DagList() {
  useTitle('Workflows');
  const me = useMe();
  const dags = usePages<Schemas['DagPage']['items'][number]>(['dags'], `/api/projects/${me.projectId}/task-dags`, {
    refetchMs: 5_000,
  });
  return (
    <main id="main" className="page">
      <h1>Workflows</h1>
      {dags.reading.isError ? <ErrorNote error={dags.reading.error} /> : null}
      {dags.reading.isPending ? <Waiting what="workflows" /> : null}
      {dags.reading.isSuccess && dags.items.length === 0 ? (
        <Empty icon={Workflow} title="No workflows yet">
          Agents create task graphs with <code>create_tasks</code>. You can create one with{' '}
          <code>rejoin tasks apply FILE.yaml</code>.
        </Empty>
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
              <tr key={dag.id} className="leads">
                <td>
                  <Link to="/tasks/$id" params={{ id: dag.id }} className="row-link">
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
