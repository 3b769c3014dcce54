// Lists the project's runs, newest first, filtered by state and agent.
import { useMutation } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Ago, duration, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';

const STATES = ['', 'queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'paused'];

const LIVE = ['queued', 'running', 'waiting'];

export function RunList() {
  useTitle('Runs');
  const me = useMe();
  const { state, agent } = useSearch({ from: '/runs' });
  const navigate = useNavigate({ from: '/runs' });
  const runs = usePages<Schemas['RunPage']['items'][number]>(
    ['runs', state, agent],
    `/api/projects/${me.projectId}/agent-runs`,
    {
      narrowedBy: { state, agent, topLevel: 'true' },
      refetchMs: 5_000,
    },
  );
  const cancel = useMutation({
    mutationFn: (id: string) => api(`/api/runs/${id}/cancel`, { method: 'POST' }),
    onSuccess: () => runs.reading.refetch(),
  });
  return (
    <main id="main" className="page">
      <div className="title">
        <h1>Runs</h1>
        <label>
          State{' '}
          <select
            value={state ?? ''}
            onChange={(event) => void navigate({ search: { agent, state: event.target.value || undefined } })}
          >
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
            placeholder="Any"
            onKeyDown={(event) => {
              if (event.key === 'Enter')
                void navigate({ search: { state, agent: event.currentTarget.value || undefined } });
            }}
          />
        </label>
      </div>
      {runs.reading.isError ? <ErrorNote error={runs.reading.error} /> : null}
      {cancel.isError ? <ErrorNote error={cancel.error} /> : null}
      {runs.reading.isPending ? <Waiting what="runs" /> : null}
      {runs.reading.isSuccess && runs.items.length === 0 ? (
        <p className="note quiet">No runs match these filters.</p>
      ) : null}
      {runs.items.length > 0 ? (
        <section className="scroller" aria-label="Runs" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">Run</th>
                <th scope="col">State</th>
                <th scope="col">Agent</th>
                <th scope="col">Steps</th>
                <th scope="col">Duration</th>
                <th scope="col">Started</th>
              </tr>
            </thead>
            <tbody>
              {runs.items.map((run) => (
                <tr key={run.id}>
                  <td>
                    {run.restricted ? (
                      <span className="quiet" title="Only the member who started this run can see its details.">
                        {run.id.slice(-12)} (another member’s run){' '}
                        {isAdmin(me) && LIVE.includes(run.state) ? (
                          <button type="button" className="small" onClick={() => cancel.mutate(run.id)}>
                            Cancel
                          </button>
                        ) : null}
                      </span>
                    ) : (
                      <Link to="/runs/$id" params={{ id: run.id }}>
                        {run.id.slice(-12)}
                      </Link>
                    )}
                  </td>
                  <td>
                    <State state={run.state} />
                  </td>
                  <td>{run.agent ?? 'plain'}</td>
                  <td className="number">{run.restricted ? '—' : run.totalSteps}</td>
                  <td className="number">{duration(run.durationMs)}</td>
                  <td>
                    <Ago at={run.createdAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ) : null}
      <More of={runs} />
    </main>
  );
}
