// Runs of the project, newest first, narrowed by state and agent.
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import type { Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Ago, duration, ErrorNote, State, Waiting } from '../ui/parts';

const STATES = ['', 'queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'paused'];

export function RunList() {
  const me = useMe();
  const { state, agent } = useSearch({ from: '/runs' });
  const navigate = useNavigate({ from: '/runs' });
  const runs = usePages<Schemas['RunPage']['items'][number]>(['runs', state, agent], `/api/projects/${me.projectId}/agent-runs`, {
    narrowedBy: { state, agent, topLevel: 'true' },
    refetchMs: 5_000,
  });
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
      {runs.reading.isError ? <ErrorNote error={runs.reading.error} /> : null}
      {runs.reading.isPending ? <Waiting what="runs" /> : null}
      {runs.reading.isSuccess && runs.items.length === 0 ? <p className="note quiet">No run fits.</p> : null}
      {runs.items.length > 0 ? (
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
            {runs.items.map((run) => (
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
      <More of={runs} />
    </main>
  );
}
