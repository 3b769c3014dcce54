// The selected span of a trace: what went in, what came out, and what it used.
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../api/http';
import { Fact, Facts } from '../ui/Facts';
import { number, t } from '../ui/language';
import { Ago, duration, State } from '../ui/parts';
import { Full } from './Full';
import { StoredCall } from './StoredCall';
import { StoredMessage } from './StoredMessage';
import type { Run, Span } from './spans';
import type { Reset } from './traceLog';
import { UsageFacts } from './UsageFacts';
import { count, type Usage, usageOf } from './usage';

interface SpanDetailProps {
  span: Span;
  /** Of a model call; undefined: the log does not contain it. */
  usage: Usage | undefined;
  history: string;
  /** Of the run that the page is about. */
  pageRunId: string;
}

export function SpanDetail({ span, usage, history, pageRunId }: SpanDetailProps) {
  return (
    <section className="span-detail" aria-label={t('Selected span')}>
      {span.kind === 'run' ? <OfRun run={span.run} isOwn={span.key === pageRunId} /> : null}
      {span.kind === 'model' ? (
        <>
          <h3>{t('Model response, step {step}', { step: span.step })}</h3>
          <p className="quiet">{duration(span.took)}</p>
          {usage ? (
            <Facts>
              <UsageFacts usage={usage} />
            </Facts>
          ) : null}
          <Full<Schemas['RunMessageDetail']>
            queryKey={['message', span.message.id]}
            path={`${history}/${span.runId}/messages/${span.message.id}`}
          >
            {({ content }) => <StoredMessage sender="assistant" content={content} />}
          </Full>
        </>
      ) : null}
      {span.kind === 'call' ? (
        <>
          <h3>
            <code>{span.call.toolName}</code> <State state={span.call.status} />
          </h3>
          <p className="quiet">{t('Step {step} · {time}', { step: span.step, time: duration(span.took) })}</p>
          <StoredCall path={`${history}/${span.runId}`} id={span.call.id} />
        </>
      ) : null}
      {span.kind === 'reset' ? <OfReset reset={span.reset} pageRunId={pageRunId} /> : null}
    </section>
  );
}

function OfRun({ run, isOwn }: { run: Run; isOwn: boolean }) {
  const waited = run.startedAt ? Date.parse(run.startedAt) - Date.parse(run.createdAt) : null;
  const usage = usageOf(run);
  return (
    <>
      <h3>
        {isOwn ? t('Overview') : (run.agent ?? t('Plain chat'))} <State state={run.state} />
      </h3>
      <Facts>
        <Fact name={t('Model')}>{run.model ?? '—'}</Fact>
        <Fact name={t('Created')}>
          <Ago at={run.createdAt} />
        </Fact>
        <Fact name={t('Queue wait time')}>{duration(waited) || '—'}</Fact>
        <Fact name={t('Duration')}>{duration(run.durationMs) || '—'}</Fact>
        <Fact name={t('Steps')}>{number(run.totalSteps)}</Fact>
        <Fact name={t('Attempts')}>{number(run.attempt)}</Fact>
        <UsageFacts usage={usage} />
        {usage.contextTokens ? <Fact name={t('Last context, in tokens')}>{count(usage.contextTokens)}</Fact> : null}
      </Facts>
      {run.error ? (
        <p className="note bad">
          {run.error} {run.errorCode ? <code>{run.errorCode}</code> : null}
        </p>
      ) : null}
      {isOwn ? (
        <p className="quiet">{t('Select a row, also with the arrow keys, to see its input and output.')}</p>
      ) : (
        <Link to="/runs/$id" params={{ id: run.id }} className="button">
          {t('Open run')}
        </Link>
      )}
    </>
  );
}

function OfReset({ reset, pageRunId }: { reset: Reset; pageRunId: string }) {
  const { attempt, reason, step, discarded, seq } = reset;
  return (
    <>
      <h3>{t('Reset: attempt {attempt}', { attempt })}</h3>
      <p>
        {t(
          '{reason}. Attempt {attempt} began again with step {step}; {discarded, plural, one {# event was discarded} other {# events were discarded}}.',
          { reason, attempt, step, discarded },
        )}
      </p>
      <Link to="/runs/$id/log" params={{ id: pageRunId }} search={{ at: seq }} className="button">
        {t('Show in the log')}
      </Link>
    </>
  );
}
