// A run as a trace: its model calls, tool calls, resets and sub-agents on a waterfall, and beside it the selected one with its input and output.
import { Bot, ChevronRight, RotateCcw, Sparkles, Wrench } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import type { Schemas } from '../api/http';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { number, t } from '../ui/language';
import { duration } from '../ui/parts';
import { useCalls, useMessages } from './records';
import { SpanDetail } from './SpanDetail';
import { type Run, type Span, spanOfRun, spansWithin, withChildren } from './spans';
import { stepKey, type TraceLog } from './traceLog';
import { type Usage, usageOf } from './usage';

/** Marks of the time axis, as shares of the whole. */
const MARKS = [0, 0.25, 0.5, 0.75];

interface TraceProps {
  run: Run;
  tree: Schemas['RunTree'];
  log: TraceLog;
  /** Of all runs. */
  history: string;
  isLive: boolean;
}

interface Shared extends Omit<TraceProps, 'tree'> {
  runs: readonly Run[];
  now: number;
  from: number;
  total: number;
  selected: string;
  select: (span: Span) => void;
  opened: ReadonlySet<string>;
  toggle: (run: Run) => void;
}

export function Trace({ run, tree, log, history, isLive }: TraceProps) {
  const now = Date.now();
  const runs = tree.items.map((one) => spanOfRun(one, now));
  const pieces = runs.flatMap((span) => span.pieces);
  const from = Math.min(...pieces.map((piece) => piece.from));
  const total = Math.max(...pieces.map((piece) => piece.to)) - from;
  const [chosen, select] = useState<Span | null>(null);
  // A run changes while it is looked at.
  const shown = runs.find((span) => span.key === (chosen?.key ?? run.id)) ?? chosen;
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set([run.id]));
  const toggle = (one: Run) => {
    const next = new Set(opened);
    if (!next.delete(one.id)) next.add(one.id);
    setOpened(next);
    // The selected row stays in the waterfall.
    if (chosen && chosen.kind !== 'run' && chosen.runId === one.id) select(spanOfRun(one, now));
  };
  const shared: Shared = {
    run,
    runs: tree.items,
    log,
    history,
    isLive,
    now,
    from,
    total,
    selected: shown?.key ?? '',
    select,
    opened,
    toggle,
  };
  const root = tree.items.find(({ id }) => id === run.id);
  return (
    <section className="trace-view" aria-label={t('Trace')}>
      <div>
        <h2>{t('Trace')}</h2>
        <div className="time-axis" aria-hidden="true">
          {MARKS.map((share) => (
            <span key={share}>{share === 0 ? number(0) : duration(total * share)}</span>
          ))}
          <span>{duration(total)}</span>
        </div>
        <ol className="waterfall" onKeyDown={walk}>
          {root ? <RunRows run={root} shared={shared} /> : null}
        </ol>
        {tree.truncated ? (
          <p className="note quiet">
            {t('This run started more than 1,000 other runs. The deepest and newest are not shown.')}
          </p>
        ) : null}
      </div>
      {shown ? (
        <SpanDetail key={shown.key} span={shown} usage={usageIn(shown, log)} history={history} pageRunId={run.id} />
      ) : null}
    </section>
  );
}

/** Arrow keys select the rows above and below, and open and close runs. */
function walk(event: KeyboardEvent<HTMLOListElement>): void {
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('.span')];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const row = rows[at];
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: rows.length - 1 }[event.key];
  const isOpen = row.getAttribute('aria-expanded');
  if (to !== undefined) {
    const next = rows[Math.min(rows.length - 1, Math.max(0, to))];
    next?.focus();
    next?.click();
  } else if ((event.key === FORWARD && isOpen === 'false') || (event.key === BACKWARD && isOpen === 'true')) {
    row.parentElement?.querySelector<HTMLElement>('.icon-button')?.click();
  } else return;
  event.preventDefault();
}

