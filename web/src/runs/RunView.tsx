// Shows one run and the runs it started: a timeline, and messages and tool calls that are loaded in full on demand.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { Columns2, Download, GitFork, Play, RefreshCw, ScrollText, Square } from 'lucide-react';
import { useEffect, useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More } from '../api/pages';
import { outbox } from '../chat/outbox';
import { client } from '../stream';
import { Fact, Facts } from '../ui/Facts';
import { LoadFailed } from '../ui/LoadFailed';
import { Ago, duration, ErrorNote, Folded, Payload, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Full } from './Full';
import { inShort } from './messages';
import { LIVE_MS, useCalls, useMessages } from './records';
import { Trace } from './Trace';
import { costOf, tokensOf } from './usage';

type Run = Schemas['RunBody'];

const ENDED = ['completed', 'failed', 'cancelled', 'paused'];

export function RunView() {
  const { id } = useParams({ from: '/runs/$id' });
  const me = useMe();
  const history = `/api/projects/${me.projectId}/agent-runs`;
  const run = useQuery({
    queryKey: ['run', id],
    queryFn: () => api<Schemas['RunDetail']>(`${history}/${id}`),
    refetchInterval: ({ state }) =>
      state.status === 'error' || (state.data && ENDED.includes(state.data.state)) ? false : LIVE_MS,
  });
  const isLive = run.data !== undefined && !ENDED.includes(run.data.state);
  const tree = useQuery({
    queryKey: ['run', id, 'tree'],
    queryFn: () => api<Schemas['RunTree']>(`${history}/${id}/tree`),
    refetchInterval: isLive ? LIVE_MS : false,
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
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{run.data.agent ?? 'Plain chat'}</h1>
        <State state={run.data.state} />
        <Actions run={run.data} history={history} />
      </div>
      <Facts>
        <Fact name="Run">
          <code title={run.data.id}>{run.data.id.slice(-12)}</code>
        </Fact>
        <Fact name="Model">{run.data.model ?? '—'}</Fact>
        <Fact name="Started">
          <Ago at={run.data.startedAt ?? run.data.createdAt} />
        </Fact>
        <Fact name="Duration">{duration(run.data.durationMs)}</Fact>
        <Fact name="Steps">{run.data.totalSteps}</Fact>
        <Fact name="Attempts">{run.data.attempt}</Fact>
        <Fact name="Tokens">{tokensOf(run.data)}</Fact>
        <Fact name="Cost">{costOf(run.data)}</Fact>
        {run.data.parentRunId ? (
          <Fact name="Parent run">
            <Link to="/runs/$id" params={{ id: run.data.parentRunId }}>
              {run.data.parentRunId.slice(-12)}
            </Link>
          </Fact>
        ) : null}
        {run.data.forkedFrom ? (
          <Fact name="Forked from">
            <Link to="/runs/$id" params={{ id: run.data.forkedFrom.runId }}>
              {run.data.forkedFrom.runId.slice(-12)}
            </Link>{' '}
            after step {run.data.forkedFrom.step} (
            <Link to="/runs/$id/compare/$other" params={{ id: run.data.forkedFrom.runId, other: run.data.id }}>
              compare
            </Link>
            )
          </Fact>
        ) : null}
        {run.data.conversationId ? (
          <Fact name="Conversation">
            <Link to="/c/$id" params={{ id: run.data.conversationId }}>
              Open
            </Link>
          </Fact>
        ) : null}
      </Facts>
      {run.data.attempt > 1 ? (
        <p className="note">
          This run needed {run.data.attempt} attempts: the connection to a worker was lost.{' '}
          <Link to="/runs/$id/log" params={{ id }}>
            See the attempts in the log
          </Link>
        </p>
      ) : null}
      {run.data.error ? (
        <p className="note bad">
          {run.data.error} {run.data.errorCode ? <code>{run.data.errorCode}</code> : null}
        </p>
      ) : null}
      <section>
        <h2>Input</h2>
        <Payload value={run.data.input} />
      </section>
      {['failed', 'cancelled'].includes(run.data.state) ? <Streamed id={run.data.id} /> : null}
      {tree.data ? <Trace key={id} run={run.data} tree={tree.data} history={history} isLive={isLive} /> : null}
      <Messages path={`${history}/${id}`} id={id} isLive={isLive} />
      <Calls path={`${history}/${id}`} id={id} isLive={isLive} />
    </main>
  );
}

/** The model's text when the run ended: no message is stored of an answer that was cut off. */
function Streamed({ id }: { id: string }) {
  const [text, setText] = useState('');
  useEffect(() => {
    const follower = client.follow({ runId: id });
    const read = () => setText(follower.transcript.turn(id)?.text ?? '');
    const unsubscribe = follower.transcript.subscribe(read);
    read();
    return () => {
      unsubscribe();
      follower.close();
    };
  }, [id]);
  if (text === '') return null;
  return (
    <section aria-label="Partial answer">
      <h2>Partial answer</h2>
      <Payload value={text} />
    </section>
  );
}

function Actions({ run, history }: { run: Run; history: string }) {
  const queries = useQueryClient();
  const [more, setMore] = useState<'fork' | 'compare' | null>(null);
  const toggle = (what: 'fork' | 'compare') => setMore(more === what ? null : what);
  const changed = () => queries.invalidateQueries({ queryKey: ['run', run.id] });
  const cancel = useMutation({
    mutationFn: () => api(`/api/runs/${run.id}/cancel`, { method: 'POST' }),
    onSuccess: changed,
  });
  const resume = useMutation({
    mutationFn: () => api(`/api/runs/${run.id}/resume`, { method: 'POST', body: {} }),
    onSuccess: changed,
  });
  const failed = cancel.error ?? resume.error;
  return (
    <>
      <div className="actions">
        {ENDED.includes(run.state) ? null : (
          <button type="button" onClick={() => cancel.mutate()}>
            <Square className="icon" /> Cancel
          </button>
        )}
        {run.state === 'paused' ? (
          <button type="button" className="primary" onClick={() => resume.mutate()}>
            <Play className="icon" /> Continue
          </button>
        ) : null}
        {run.conversationId && ['failed', 'cancelled'].includes(run.state) ? (
          <Retry run={run} conversationId={run.conversationId} />
        ) : null}
        <Link to="/runs/$id/log" params={{ id: run.id }} className="button">
          <ScrollText className="icon" /> Log
        </Link>
        <button type="button" aria-expanded={more === 'compare'} onClick={() => toggle('compare')}>
          <Columns2 className="icon" /> Compare
        </button>
        {ENDED.includes(run.state) ? (
          <button type="button" aria-expanded={more === 'fork'} onClick={() => toggle('fork')}>
            <GitFork className="icon" /> Fork
          </button>
        ) : null}
        <a href={`${history}/${run.id}/export`} download={`run-${run.id}.json`} className="button">
          <Download className="icon" /> Export
        </a>
      </div>
      {failed ? <ErrorNote error={failed} /> : null}
      {more === 'fork' ? <Fork run={run} /> : null}
      {more === 'compare' ? <Compare run={run} history={history} /> : null}
    </>
  );
}

/** Asks the same again, in the conversation. */
function Retry({ run, conversationId }: { run: Run; conversationId: string }) {
  const navigate = useNavigate();
  const input = (run as Schemas['RunDetail']).input;
  return (
    <button
      type="button"
      onClick={() => {
        void outbox.add({ place: conversationId, message: input })?.catch(() => {});
        void navigate({ to: '/c/$id', params: { id: conversationId } });
      }}
    >
      <RefreshCw className="icon" /> Retry
    </button>
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
        Fork after step{' '}
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
        {step === 0 ? 'New input' : 'Next message'}{' '}
        <input value={message} placeholder="Optional" onChange={(event) => setMessage(event.currentTarget.value)} />
      </label>
      <button type="submit" className="primary" disabled={Number.isNaN(step) || fork.isPending}>
        Create fork
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
        Compare with run{' '}
        <input
          name="other"
          list="others"
          required
          autoFocus
          placeholder="Choose a run or enter its ID"
          autoComplete="off"
        />
      </label>
      <datalist id="others">
        {others.data?.items
          .filter((other) => other.id !== run.id)
          .map((other) => (
            <option key={other.id} value={other.id}>
              {other.agent ?? 'Plain chat'}, {other.state}, {new Date(other.createdAt).toLocaleString()}
            </option>
          ))}
      </datalist>
      <button type="submit" className="primary">
        Compare
      </button>
      {others.isError ? <ErrorNote error={others.error} /> : null}
    </form>
  );
}

function Messages({ path, id, isLive }: { path: string; id: string; isLive: boolean }) {
  const messages = useMessages(path, id, isLive);
  return (
    <section>
      <h2>Messages</h2>
      {messages.reading.isError ? <ErrorNote error={messages.reading.error} /> : null}
      <ol className="records">
        {messages.items.map((message) => (
          <li key={message.id}>
            <Folded
              label={
                <>
                  <span className="step">{message.stepNumber}</span>{' '}
                  <b className="role">{message.role.replaceAll('_', ' ')}</b>{' '}
                  <span className="quiet">{inShort(message.content).slice(0, 160)}</span>
                </>
              }
            >
              {() => (
                <Full queryKey={['message', message.id]} path={`${path}/messages/${message.id}`}>
                  {({ content }) => <Payload value={content} />}
                </Full>
              )}
            </Folded>
          </li>
        ))}
      </ol>
      <More of={messages} />
    </section>
  );
}

function Calls({ path, id, isLive }: { path: string; id: string; isLive: boolean }) {
  const calls = useCalls(path, id, isLive);
  if (calls.reading.isSuccess && calls.items.length === 0) return null;
  return (
    <section>
      <h2>Tool calls</h2>
      {calls.reading.isError ? <ErrorNote error={calls.reading.error} /> : null}
      <ol className="records">
        {calls.items.map((call) => (
          <li key={call.id}>
            <Folded
              label={
                <>
                  <span className="step">{call.stepNumber}</span> <b>{call.toolName}</b> <State state={call.status} />{' '}
                  <span className="quiet">{duration(call.durationMs)}</span>
                </>
              }
            >
              {() => (
                <Full queryKey={['call', call.id]} path={`${path}/tool-calls/${call.id}`}>
                  {({ input, output, error }) => <Payload value={{ input, ...(error ? { error } : { output }) }} />}
                </Full>
              )}
            </Folded>
          </li>
        ))}
      </ol>
      <More of={calls} />
    </section>
  );
}
