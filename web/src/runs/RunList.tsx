// Runs of the project, newest first, narrowed by state and agent.
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, duration, ErrorNote, State, Waiting } from '../ui/parts';

const STATES = ['', 'queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'paused'];

export function RunList() {
  const me = useMe();
  const { state, agent } = useSearch({ from: '/runs' });
  const navigate = useNavigate({ from: '/runs' });
  const pages = useInfiniteQuery({
    queryKey: ['runs', state, agent],
    queryFn: ({ pageParam }) =>
      api<Schemas['RunPage']>(
        `/api/projects/${me.projectId}/agent-runs${query({ state, agent, topLevel: 'true', limit: 50, cursor: pageParam })}`,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor ?? null,
    refetchInterval: 5_000,
  });
  const runs = pages.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <main id="main" className="page">
      <div className="title">
        <h1>Runs</h1>
        <label>
          State{' '}
          <select value={state ?? ''} onChange={(event) => void navigate({ search: { agent, state: event.target.value || undefined } })}>
            {STATES.map((name) => (
              <option key={name} value={name}>
                {name || 'any'}
              </option>
            ))}
          </select>
        </label>
        <label>
          Agent{' '}
          <input
            defaultValue={agent ?? ''}
            placeholder="any"
            onKeyDown={(event) => {
              if (event.key === 'Enter') void navigate({ search: { state, agent: event.currentTarget.value || undefined } });
            }}
          />
        </label>
      </div>
      {pages.isError ? <ErrorNote error={pages.error} /> : null}
      {pages.isPending ? <Waiting what="runs" /> : null}
      {pages.isSuccess && runs.length === 0 ? <p className="note quiet">No run fits.</p> : null}
      {runs.length > 0 ? (
        <table>
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">State</th>
              <th scope="col">Agent</th>
              <th scope="col">Steps</th>
              <th scope="col">Took</th>
              <th scope="col">Begun</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run) => (
              <tr key={run.id}>
                <td>
                  <Link to="/runs/$id" params={{ id: run.id }}>
                    {run.id.slice(-12)}
                  </Link>
                </td>
                <td>
                  <State state={run.state} />
                </td>
                <td>{run.agent ?? 'plain'}</td>
                <td className="number">{run.totalSteps}</td>
                <td className="number">{duration(run.durationMs)}</td>
                <td>
                  <Ago at={run.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      {pages.hasNextPage ? (
        <button type="button" onClick={() => void pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
          More
        </button>
      ) : null}
    </main>
  );
}
