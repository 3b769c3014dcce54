// A run as a trace: its model calls, tool calls and sub-agents on a waterfall, and beside it the selected one with its input and output.
import { Bot, ChevronRight, Sparkles, Wrench } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Schemas } from '../api/http';
import { duration } from '../ui/parts';
import { useCalls, useMessages } from './records';
import { SpanDetail } from './SpanDetail';
import { type Run, type Span, spanOfRun, spansWithin } from './spans';

/** Marks of the time axis, as shares of the whole. */
const MARKS = [0, 0.25, 0.5, 0.75];

interface TraceProps {
  run: Run;
  tree: Schemas['RunTree'];
  /** Of all runs. */
  history: string;
  isLive: boolean;
}

interface Shared {
  history: string;
  isLive: boolean;
  now: number;
  depthOfRoot: number;
  from: number;
  total: number;
  selected: string;
  select: (span: Span) => void;
}

export function Trace({ run, tree, history, isLive }: TraceProps) {
  const now = Date.now();
  const runs = tree.items.map((one) => spanOfRun(one, now));
  const pieces = runs.flatMap((span) => span.pieces);
  const from = Math.min(...pieces.map((piece) => piece.from));
  const total = Math.max(...pieces.map((piece) => piece.to)) - from;
  const root = runs.find((span) => span.key === run.id);
  const [selected, select] = useState<Span | null>(null);
  const shown = selected ?? root;
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set([run.id]));
  const toggle = (id: string) => {
    const next = new Set(opened);
    if (!next.delete(id)) next.add(id);
    setOpened(next);
  };
  const shared: Shared = {
    history,
    isLive,
    now,
    depthOfRoot: run.depth,
    from,
    total,
    selected: shown?.key ?? '',
    select,
  };
  return (
    <section className="trace-view" aria-label="Trace">
      <div>
        <h2>Trace</h2>
        <div className="time-axis" aria-hidden="true">
          {MARKS.map((share) => (
            <span key={share}>{share === 0 ? '0' : duration(total * share)}</span>
          ))}
          <span>{duration(total)}</span>
        </div>
        <ol className="waterfall">
          {runs.map((span) => {
            if (span.kind !== 'run') return null;
            const isOpen = opened.has(span.key);
            return [
              <Row
                key={span.key}
                span={span}
                depth={span.run.depth - run.depth}
                shared={shared}
                toggle={
                  span.key === run.id ? null : (
                    <button
                      type="button"
                      className="icon-button"
                      aria-expanded={isOpen}
                      aria-label={`Steps of ${span.run.agent ?? 'plain chat'}`}
                      onClick={() => toggle(span.key)}
                    >
                      <ChevronRight className="icon" />
                    </button>
                  )
                }
              />,
              isOpen ? <Steps key={`steps ${span.key}`} run={span.run} shared={shared} /> : null,
            ];
          })}
        </ol>
        {tree.truncated ? (
          <p className="note quiet">
            This run started more than 1,000 other runs. The deepest and newest are not shown.
          </p>
        ) : null}
      </div>
      {shown ? <SpanDetail key={shown.key} span={shown} history={history} isOwn={shown.key === run.id} /> : null}
    </section>
  );
}

/** What a run did; read when it is opened. */
function Steps({ run, shared }: { run: Run; shared: Shared }) {
  const path = `${shared.history}/${run.id}`;
  const messages = useMessages(path, run.id, shared.isLive);
  const calls = useCalls(path, run.id, shared.isLive);
  const spans = spansWithin(run, messages.items, calls.items, shared.now);
  return (
    <>
      {spans.map((span) => (
        <Row key={span.key} span={span} depth={run.depth - shared.depthOfRoot + 1} shared={shared} />
      ))}
      {messages.reading.hasNextPage ? (
        <li className="more">
          <button
            type="button"
            className="small"
            onClick={() => {
              void messages.reading.fetchNextPage();
              if (calls.reading.hasNextPage) void calls.reading.fetchNextPage();
            }}
          >
            Load later steps
          </button>
        </li>
      ) : null}
    </>
  );
}

interface RowProps {
  span: Span;
  depth: number;
  shared: Shared;
  toggle?: ReactNode;
}

function Row({ span, depth, shared: { from, total, selected, select }, toggle }: RowProps) {
  const share = (ms: number) => `${(100 * ms) / Math.max(total, 1)}%`;
  return (
    <li style={{ paddingInlineStart: `${depth * 1.1}rem` }}>
      {toggle}
      <button type="button" className="span" aria-pressed={span.key === selected} onClick={() => select(span)}>
        <span className={`name ${failed(span) ? 'bad' : ''}`}>
          <SpanIcon span={span} />
          <SpanName span={span} />
        </span>
        <span className="lane">
          {span.pieces.map((piece, nth) => (
            <span
              key={nth}
              className={`piece ${piece.className}`}
              style={{
                insetInlineStart: share(piece.from - from),
                inlineSize: share(Math.max(piece.to - piece.from, 0)),
              }}
              title={piece.title}
            />
          ))}
        </span>
        <span className="number">{duration(span.took)}</span>
      </button>
    </li>
  );
}

function failed(span: Span): boolean {
  return span.kind === 'run' ? span.run.state === 'failed' : span.kind === 'call' && span.call.status === 'error';
}

function SpanIcon({ span }: { span: Span }) {
  const Icon = { run: Bot, model: Sparkles, call: Wrench }[span.kind];
  return <Icon className="icon" />;
}

function SpanName({ span }: { span: Span }) {
  if (span.kind === 'run') return <b>{span.run.agent ?? 'plain'}</b>;
  return (
    <span>
      <span className="quiet">{span.step}</span> {span.kind === 'model' ? 'model' : span.call.toolName}
    </span>
  );
}
