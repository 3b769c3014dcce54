// Lists dead letter jobs, with filters. Those of no run can be retried: one by one, the selected ones, all that match, or all of a kind.
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

type Retried = Schemas['RetriedManyBody'];
/** These jobs, or all (of a kind), whether they are listed or not. */
type Asked = { ids: readonly number[] } | { kind?: string };

/** The maximum number of jobs that the API retries in one request. */
const RETRIED_MAX = 1_000;

export function DeadJobs({ operations, path }: { operations: Operations; path: string }) {
  const jobs = operations.deadJobs;
  const dead = operations.queues.reduce((sum, queue) => sum + queue.dead, 0);
  const queries = useQueryClient();
  const [wantedKind, setWantedKind] = useState('');
  const [words, setWords] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const retry = useMutation({
    mutationFn: (asked: Asked) => api<Retried>(`${path}/retry-jobs`, { method: 'POST', body: asked }),
    onSuccess: () => setChosen(new Set()),
    onSettled: () => queries.invalidateQueries({ queryKey: ['operations'] }),
  });
  const kinds = operations.deadKinds;
  // Once all of its jobs are retried, the filter ends.
  const kind = kinds.some((one) => one.kind === wantedKind) ? wantedKind : '';
  const shown = jobs.filter((job) => (kind === '' || job.kind === kind) && matches(job, words));
  // The job of a run that has ended is not retried: its message is sent again.
  const retriable = shown.filter(({ runId }) => !runId).map(({ id }) => id);
  const selected = retriable.filter((id) => chosen.has(id));
  /** What "all that match" are: by words, only listed ones match. */
  const all: Asked = words.trim() !== '' ? { ids: retriable } : kind === '' ? {} : { kind };
  const matching =
    'ids' in all
      ? retriable.length
      : kinds.reduce((sum, one) => sum + (kind === '' || kind === one.kind ? one.retriable : 0), 0);
  const count = Math.min(matching, RETRIED_MAX);
  const choose = (ids: readonly number[], isChosen: boolean) => {
    const next = new Set(chosen);
    for (const id of ids) {
      if (isChosen) next.add(id);
      else next.delete(id);
    }
    setChosen(next);
  };
  const retryAll = async () => {
    const isAgreed = await confirmed({
      title: t('{count, plural, one {Retry # job?} other {Retry # jobs?}}', { count }),
      detail: t('Each becomes a new job that is available at once. If the cause is not fixed, it fails again.'),
      action: t('{count, plural, one {Retry # job} other {Retry # jobs}}', { count }),
    });
    if (isAgreed) retry.mutate(all);
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
            <select className="small" value={kind} onChange={(event) => setWantedKind(event.target.value)}>
              <option value="">{t('All ({count})', { count: dead })}</option>
              {kinds.map((one) => (
                <option key={one.kind} value={one.kind}>
                  {one.kind} ({number(one.dead)})
                </option>
              ))}
            </select>
          </label>
        ) : null}
        {selected.length > 0 ? (
          <button
            type="button"
            className="small"
            disabled={retry.isPending}
            onClick={() => retry.mutate({ ids: selected })}
          >
            <RefreshCw className="icon" /> {t('Retry {count} selected', { count: selected.length })}
          </button>
        ) : null}
        {count > 0 ? (
          <button type="button" className="small" disabled={retry.isPending} onClick={() => void retryAll()}>
            <RefreshCw className="icon" /> {t('Retry all that match ({count})', { count })}
          </button>
        ) : null}
      </div>
      {dead > jobs.length ? (
        <p className="quiet">
          {t('The newest {count} of {total} are listed. A filter by kind also matches older ones.', {
            count: jobs.length,
            total: dead,
          })}
        </p>
      ) : null}
      <div role="status">
        {retry.data ? <p className="note">{doneWords(retry.data, missedOf(retry.data, retry.variables))}</p> : null}
      </div>
      {retry.isError ? <ErrorNote error={retry.error} /> : null}
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
                  onRetry={() => retry.mutate({ ids: [job.id] })}
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

/** How many of the jobs could no longer be retried. */
function missedOf({ jobs }: Retried, asked: Asked | undefined): number {
  return asked && 'ids' in asked ? asked.ids.length - jobs.length : 0;
}

function doneWords({ jobs }: Retried, missed: number): string {
  const [only] = jobs;
  const done =
    only && jobs.length === 1
      ? t('Job {id} is available again as job {newId}.', { id: String(only.id), newId: String(only.jobId) })
      : t('{count, plural, one {# job is available again.} other {# jobs are available again.}}', {
          count: jobs.length,
        });
  if (missed === 0) return done;
  const others = t(
    '{count, plural, one {# job could no longer be retried.} other {# jobs could no longer be retried.}}',
    { count: missed },
  );
  return `${done} ${others}`;
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
