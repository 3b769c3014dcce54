// Draws a run's timeline: model responses, tool calls and child runs, each as a bar over the total time.
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Schemas } from '../api/http';
import { duration } from '../ui/parts';
import { type RunMessage, type ToolCall, useCalls, useMessages } from './records';

type Run = Schemas['RunBody'];

interface Piece {
  className: string;
  /** Milliseconds since 1970. */
  from: number;
  to: number;
  title: string;
}

interface Row {
  key: string;
  label: ReactNode;
  depth: number;
  pieces: Piece[];
  took: number;
}

interface TimelineProps {
  run: Run;
  tree: Schemas['RunTree'];
  path: string;
  isLive: boolean;
}

export function Timeline({ run, tree, path, isLive }: TimelineProps) {
  const messages = useMessages(path, run.id, isLive);
  const calls = useCalls(path, run.id, isLive);
  const now = Date.now();
  const own = steps(run, messages.items, calls.items, now);
  const rows = tree.items.flatMap((other) => [ofRun(other, now), ...(other.id === run.id ? own : [])]);
  const pieces = rows.flatMap((row) => row.pieces);
  const from = Math.min(...pieces.map((piece) => piece.from));
  const to = Math.max(...pieces.map((piece) => piece.to));
  const share = (ms: number) => `${(100 * ms) / Math.max(to - from, 1)}%`;
  return (
    <section>
      <h2>Timeline</h2>
      <ol className="waterfall">
        {rows.map((row) => (
          <li key={row.key}>
            <span className="name" style={{ paddingInlineStart: `${row.depth}rem` }}>
              {row.label}
            </span>
            <span className="lane">
              {row.pieces.map((piece, nth) => (
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
            <span className="number">{duration(row.took)}</span>
          </li>
        ))}
      </ol>
      {messages.reading.hasNextPage ? (
        <p>
          <button
            type="button"
            onClick={() => {
              void messages.reading.fetchNextPage();
              if (calls.reading.hasNextPage) void calls.reading.fetchNextPage();
            }}
          >
            Load later steps
          </button>
        </p>
      ) : null}
      {tree.truncated ? (
        <p className="note quiet">This run started more than 1,000 other runs. The deepest and newest are not shown.</p>
      ) : null}
    </section>
  );
}

function ofRun(run: Run, now: number): Row {
  const made = Date.parse(run.createdAt);
  const begun = Date.parse(run.startedAt ?? run.createdAt);
  const ended = run.finishedAt ? Date.parse(run.finishedAt) : now;
  return {
    key: run.id,
    depth: run.depth,
    label: (
      <Link to="/runs/$id" params={{ id: run.id }}>
        {run.agent ?? 'plain'}
      </Link>
    ),
    pieces: [
      { className: 'waited', from: made, to: begun, title: `waited ${duration(begun - made)}` },
      { className: run.state, from: begun, to: ended, title: `${run.state}, ${duration(ended - begun)}` },
    ],
    took: ended - begun,
  };
}

/**
 * What a run did, step by step. A step's model was asked once all that was before had come to its end, and had answered when its message
 * was stored. What a fork took over from another run is not of its time.
 */
function steps(run: Run, messages: RunMessage[], calls: ToolCall[], now: number): Row[] {
  const begun = Date.parse(run.startedAt ?? run.createdAt);
  const rows: Row[] = [];
  let asked = begun;
  for (const message of messages.filter(({ role }) => role === 'assistant')) {
    const step = message.stepNumber;
    const answered = Date.parse(message.createdAt);
    if (answered >= begun) {
      rows.push({
        key: message.id,
        depth: run.depth + 1,
        label: <Label step={step} name="model" />,
        pieces: [
          { className: 'model', from: asked, to: answered, title: `model response, ${duration(answered - asked)}` },
        ],
        took: answered - asked,
      });
    }
    asked = Math.max(asked, answered);
    for (const call of calls.filter(({ stepNumber }) => stepNumber === step)) {
      if (!call.startedAt) continue;
      const from = Date.parse(call.startedAt);
      const to = call.completedAt ? Date.parse(call.completedAt) : now;
      asked = Math.max(asked, to);
      if (to < begun) continue;
      rows.push({
        key: call.id,
        depth: run.depth + 1,
        label: <Label step={step} name={call.toolName} />,
        pieces: [{ className: `call ${call.status}`, from, to, title: `${call.toolName}, ${call.status}` }],
        took: call.durationMs ?? to - from,
      });
    }
  }
  return rows;
}

function Label({ step, name }: { step: number; name: string }) {
  return (
    <>
      <span className="quiet">{step}</span> {name}
    </>
  );
}
