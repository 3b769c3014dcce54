// Lists dead letter jobs. Those of no run can be retried, one by one or the selected ones together.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { Ago, ErrorNote } from '../ui/parts';
import { Wide } from '../ui/Wide';

type Operations = Schemas['Operations'];
type DeadJob = Operations['deadJobs'][number];

export function DeadJobs({ jobs, path }: { jobs: Operations['deadJobs']; path: string }) {
  const queries = useQueryClient();
  const [kind, setKind] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const retry = useMutation({
    mutationFn: async (ids: readonly number[]) => {
      const answers: string[] = [];
      for (const id of ids)
        answers.push((await api<Schemas['RetriedBody']>(`${path}/jobs/${id}/retry`, { method: 'POST' })).detail);
      return answers.length === 1 ? (answers[0] ?? '') : `${answers.length} jobs are available again`;
    },
    onSettled: () => {
      setChosen(new Set());
      return queries.invalidateQueries({ queryKey: ['operations'] });
    },
  });
  const kinds = [...new Set(jobs.map((job) => job.kind))].sort();
  const shown = jobs.filter((job) => kind === '' || job.kind === kind);
  // The job of a run that has ended is not retried: its message is sent again.
  const retried = shown.filter(({ runId }) => !runId).map(({ id }) => id);
  const selected = retried.filter((id) => chosen.has(id));
  const choose = (ids: readonly number[], isChosen: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) {
      if (isChosen) next.add(id);
      else next.delete(id);
    }
    setChosen(next);
  };
  return (
    <section>
      <div className="heading">
        <h2>Dead letter jobs</h2>
        {kinds.length > 1 ? (
          <label>
            Kind{' '}
            <select className="small" value={kind} onChange={(event) => setKind(event.target.value)}>
              <option value="">All ({jobs.length})</option>
              {kinds.map((name) => (
                <option key={name} value={name}>
                  {name} ({jobs.filter((job) => job.kind === name).length})
                </option>
              ))}
            </select>
          </label>
        ) : null}
        {selected.length > 0 ? (
          <button type="button" className="small" disabled={retry.isPending} onClick={() => retry.mutate(selected)}>
            <RefreshCw className="icon" /> Retry {selected.length} selected
          </button>
        ) : null}
      </div>
      <div role="status">{retry.isSuccess ? <p className="note">{retry.data}</p> : null}</div>
      {retry.isError ? <ErrorNote error={retry.error} /> : null}
      {jobs.length === 0 ? (
        <p className="quiet">No dead letter jobs.</p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col" className="chooser">
                  {retried.length > 0 ? (
                    <input
                      type="checkbox"
                      aria-label="Select all jobs"
                      checked={selected.length === retried.length}
                      onChange={(event) => choose(retried, event.target.checked)}
                    />
                  ) : null}
                </th>
                <th scope="col">Job</th>
                <th scope="col">Attempts</th>
                <th scope="col">Failed</th>
                <th scope="col">Last error</th>
                <th scope="col">
                  <span className="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((job) => (
                <DeadRow
                  key={job.id}
                  job={job}
                  isChosen={chosen.has(job.id)}
                  isBusy={retry.isPending}
                  onChoose={(isChosen) => choose([job.id], isChosen)}
                  onRetry={() => retry.mutate([job.id])}
                />
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </section>
  );
}

interface DeadRowProps {
  job: DeadJob;
  isChosen: boolean;
  isBusy: boolean;
  onChoose: (isChosen: boolean) => void;
  onRetry: () => void;
}

function DeadRow({ job, isChosen, isBusy, onChoose, onRetry }: DeadRowProps) {
  return (
    <tr>
      <td>
        {job.runId ? null : (
          <input
            type="checkbox"
            aria-label={`Select ${job.kind} ${job.id}`}
            checked={isChosen}
            onChange={(event) => onChoose(event.target.checked)}
          />
        )}
      </td>
      <th scope="row">
        {job.kind} <span className="quiet">{job.id}</span>
        {job.queue === 'default' ? null : <span className="quiet"> in {job.queue}</span>}
      </th>
      <td>{job.attempt}</td>
      <td>
        <Ago at={job.finishedAt} />
      </td>
      <td className="wraps">{job.lastError ?? '—'}</td>
      <td>
        {job.runId ? (
          <Link
            to="/runs/$id"
            params={{ id: job.runId }}
            title="The run has ended. Send the message again to retry it."
          >
            View run
          </Link>
        ) : (
          <button
            type="button"
            className="small"
            aria-label={`Retry ${job.kind} ${job.id}`}
            disabled={isBusy}
            onClick={onRetry}
          >
            <RefreshCw className="icon" /> Retry
          </button>
        )}
      </td>
    </tr>
  );
}
