// Lists the project's runs, newest first, filtered by state and agent. Two of them can be compared.
import { useMutation, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { ListTree } from 'lucide-react';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { Ago, duration, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import type { Run } from './spans';
import { costOf, tokensOf } from './usage';

const STATES = ['', 'queued', 'running', 'waiting', 'completed', 'failed', 'cancelled', 'paused'];
const LIVE = ['queued', 'running', 'waiting'];

export function RunList() {
  useTitle('Runs');
  const me = useMe();
  const { state, agent } = useSearch({ from: '/runs' });
  const navigate = useNavigate({ from: '/runs' });
  /** Those to compare, at most two. */
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const runs = usePages<Run>(['runs', state, agent], `/api/projects/${me.projectId}/agent-runs`, {
    narrowedBy: { state, agent, topLevel: 'true' },
    refetchMs: 5_000,
  });
  const agents = useQuery({
    queryKey: ['agents'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=100`),
    staleTime: 60_000,
  });
  const cancel = useMutation({
    mutationFn: (id: string) => api(`/api/runs/${id}/cancel`, { method: 'POST' }),
    onSuccess: () => runs.reading.refetch(),
  });
  const names = new Set([...(agents.data?.items.map(({ name }) => name) ?? []), ...(agent ? [agent] : [])]);
  const isFiltered = state !== undefined || agent !== undefined;
  const [one, other] = chosen;
  const choose = (id: string) =>
    setChosen(chosen.includes(id) ? chosen.filter((chosenOne) => chosenOne !== id) : [...chosen, id].slice(-2));
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>Runs</h1>
        <div className="actions">
          <label>
            State{' '}
            <select
              value={state ?? ''}
              onChange={(event) => void navigate({ search: { agent, state: event.target.value || undefined } })}
            >
              {STATES.map((name) => (
                <option key={name} value={name}>
                  {name === '' ? 'All' : name}
                </option>
              ))}
            </select>
          </label>
          <label>
            Agent{' '}
            <select
              value={agent ?? ''}
              onChange={(event) => void navigate({ search: { state, agent: event.target.value || undefined } })}
            >
              <option value="">All</option>
              {[...names].sort().map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          {one && other ? (
            <Link to="/runs/$id/compare/$other" params={{ id: one, other }} className="button primary">
              Compare 2 runs
            </Link>
          ) : null}
        </div>
      </div>
      {runs.reading.isError ? <ErrorNote error={runs.reading.error} /> : null}
      {cancel.isError ? <ErrorNote error={cancel.error} /> : null}
      {runs.reading.isPending ? <Waiting what="runs" /> : null}
      {runs.reading.isSuccess && runs.items.length === 0 ? (
        <Empty icon={ListTree} title={isFiltered ? 'No runs match these filters' : 'No runs yet'}>
          {isFiltered ? <Link to="/runs">Clear filters</Link> : 'Each answer of an agent is a run.'}
        </Empty>
      ) : null}
      {runs.items.length > 0 ? (
        <section className="scroller" aria-label="Runs" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">
                  <span className="hidden">Compare</span>
                </th>
                <th scope="col">Run</th>
                <th scope="col">State</th>
                <th scope="col">Model</th>
                <th scope="col" className="number">
                  Steps
                </th>
                <th scope="col" className="number">
                  Tokens
                </th>
                <th scope="col" className="number">
                  Cost
                </th>
                <th scope="col" className="number">
                  Duration
                </th>
                <th scope="col">Started</th>
              </tr>
            </thead>
            <tbody>
              {runs.items.map((run) => (
                <Row
                  key={run.id}
                  run={run}
                  isChosen={chosen.includes(run.id)}
                  onChoose={() => choose(run.id)}
                  onCancel={isAdmin(me) && LIVE.includes(run.state) ? () => cancel.mutate(run.id) : undefined}
                />
              ))}
            </tbody>
          </table>
        </section>
      ) : null}
      <More of={runs} />
    </main>
  );
}

interface RowProps {
  run: Run;
  isChosen: boolean;
  onChoose: () => void;
  onCancel: (() => void) | undefined;
}

function Row({ run, isChosen, onChoose, onCancel }: RowProps) {
  const name = run.agent ?? 'plain';
  const short = run.id.slice(-12);
  return (
    <tr className={run.restricted ? undefined : 'leads'}>
      <td className="chooser">
        {run.restricted ? null : (
          <input type="checkbox" aria-label={`Compare ${short}`} checked={isChosen} onChange={onChoose} />
        )}
      </td>
      <td>
        {run.restricted ? (
          <span className="quiet" title="Only the member who started this run can see its details.">
            {name} {short} (another member’s run){' '}
            {onCancel ? (
              <button type="button" className="small" onClick={onCancel}>
                Cancel
              </button>
            ) : null}
          </span>
        ) : (
          <>
            <Link to="/runs/$id" params={{ id: run.id }} className="row-link">
              {name} <code className="quiet">{short}</code>
            </Link>
            {run.error ? <span className="one-line bad">{run.error}</span> : null}
          </>
        )}
      </td>
      <td>
        <State state={run.state} />
      </td>
      <td className="quiet">{run.model ?? '—'}</td>
      <td className="number">{run.restricted ? '—' : run.totalSteps}</td>
      <td className="number">{tokensOf(run)}</td>
      <td className="number">{costOf(run)}</td>
      <td className="number">{duration(run.durationMs)}</td>
      <td className="quiet">
        <Ago at={run.createdAt} />
      </td>
    </tr>
  );
}
