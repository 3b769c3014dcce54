// Compares two runs side by side: their facts, steps and costs, with the differences marked.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { duration, Folded, Payload, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { aligned, type Pair, type Piece } from './compare';
import { RunFailed } from './RunFailed';

type RunDetail = Schemas['RunDetail'];

export function CompareView() {
  useTitle('Compare runs');
  const { id, other } = useParams({ from: '/runs/$id/compare/$other' });
  const left = useExport(id);
  const right = useExport(other);
  const failed = left.error ?? right.error;
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>Compare runs</h1>
        <div className="actions">
          <Link to="/runs/$id/compare/$other" params={{ id: other, other: id }} className="button">
            Swap
          </Link>
        </div>
      </div>
      {failed ? <RunFailed error={failed} /> : null}
      {left.isPending || right.isPending ? <Waiting what="both runs" /> : null}
      {left.data && right.data ? <Both left={left.data} right={right.data} /> : null}
    </main>
  );
}

function useExport(id: string) {
  const me = useMe();
  return useQuery({
    queryKey: ['run', id, 'export'],
    queryFn: ({ signal }) =>
      api<Schemas['RunExport']>(`/api/projects/${me.projectId}/agent-runs/${id}/export`, { signal }),
  });
}

function Both({ left, right }: { left: Schemas['RunExport']; right: Schemas['RunExport'] }) {
  const steps = useMemo(() => aligned(left, right), [left, right]);
  const [onlyDifferent, setOnlyDifferent] = useState(false);
  const isShown = (pair: Pair) => !onlyDifferent || !pair.isSame;
  const count = steps.reduce((sum, { pairs }) => sum + pairs.filter((pair) => !pair.isSame).length, 0);
  return (
    <>
      <div className="scrolls">
        <table className="sides">
          <thead>
            <tr>
              <td />
              {[left.run, right.run].map((run, nth) => (
                <th key={nth} scope="col">
                  <Link to="/runs/$id" params={{ id: run.id }}>
                    {run.agent ?? 'Plain chat'} <span className="quiet">{run.id.slice(-12)}</span>
                  </Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {FACTS.map(([name, fact]) => (
              <FactRow key={name} name={name} left={fact(left.run)} right={fact(right.run)} />
            ))}
            <FactRow name="Tool calls" left={left.toolCalls.length} right={right.toolCalls.length} />
            <FactRow name="Sub-agents" left={left.children.length} right={right.children.length} />
          </tbody>
        </table>
      </div>
      <div className="heading">
        <h2>Steps</h2>
        <span className="quiet">
          {count === 0 ? 'No differences' : count === 1 ? '1 difference' : `${count} differences`}
        </span>
        <label>
          <input type="checkbox" checked={onlyDifferent} onChange={() => setOnlyDifferent(!onlyDifferent)} /> Only
          differences
        </label>
      </div>
      <ol className="sides">
        {steps.map(({ step, pairs }) =>
          pairs.some(isShown) ? (
            <li key={step}>
              <h3>{step === 0 ? 'Before the first step' : `Step ${step}`}</h3>
              {pairs.map((pair, nth) => (isShown(pair) ? <PairRow key={nth} pair={pair} /> : null))}
            </li>
          ) : null,
        )}
      </ol>
    </>
  );
}

interface Used {
  inputTokens?: number;
  outputTokens?: number;
  costUsd?: number;
}

const used = (run: RunDetail) => (run.usage ?? {}) as Used;
const known = (count: number | undefined) => count?.toLocaleString('en') ?? '—';

const FACTS: [string, (run: RunDetail) => string | number][] = [
  ['State', (run) => run.state],
  ['Agent', (run) => run.agent ?? '—'],
  ['Model', (run) => run.model ?? '—'],
  ['Input', (run) => run.input],
  ['Steps', (run) => run.totalSteps],
  ['Attempts', (run) => run.attempt],
  ['Duration', (run) => duration(run.durationMs) || '—'],
  ['Input tokens', (run) => known(used(run).inputTokens)],
  ['Output tokens', (run) => known(used(run).outputTokens)],
  ['Cost', (run) => (used(run).costUsd === undefined ? '—' : `$${used(run).costUsd?.toFixed(4)}`)],
  ['Error', (run) => run.error ?? '—'],
];

function FactRow({ name, left, right }: { name: string; left: string | number; right: string | number }) {
  const isDifferent = left !== right;
  const show = (value: string | number): ReactNode => (name === 'State' ? <State state={String(value)} /> : value);
  return (
    <tr className={isDifferent ? 'different' : undefined}>
      <th scope="row">
        {name}
        {isDifferent ? <span className="hidden">, different</span> : null}
      </th>
      <td>{show(left)}</td>
      <td>{show(right)}</td>
    </tr>
  );
}

function PairRow({ pair: { left, right, isSame } }: { pair: Pair }) {
  return (
    <div className={isSame ? 'pair' : 'pair different'} role="group" aria-label={isSame ? 'the same' : 'different'}>
      <Side piece={left} />
      <Side piece={right} />
    </div>
  );
}

function Side({ piece }: { piece: Piece | undefined }) {
  if (!piece) return <p className="quiet">—</p>;
  return (
    <Folded
      label={
        <>
          <b>{piece.name}</b> {piece.state ? <State state={piece.state} /> : null}{' '}
          <span className="quiet">{duration(piece.durationMs)}</span> <span className="quiet">{piece.line}</span>
        </>
      }
    >
      {() => <Payload value={piece.whole} />}
    </Folded>
  );
}
