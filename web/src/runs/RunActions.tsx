// What can be done with a run: cancel, continue, retry, fork, compare and export it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { ClipboardPlus, Columns2, Download, GitFork, Play, RefreshCw, ScrollText, Square } from 'lucide-react';
import { useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { outbox } from '../chat/outbox';
import { LOCALE, t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { ErrorNote } from '../ui/parts';

const AddToSet = lazyPart(async () => (await import('../evaluations/AddToSet')).default, t('evaluation sets'));

type Run = Schemas['RunDetail'];

export const ENDED = ['completed', 'failed', 'cancelled', 'paused'];

interface ActionsProps {
  run: Run;
  /** Of all runs. */
  history: string;
  /** The run goes on in another turn. */
  onResumed: () => void;
}

export function Actions({ run, history, onResumed }: ActionsProps) {
  const queries = useQueryClient();
  const mayWrite = useMe().scopes.includes('write');
  const [isAdding, setAdding] = useState(false);
  const [more, setMore] = useState<'fork' | 'compare' | null>(null);
  const toggle = (what: 'fork' | 'compare') => setMore(more === what ? null : what);
  const changed = () => queries.invalidateQueries({ queryKey: ['run', run.id] });
  const cancel = useMutation({
    mutationFn: () => api(`/api/runs/${run.id}/cancel`, { method: 'POST' }),
    onSuccess: changed,
  });
  const resume = useMutation({
    mutationFn: () => api(`/api/runs/${run.id}/resume`, { method: 'POST', body: {} }),
    onSuccess: () => {
      onResumed();
      return changed();
    },
  });
  const navigate = useNavigate();
  /** The same input again: in the conversation, or as a new run. */
  const retry = useMutation({
    mutationFn: async () => {
      const { conversationId, input } = run;
      if (conversationId) {
        void outbox.add({ place: conversationId, message: input })?.catch(() => {});
        return navigate({ to: '/c/$id', params: { id: conversationId } });
      }
      const body = { step: 0 };
      const { runId } = await api<Schemas['Triggered']>(`/api/runs/${run.id}/fork`, { method: 'POST', body });
      return navigate({ to: '/runs/$id', params: { id: runId } });
    },
  });
  const failed = cancel.error ?? resume.error ?? retry.error;
  return (
    <>
      <div className="actions">
        {ENDED.includes(run.state) ? null : (
          <button type="button" onClick={() => cancel.mutate()}>
            <Square className="icon" /> {t('Cancel')}
          </button>
        )}
        {run.state === 'paused' ? (
          <button type="button" className="primary" onClick={() => resume.mutate()}>
            <Play className="icon" /> {t('Continue')}
          </button>
        ) : null}
        {['failed', 'cancelled'].includes(run.state) && !run.parentRunId ? (
          <button type="button" disabled={retry.isPending} onClick={() => retry.mutate()}>
            <RefreshCw className="icon" /> {t('Retry')}
          </button>
        ) : null}
        <Link to="/runs/$id/log" params={{ id: run.id }} className="button">
          <ScrollText className="icon" /> {t('Log')}
        </Link>
        <button type="button" aria-expanded={more === 'compare'} onClick={() => toggle('compare')}>
          <Columns2 className="icon" /> {t('Compare')}
        </button>
        {ENDED.includes(run.state) ? (
          <button type="button" aria-expanded={more === 'fork'} onClick={() => toggle('fork')}>
            <GitFork className="icon" /> {t('Fork')}
          </button>
        ) : null}
        {mayWrite && ENDED.includes(run.state) ? (
          <button type="button" aria-haspopup="dialog" onClick={() => setAdding(true)}>
            <ClipboardPlus className="icon" /> {t('Add to evaluation set')}
          </button>
        ) : null}
        <a href={`${history}/${run.id}/export`} download={`run-${run.id}.json`} className="button">
          <Download className="icon" /> {t('Export')}
        </a>
      </div>
      {failed ? <ErrorNote error={failed} /> : null}
      {isAdding ? (
        <AddToSet runId={run.id} hasAnswer={run.state === 'completed'} onClose={() => setAdding(false)} />
      ) : null}
      {more === 'fork' ? <Fork run={run} /> : null}
      {more === 'compare' ? <Compare run={run} history={history} /> : null}
    </>
  );
}

/** Starts a new run from the state of this one after a step, with an optional new message. */
function Fork({ run }: { run: Run }) {
  const navigate = useNavigate();
  const [step, setStep] = useState(Math.max(0, run.totalSteps - 1));
  const [message, setMessage] = useState('');
  const fork = useMutation({
    mutationFn: () =>
      api<{ runId: string }>(`/api/runs/${run.id}/fork`, {
        method: 'POST',
        body: { step, ...(message.trim() && { message: message.trim() }) },
      }),
    onSuccess: ({ runId }) => navigate({ to: '/runs/$id', params: { id: runId } }),
  });
  return (
    <form
      className="aside note"
      onSubmit={(event) => {
        event.preventDefault();
        fork.mutate();
      }}
    >
      <label>
        {t('Fork after step')}{' '}
        <input
          type="number"
          min={0}
          max={run.totalSteps}
          value={step}
          required
          autoFocus
          onChange={(event) => setStep(event.currentTarget.valueAsNumber)}
        />
      </label>
      <label className="fill">
        {step === 0 ? t('New input') : t('Next message')}{' '}
        <input
          value={message}
          placeholder={t('Optional')}
          onChange={(event) => setMessage(event.currentTarget.value)}
        />
      </label>
      <button type="submit" className="primary" disabled={Number.isNaN(step) || fork.isPending}>
        {t('Create fork')}
      </button>
      {fork.isError ? <ErrorNote error={fork.error} /> : null}
    </form>
  );
}

/** Chooses the other run: one of the same agent, or any by its number. */
function Compare({ run, history }: { run: Run; history: string }) {
  const navigate = useNavigate();
  const others = useQuery({
    queryKey: ['runs', 'of', run.agent],
    queryFn: () => api<Schemas['RunPage']>(`${history}${query({ agent: run.agent, limit: 50 })}`),
  });
  return (
    <form
      className="aside note"
      onSubmit={(event) => {
        event.preventDefault();
        const other = String(new FormData(event.currentTarget).get('other')).trim();
        if (other) void navigate({ to: '/runs/$id/compare/$other', params: { id: run.id, other } });
      }}
    >
      <label className="fill">
        {t('Compare with run')}{' '}
        <input
          name="other"
          list="others"
          required
          autoFocus
          placeholder={t('Choose a run or enter its ID')}
          autoComplete="off"
        />
      </label>
      <datalist id="others">
        {others.data?.items
          .filter((other) => other.id !== run.id)
          .map((other) => (
            <option key={other.id} value={other.id}>
              {t('{agent}, {state}, {time}', {
                agent: other.agent ?? t('Plain chat'),
                state: t(other.state),
                time: new Date(other.createdAt).toLocaleString(LOCALE),
              })}
            </option>
          ))}
      </datalist>
      <button type="submit" className="primary">
        {t('Compare')}
      </button>
      {others.isError ? <ErrorNote error={others.error} /> : null}
    </form>
  );
}
