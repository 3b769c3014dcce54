// Lists the evaluations of a set, newest first.
import { Link } from '@tanstack/react-router';
import { ClipboardCheck } from 'lucide-react';
import { More, usePages } from '../api/pages';
import { useHandles } from '../settings/handles';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { number, t } from '../ui/language';
import { Ago, State, Waiting } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { type Evaluation, type EvaluationSet, LISTED_MS, nameOf, stateOf } from './evaluations';

export function Evaluations({ set, path }: { set: EvaluationSet; path: string }) {
  const handleOf = useHandles();
  const evaluations = usePages<Evaluation>(['evaluations', set.id], `${path}/evaluations`, {
    refetchMs: LISTED_MS,
    refetchPagesMax: 2,
  });
  return (
    <section aria-label={t('Evaluations')}>
      {evaluations.reading.isPending ? <Waiting what={t('evaluations')} /> : null}
      {evaluations.reading.isError ? <Failed reading={evaluations.reading} /> : null}
      {evaluations.reading.isSuccess && evaluations.items.length === 0 ? (
        <Empty icon={ClipboardCheck} title={t('No evaluations yet')}>
          {t('An evaluation asks an agent each question of the set, and a judge decides which answers pass.')}
        </Empty>
      ) : null}
      {evaluations.items.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Agent')}</th>
                <th scope="col">{t('Judge')}</th>
                <th scope="col">{t('State')}</th>
                {[t('Passed'), t('Not passed'), t('Errors'), t('Pending')].map((name) => (
                  <th key={name} scope="col" className="number">
                    {name}
                  </th>
                ))}
                <th scope="col">{t('Started')}</th>
                <th scope="col">{t('By')}</th>
              </tr>
            </thead>
            <tbody>
              {evaluations.items.map((one) => (
                <tr key={one.id} className="leads">
                  <td>
                    <Link
                      to="/evaluations/$id/$evaluation"
                      params={{ id: set.id, evaluation: one.id }}
                      className="row-link"
                    >
                      <bdi>{nameOf(one)}</bdi>
                    </Link>
                  </td>
                  <td>
                    <bdi>{one.judge}</bdi>
                  </td>
                  <td>
                    <State state={stateOf(one)} />
                  </td>
                  {[one.passed, one.failed, one.errors, one.pending].map((count, nth) => (
                    <td key={nth} className="number">
                      {number(count)}
                    </td>
                  ))}
                  <td>
                    <Ago at={one.createdAt} />
                  </td>
                  <td>
                    <bdi>{handleOf(one.createdBy)}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
      <More of={evaluations} />
    </section>
  );
}
