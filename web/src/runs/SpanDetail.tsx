// The selected span of a trace: what went in, what came out, and what it cost.
import { Link } from '@tanstack/react-router';
import { Markdown } from '../chat/Markdown';
import { Fact, Facts } from '../ui/Facts';
import { Ago, duration, Payload, State } from '../ui/parts';
import { Full } from './Full';
import { readable } from './messages';
import type { Run, Span } from './spans';
import { costOf, tokensOf } from './usage';

interface SpanDetailProps {
  span: Span;
  history: string;
  /** Of the run that the page is about. */
  isOwn: boolean;
}

export function SpanDetail({ span, history, isOwn }: SpanDetailProps) {
  return (
    <section className="span-detail" aria-label="Selected span">
      {span.kind === 'run' ? <OfRun run={span.run} isOwn={isOwn} /> : null}
      {span.kind === 'model' ? (
        <>
          <h3>Model response, step {span.step}</h3>
          <p className="quiet">{duration(span.took)}</p>
          <Full queryKey={['message', span.message.id]} path={`${history}/${span.runId}/messages/${span.message.id}`}>
            {({ content }) => <Response content={content} />}
          </Full>
        </>
      ) : null}
      {span.kind === 'call' ? (
        <>
          <h3>
            <code>{span.call.toolName}</code> <State state={span.call.status} />
          </h3>
          <p className="quiet">
            Step {span.step} · {duration(span.took)}
          </p>
          <Full queryKey={['call', span.call.id]} path={`${history}/${span.runId}/tool-calls/${span.call.id}`}>
            {({ input, output, error }) => (
              <>
                <h4>Arguments</h4>
                <Payload value={input} />
                <h4>{error ? 'Error' : 'Result'}</h4>
                {error ? <p className="note bad">{String(error)}</p> : <Payload value={output} />}
              </>
            )}
          </Full>
        </>
      ) : null}
    </section>
  );
}

function OfRun({ run, isOwn }: { run: Run; isOwn: boolean }) {
  const waited = run.startedAt ? Date.parse(run.startedAt) - Date.parse(run.createdAt) : null;
  return (
    <>
      <h3>
        {isOwn ? 'Overview' : (run.agent ?? 'Plain chat')} <State state={run.state} />
      </h3>
      <Facts>
        <Fact name="Model">{run.model ?? '—'}</Fact>
        <Fact name="Created">
          <Ago at={run.createdAt} />
        </Fact>
        <Fact name="Queue wait time">{duration(waited) || '—'}</Fact>
        <Fact name="Duration">{duration(run.durationMs) || '—'}</Fact>
        <Fact name="Steps">{run.totalSteps}</Fact>
        <Fact name="Attempts">{run.attempt}</Fact>
        <Fact name="Tokens">{tokensOf(run)}</Fact>
        <Fact name="Cost">{costOf(run)}</Fact>
      </Facts>
      {run.error ? <p className="note bad">{run.error}</p> : null}
      {isOwn ? (
        <p className="quiet">Select a span to see its input and output.</p>
      ) : (
        <Link to="/runs/$id" params={{ id: run.id }} className="button">
          Open run
        </Link>
      )}
    </>
  );
}

function Response({ content }: { content: unknown }) {
  const { text, calls } = readable(content);
  return (
    <>
      {text === '' ? null : <Markdown text={text} isLive={false} />}
      {calls.map(({ name, input }, nth) => (
        <div key={nth}>
          <h4>
            Calls <code>{name}</code>
          </h4>
          <Payload value={input} />
        </div>
      ))}
      {text === '' && calls.length === 0 ? <p className="quiet">No text.</p> : null}
    </>
  );
}