/** A run, and below it what it did and the runs that it started. */
function RunRows({ run, shared }: { run: Run; shared: Shared }) {
  const { opened, toggle, now, runs } = shared;
  const isOpen = opened.has(run.id);
  const children = runs.filter(({ parentRunId, id }) => parentRunId === run.id && id !== shared.run.id);
  return (
    <>
      <Row
        span={spanOfRun(run, now)}
        depth={run.depth - shared.run.depth}
        shared={shared}
        isOpen={run.id === shared.run.id ? undefined : isOpen}
        toggle={
          run.id === shared.run.id ? null : (
            <button
              type="button"
              className="icon-button"
              tabIndex={-1}
              aria-expanded={isOpen}
              aria-label={t('Steps of {agent}', { agent: run.agent ?? t('plain chat') })}
              onClick={() => toggle(run)}
            >
              <ChevronRight className="icon" />
            </button>
          )
        }
      />
      {isOpen ? (
        <Steps run={run} runs={children} shared={shared} />
      ) : (
        children.map((child) => <RunRows key={child.id} run={child} shared={shared} />)
      )}
    </>
  );
}

/** What a run did; read when it is opened. */
function Steps({ run, runs, shared }: { run: Run; runs: readonly Run[]; shared: Shared }) {
  const path = `${shared.history}/${run.id}`;
  const messages = useMessages(path, run.id, shared.isLive);
  const calls = useCalls(path, run.id, shared.isLive);
  const spans = spansWithin(run, messages.items, calls.items, shared.log.resets, shared.now);
  return (
    <>
      {withChildren(spans, runs, shared.now).map((span) =>
        span.kind === 'run' ? (
          <RunRows key={span.key} run={span.run} shared={shared} />
        ) : (
          <Row key={span.key} span={span} depth={run.depth - shared.run.depth + 1} shared={shared} />
        ),
      )}
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
            {t('Load later steps')}
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
  /** Of a run that can be opened. */
  isOpen?: boolean | undefined;
  toggle?: ReactNode;
}

function Row({ span, depth, shared: { from, total, selected, select, log }, isOpen, toggle }: RowProps) {
  const share = (ms: number) => `${(100 * ms) / Math.max(total, 1)}%`;
  const isSelected = span.key === selected;
  const tokens = usageIn(span, log)?.totalTokens;
  return (
    <li style={{ paddingInlineStart: `${depth * 1.1}rem` }}>
      {toggle}
      <button
        type="button"
        className="span"
        tabIndex={isSelected ? 0 : -1}
        aria-pressed={isSelected}
        aria-expanded={isOpen}
        onClick={() => select(span)}
      >
        <span className={`name ${failed(span) ? 'bad' : ''}`}>
          <SpanIcon span={span} />
          <SpanName span={span} />
        </span>
        {span.kind === 'reset' ? (
          <span dir="auto" className="reset">
            {span.reset.reason}
          </span>
        ) : (
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
        )}
        <span className="number used">
          {tokens ? t('{count, plural, one {# token} other {# tokens}}', { count: tokens }) : ''}
        </span>
        <span className="number">{span.kind === 'reset' ? '' : duration(span.took)}</span>
      </button>
    </li>
  );
}

function usageIn(span: Span, log: TraceLog): Usage | undefined {
  if (span.kind === 'run') return usageOf(span.run);
  return span.kind === 'model' ? log.used.get(stepKey(span.runId, span.step)) : undefined;
}

function failed(span: Span): boolean {
  if (span.kind === 'run') return span.run.state === 'failed';
  return span.kind === 'reset' || (span.kind === 'call' && span.call.status === 'error');
}

function SpanIcon({ span }: { span: Span }) {
  const Icon = { run: Bot, model: Sparkles, call: Wrench, reset: RotateCcw }[span.kind];
  return <Icon className="icon" />;
}

function SpanName({ span }: { span: Span }) {
  switch (span.kind) {
    case 'run':
      return <b dir="auto">{span.run.agent ?? t('plain')}</b>;
    case 'model':
    case 'call':
      return (
        <span dir="auto">
          <span className="quiet">{number(span.step)}</span> {span.kind === 'model' ? t('model') : span.call.toolName}
        </span>
      );
    case 'reset':
      return <span>{t('Reset: attempt {attempt}', { attempt: span.reset.attempt })}</span>;
  }
}
