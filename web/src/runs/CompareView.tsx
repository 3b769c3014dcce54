// Compares two runs side by side: their facts, steps and costs, with the differences marked.
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { type ReactNode, useMemo, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { number, t } from '../ui/language';
import { duration, Folded, Payload, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { aligned, type Pair, type Piece } from './compare';
import { roleName } from './messages';
import { RunFailed } from './RunFailed';
import { count, exactDollars, usageOf } from './usage';

type RunDetail = Schemas['RunDetail'];

export function CompareView() {
  useTitle(t('Compare runs'));
  const { id, other } = useParams({ from: '/runs/$id/compare/$other' });
  const left = useExport(id);
  const right = useExport(other);
  const failed = left.error ?? right.error;
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Compare runs')}</h1>
        <div className="actions">
          <Link to="/runs/$id/compare/$other" params={{ id: other, other: id }} className="button">
            {t('Swap')}
          </Link>
        </div>
      </div>
      {failed ? <RunFailed error={failed} /> : null}
      {left.isPending || right.isPending ? <Waiting what={t('both runs')} /> : null}
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
  const differences = steps.reduce((sum, { pairs }) => sum + pairs.filter((pair) => !pair.isSame).length, 0);
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
                    {run.agent ?? t('Plain chat')} <span className="quiet">{run.id.slice(-12)}</span>
                  </Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <FactRow name={t('State')} left={left.run.state} right={right.run.state} areStates />
            {FACTS.map(([name, fact]) => (
              <FactRow key={name} name={name} left={fact(left.run)} right={fact(right.run)} />
            ))}
            <FactRow name={t('Tool calls')} left={left.toolCalls.length} right={right.toolCalls.length} />
            <FactRow name={t('Sub-agents')} left={left.children.length} right={right.children.length} />
          </tbody>
        </table>
      </div>
      <div className="heading">
        <h2>{t('Steps')}</h2>
        <span className="quiet">
          {t('{count, plural, =0 {No differences} one {# difference} other {# differences}}', { count: differences })}
        </span>
        <label>
          <input type="checkbox" checked={onlyDifferent} onChange={() => setOnlyDifferent(!onlyDifferent)} />{' '}
          {t('Only differences')}
        </label>
      </div>
      <ol className="sides">
        {steps.map(({ step, pairs }) =>
          pairs.some(isShown) ? (
            <li key={step}>
              <h3>{step === 0 ? t('Before the first step') : t('Step {step}', { step })}</h3>
              {pairs.map((pair, nth) => (isShown(pair) ? <PairRow key={nth} pair={pair} /> : null))}
            </li>
          ) : null,
        )}
      </ol>
    </>
  );
}

const FACTS: [string, (run: RunDetail) => string | number][] = [
  [t('Agent'), (run) => run.agent ?? '—'],
  [t('Model'), (run) => run.model ?? '—'],
  [t('Input'), (run) => run.input],
  [t('Steps'), (run) => run.totalSteps],
  [t('Attempts'), (run) => run.attempt],
  [t('Duration'), (run) => duration(run.durationMs) || '—'],
  [t('Input tokens'), (run) => count(usageOf(run).inputTokens)],
  [t('Output tokens'), (run) => count(usageOf(run).outputTokens)],
  [t('Cost'), (run) => exactDollars(usageOf(run).costUsd)],
  [t('Error'), (run) => run.error ?? '—'],
];

interface FactRowProps {
  name: string;
  left: string | number;
  right: string | number;
  areStates?: boolean;
}

function FactRow({ name, left, right, areStates = false }: FactRowProps) {
  const isDifferent = left !== right;
  const show = (value: string | number): ReactNode => {
    if (typeof value === 'number') return number(value);
    return areStates ? <State state={value} /> : value;
  };
  return (
    <tr className={isDifferent ? 'different' : undefined}>
      <th scope="row">
        {name}
        {isDifferent ? <span className="hidden">{t(', different')}</span> : null}
      </th>
      <td>{show(left)}</td>
      <td>{show(right)}</td>
    </tr>
  );
}

function PairRow({ pair: { left, right, isSame } }: { pair: Pair }) {
  return (
    <div
      className={isSame ? 'pair' : 'pair different'}
      role="group"
      aria-label={isSame ? t('the same') : t('different')}
    >
      <Side piece={left} />
      <Side piece={right} />
    </div>
  );
}

function Side({ piece }: { piece: Piece | undefined }) {
  if (!piece) return <p className="quiet">—</p>;
  // Only calls have a state.
  const name = piece.state === undefined ? roleName(piece.name) : piece.name;
  return (
    <Folded
      label={
        <>
          <b>{name}</b> {piece.state ? <State state={piece.state} /> : null}{' '}
          <span className="quiet">{duration(piece.durationMs)}</span>{' '}
          <span dir="auto" className="quiet">
            {piece.line}
          </span>
        </>
      }
    >
      {() => <Payload value={piece.whole} />}
    </Folded>
  );
}
