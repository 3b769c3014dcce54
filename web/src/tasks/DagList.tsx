// DAGs of tasks, newest first.
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';

export function DagList() {
  const me = useMe();
  const pages = useInfiniteQuery({
    queryKey: ['dags'],
    queryFn: ({ pageParam }) =>
      api<Schemas['DagPage']>(`/api/projects/${me.projectId}/task-dags${query({ limit: 50, cursor: pageParam })}`),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor ?? null,
    refetchInterval: 5_000,
  });
  const dags = pages.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <main id="main" className="page">
      <h1>Tasks</h1>
      {pages.isError ? <ErrorNote error={pages.error} /> : null}
      {pages.isPending ? <Waiting what="tasks" /> : null}
      {pages.isSuccess && dags.length === 0 ? (
        <p className="note quiet">
          No tasks yet. An agent makes them with <code>create_tasks</code>, you with <code>rejoin tasks apply FILE.yaml</code>.
        </p>
      ) : null}
      {dags.length > 0 ? (
        <table>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col">Tasks</th>
              <th scope="col">Made</th>
            </tr>
          </thead>
          <tbody>
            {dags.map((dag) => (
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
      {pages.hasNextPage ? (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          More
        </button>
      ) : null}
    </main>
  );
}
