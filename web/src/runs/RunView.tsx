// Shows one run and the runs it started: what came of it, its trace, and its messages and tool calls.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Markdown } from '../chat/Markdown';
import { Fact, Facts } from '../ui/Facts';
import { LoadFailed } from '../ui/LoadFailed';
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
    `Run of ${run.data?.agent ?? 'plain chat'}`,
    run.data && !ENDED.includes(run.data.state) ? 'Running' : undefined,
  );
  if (run.isPending) return <Waiting what="the run" />;
  if (run.isError)
    return (
      <LoadFailed
        reading={run}
        what="This run"
        hint="Only the member who started a run outside a conversation can see it."
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
        <h1>{run.agent ?? 'Plain chat'}</h1>
        <State state={run.state} />
        <Actions run={run} history={history} onResumed={() => setTurn(turn + 1)} />
      </div>
      <RunFacts run={run} />
      {resets > 0 ? (
        <p className="note">
          This run needed {resets + 1} attempts: the connection to a worker was lost.{' '}
          <Link to="/runs/$id/log" params={{ id }}>
            See the attempts in the log
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
        <h2>Input</h2>
        <Payload value={run.input} />
      </section>
      {/* No message is stored of an answer that was cut off. */}
      {['failed', 'cancelled'].includes(run.state) && log.text !== '' ? (
        <section aria-label="Partial answer">
          <h2>Partial answer</h2>
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
      <Fact name="Run">
        <code title={run.id}>{run.id.slice(-12)}</code>
      </Fact>
      <Fact name="Model">{run.model ?? '—'}</Fact>
      <Fact name="Started">
        <Ago at={run.startedAt ?? run.createdAt} />
      </Fact>
      <Fact name="Duration">{duration(run.durationMs) || '—'}</Fact>
      <Fact name="Steps">{run.totalSteps}</Fact>
      <Fact name="Attempts">{run.attempt}</Fact>
      <Fact name="Tokens">{tokensOf(run)}</Fact>
      <Fact name="Cache hits">{cacheHits(usageOf(run))}</Fact>
      <Fact name="Cost">{costOf(run)}</Fact>
      {run.parentRunId ? (
        <Fact name="Parent run">
          <Link to="/runs/$id" params={{ id: run.parentRunId }}>
            {run.parentRunId.slice(-12)}
          </Link>
        </Fact>
      ) : null}
      {run.forkedFrom ? (
        <Fact name="Forked from">
          <Link to="/runs/$id" params={{ id: run.forkedFrom.runId }}>
            {run.forkedFrom.runId.slice(-12)}
          </Link>{' '}
          after step {run.forkedFrom.step} (
          <Link to="/runs/$id/compare/$other" params={{ id: run.forkedFrom.runId, other: run.id }}>
            compare
          </Link>
          )
        </Fact>
      ) : null}
      {run.conversationId ? (
        <Fact name="Conversation">
          <Link to="/c/$id" params={{ id: run.conversationId }}>
            Open
          </Link>
        </Fact>
      ) : null}
    </Facts>
  );
}
