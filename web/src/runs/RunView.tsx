// Shows one run and the runs it started: what came of it, its trace, and its messages and tool calls.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Markdown } from '../chat/Markdown';
import { Fact, Facts } from '../ui/Facts';
import { LoadFailed } from '../ui/LoadFailed';
import { number, rich, t } from '../ui/language';
import { Ago, duration, Payload, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { adviceFor } from './failures';
import { Actions, ENDED } from './RunActions';
import { Calls, Messages } from './RunRecords';
import { LIVE_MS } from './records';
import { Trace } from './Trace';
import { useTraceLog } from './traceLog';
import { cacheHits, costOf, tokensOf, usageOf } from './usage';

type Run = Schemas['RunDetail'];

export function RunView() {
  const { id } = useParams({ from: '/runs/$id' });
  const me = useMe();
  const history = `/api/projects/${me.projectId}/agent-runs`;
  const run = useQuery({
    queryKey: ['run', id],
    queryFn: () => api<Run>(`${history}/${id}`),
    refetchInterval: ({ state }) =>
      state.status === 'error' || (state.data && ENDED.includes(state.data.state)) ? false : LIVE_MS,
  });
  useTitle(
    t('Run of {agent}', { agent: run.data?.agent ?? t('plain chat') }),
    run.data && !ENDED.includes(run.data.state) ? t('Running') : undefined,
  );
  if (run.isPending) return <Waiting what={t('the run')} />;
  if (run.isError)
    return (
      <LoadFailed
        reading={run}
        what={t('This run')}
        hint={t('Only the member who started a run outside a conversation can see it.')}
      />
    );
  return <OneRun key={id} run={run.data} history={history} />;
}

function OneRun({ run, history }: { run: Run; history: string }) {
  const { id } = run;
  const isLive = !ENDED.includes(run.state);
  const path = `${history}/${id}`;
  const [turn, setTurn] = useState(0);
  const log = useTraceLog(id, turn);
  // The run's own number counts the claims after a suspension, too.
  const resets = log.resets.filter(({ runId }) => runId === id).length;
  const tree = useQuery({
    queryKey: ['run', id, 'tree'],
    queryFn: () => api<Schemas['RunTree']>(`${path}/tree`),
    refetchInterval: isLive ? LIVE_MS : false,
  });
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1 dir="auto">{run.agent ?? t('Plain chat')}</h1>
        <State state={run.state} />
        <Actions run={run} history={history} onResumed={() => setTurn(turn + 1)} />
      </div>
      <RunFacts run={run} />
      {resets > 0 ? (
        <p className="note">
          {t(
            'This run needed {count, plural, one {# attempt} other {# attempts}}: the connection to a worker was lost.',
            { count: resets + 1 },
          )}{' '}
          <Link to="/runs/$id/log" params={{ id }}>
            {t('See the attempts in the log')}
          </Link>
        </p>
      ) : null}
      {run.error ? (
        <div className="note bad">
          {run.error} {run.errorCode ? <code>{run.errorCode}</code> : null}
          {adviceFor(run.errorCode) ? <div>{adviceFor(run.errorCode)}</div> : null}
        </div>
      ) : null}
      <section>
        <h2>{t('Input')}</h2>
        <Payload value={run.input} />
      </section>
      {/* No message is stored of an answer that was cut off. */}
      {['failed', 'cancelled'].includes(run.state) && log.text !== '' ? (
        <section aria-label={t('Partial answer')}>
          <h2>{t('Partial answer')}</h2>
          <Markdown text={log.text} isLive={false} />
        </section>
      ) : null}
      {tree.data ? <Trace run={run} tree={tree.data} log={log} history={history} isLive={isLive} /> : null}
      <Messages path={path} id={id} isLive={isLive} />
      <Calls path={path} id={id} isLive={isLive} />
    </main>
  );
}

function RunFacts({ run }: { run: Run }) {
  return (
    <Facts>
      <Fact name={t('Run')}>
        <code title={run.id}>{run.id.slice(-12)}</code>
      </Fact>
      <Fact name={t('Model')}>{run.model ?? '—'}</Fact>
      <Fact name={t('Started')}>
        <Ago at={run.startedAt ?? run.createdAt} />
      </Fact>
      <Fact name={t('Duration')}>{duration(run.durationMs) || '—'}</Fact>
      <Fact name={t('Steps')}>{number(run.totalSteps)}</Fact>
      <Fact name={t('Attempts')}>{number(run.attempt)}</Fact>
      <Fact name={t('Tokens')}>{tokensOf(run)}</Fact>
      <Fact name={t('Cache hits')}>{cacheHits(usageOf(run))}</Fact>
      <Fact name={t('Cost')}>{costOf(run)}</Fact>
      {run.parentRunId ? (
        <Fact name={t('Parent run')}>
          <Link to="/runs/$id" params={{ id: run.parentRunId }}>
            {run.parentRunId.slice(-12)}
          </Link>
        </Fact>
      ) : null}
      {run.forkedFrom ? (
        <Fact name={t('Forked from')}>
          {rich('{run} after step {step} ({compare})', {
            run: (
              <Link to="/runs/$id" params={{ id: run.forkedFrom.runId }}>
                {run.forkedFrom.runId.slice(-12)}
              </Link>
            ),
            step: run.forkedFrom.step,
            compare: (
              <Link to="/runs/$id/compare/$other" params={{ id: run.forkedFrom.runId, other: run.id }}>
                {t('compare')}
              </Link>
            ),
          })}
        </Fact>
      ) : null}
      {run.conversationId ? (
        <Fact name={t('Conversation')}>
          <Link to="/c/$id" params={{ id: run.conversationId }}>
            {t('Open')}
          </Link>
        </Fact>
      ) : null}
    </Facts>
  );
}
