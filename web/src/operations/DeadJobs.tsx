// Lists dead letter jobs, with filters. Those of no run can be retried: one by one, the selected ones, or all that match.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { confirmed } from '../ui/Dialog';
import { number, t } from '../ui/language';
import { Ago, ErrorNote } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { containsWords } from '../ui/words';

type Operations = Schemas['Operations'];
type DeadJob = Operations['deadJobs'][number];

interface Retried {
  /** The last answer of the server. */
  detail: string;
  done: number;
  failed: { id: number; error: unknown }[];
}

export function DeadJobs({ operations, path }: { operations: Operations; path: string }) {
  const jobs = operations.deadJobs;
  const dead = operations.queues.reduce((sum, queue) => sum + queue.dead, 0);
  const queries = useQueryClient();
  const [kind, setKind] = useState('');
  const [words, setWords] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const retry = useMutation({
    mutationFn: async (ids: readonly number[]) => {
      const retried: Retried = { detail: '', done: 0, failed: [] };
      for (const id of ids) {
        try {
          const { detail } = await api<Schemas['RetriedBody']>(`${path}/jobs/${id}/retry`, { method: 'POST' });
          Object.assign(retried, { detail, done: retried.done + 1 });
        } catch (error) {
          retried.failed.push({ id, error });
        }
      }
      return retried;
    },
    onSuccess: ({ failed }) => {
      // Those that failed stay selected.
      setChosen(new Set(failed.map(({ id }) => id)));
      return queries.invalidateQueries({ queryKey: ['operations'] });
    },
  });
  const kinds = [...new Set(jobs.map((job) => job.kind))].sort();
  const shown = jobs.filter((job) => (kind === '' || job.kind === kind) && matches(job, words));
  // The job of a run that has ended is not retried: its message is sent again.
  const retriable = shown.filter(({ runId }) => !runId).map(({ id }) => id);
  const selected = retriable.filter((id) => chosen.has(id));
  const choose = (ids: readonly number[], isChosen: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) {
      if (isChosen) next.add(id);
      else next.delete(id);
    }
    setChosen(next);
  };
  const retryAll = async () => {
    const count = retriable.length;
    const isAgreed = await confirmed({
      title: t('{count, plural, one {Retry # job?} other {Retry # jobs?}}', { count }),
      detail: t('Each becomes a new job that is available at once. If the cause is not fixed, it fails again.'),
      action: t('{count, plural, one {Retry # job} other {Retry # jobs}}', { count }),
    });
    if (isAgreed) retry.mutate(retriable);
  };
  return (
    <section id="dead-jobs">
      <div className="heading">
        <h2>{t('Dead letter jobs')}</h2>
        {jobs.length > 0 ? (
          <label>
            {t('Filter')}{' '}
            <input
              type="search"
              className="small"
              value={words}
              placeholder={t('Kind, queue, ID or error')}
              autoComplete="off"
              onChange={(event) => setWords(event.target.value)}
            />
          </label>
        ) : null}
        {kinds.length > 1 ? (
          <label>
            {t('Kind')}{' '}
            <select className="small" value={kind} onChange={(event) => setKind(event.target.value)}>
              <option value="">{t('All ({count})', { count: jobs.length })}</option>
              {kinds.map((name) => (
                <option key={name} value={name}>
                  {name} ({number(jobs.filter((job) => job.kind === name).length)})
                </option>
              ))}
            </select>
          </label>
        ) : null}
        {selected.length > 0 ? (
          <button type="button" className="small" disabled={retry.isPending} onClick={() => retry.mutate(selected)}>
            <RefreshCw className="icon" /> {t('Retry {count} selected', { count: selected.length })}
          </button>
        ) : null}
        {retriable.length > 0 ? (
          <button type="button" className="small" disabled={retry.isPending} onClick={() => void retryAll()}>
            <RefreshCw className="icon" /> {t('Retry all that match ({count})', { count: retriable.length })}
          </button>
        ) : null}
      </div>
      {dead > jobs.length ? (
        <p className="quiet">
          {t('The newest {count} of {total} are listed. Retry these to see older ones.', {
            count: jobs.length,
            total: dead,
          })}
        </p>
      ) : null}
      <div role="status">
        {retry.data && retry.data.done > 0 ? <p className="note">{doneWords(retry.data)}</p> : null}
      </div>
      {retry.data?.failed[0] ? (
        <>
          <ErrorNote error={retry.data.failed[0].error} />
          <p className="quiet">
            {t('{count} of {total} jobs were not retried. They are still selected.', {
              count: retry.data.failed.length,
              total: retry.data.failed.length + retry.data.done,
            })}
          </p>
        </>
      ) : null}
      {jobs.length === 0 ? (
        <p className="quiet">{t('No dead letter jobs.')}</p>
      ) : shown.length === 0 ? (
        <p className="quiet">{t('No jobs match these filters.')}</p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col" className="chooser">
                  {retriable.length > 0 ? (
                    <input
                      type="checkbox"
                      aria-label={t('Select all jobs')}
                      checked={selected.length === retriable.length}
                      onChange={(event) => choose(retriable, event.target.checked)}
                    />
                  ) : null}
                </th>
                <th scope="col">{t('Job')}</th>
                <th scope="col">{t('Attempts')}</th>
                <th scope="col">{t('Failed')}</th>
                <th scope="col">{t('Last error')}</th>
                <th scope="col">
                  <span className="hidden">{t('Actions')}</span>
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

function matches({ id, kind, queue, lastError }: DeadJob, words: string): boolean {
  return containsWords([id, kind, queue, lastError].join(' '), words);
}

function doneWords({ detail, done }: Retried): string {
  return done === 1
    ? detail
    : t('{count, plural, one {# job is available again} other {# jobs are available again}}', { count: done });
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
            aria-label={t('Select {kind} {id}', { kind: job.kind, id: String(job.id) })}
            checked={isChosen}
            onChange={(event) => onChoose(event.target.checked)}
          />
        )}
      </td>
      <th scope="row">
        {job.kind} <span className="quiet">{job.id}</span>
        {job.queue === 'default' ? null : <span className="quiet"> {t('in {queue}', { queue: job.queue })}</span>}
      </th>
      <td>{number(job.attempt)}</td>
      <td>
        <Ago at={job.finishedAt} />
      </td>
      <td className="wraps">{job.lastError ?? '—'}</td>
      <td>
        {job.runId ? (
          <Link
            to="/runs/$id"
            params={{ id: job.runId }}
            title={t('The run has ended. Send the message again to retry it.')}
          >
            {t('View run')}
          </Link>
        ) : (
          <button
            type="button"
            className="small"
            aria-label={t('Retry {kind} {id}', { kind: job.kind, id: String(job.id) })}
            disabled={isBusy}
            onClick={onRetry}
          >
            <RefreshCw className="icon" /> {t('Retry')}
          </button>
        )}
      </td>
    </tr>
  );
}
