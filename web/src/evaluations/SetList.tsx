// Lists the evaluation sets of the project, with the latest evaluation of each.
import { Link, useNavigate } from '@tanstack/react-router';
import { ClipboardCheck, Plus } from 'lucide-react';
import { useState } from 'react';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { Failed } from '../ui/Failed';
import { number, t } from '../ui/language';
import { Ago, ReadOnlyKey, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Wide } from '../ui/Wide';
import { type EvaluationSet, LISTED_MS, nameOf, totalOf, useSetsPath } from './evaluations';
import { SetForm } from './SetForm';
import './evaluations.css';

export function SetList() {
  useTitle(t('Evaluations'));
  const mayWrite = useMe().scopes.includes('write');
  const navigate = useNavigate();
  const [isMaking, setMaking] = useState(false);
  const sets = usePages<EvaluationSet>(['evaluation-sets'], useSetsPath(), {
    refetchMs: LISTED_MS,
    refetchPagesMax: 2,
  });
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Evaluations')}</h1>
        {mayWrite ? (
          <div className="actions">
            <button type="button" className="primary" onClick={() => setMaking(true)}>
              <Plus className="icon" /> {t('New evaluation set')}
            </button>
          </div>
        ) : null}
        <p className="about-page quiet">{t('Sets of questions, and how well agents answered them.')}</p>
      </div>
      {sets.reading.isError ? <Failed reading={sets.reading} /> : null}
      {sets.reading.isPending ? <Waiting what={t('evaluation sets')} /> : null}
      {sets.reading.isSuccess && sets.items.length === 0 ? (
        <Empty icon={ClipboardCheck} title={t('No evaluation sets yet')}>
          {t('An evaluation set is a list of questions that shows whether an agent still answers well after a change.')}{' '}
          {mayWrite ? null : <ReadOnlyKey action={t('Creating evaluation sets')} />}
        </Empty>
      ) : null}
      {sets.items.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Name')}</th>
                <th scope="col" className="number">
                  {t('Cases')}
                </th>
                <th scope="col">{t('Latest evaluation')}</th>
                <th scope="col" className="number">
                  {t('Passed')}
                </th>
                <th scope="col">{t('Started')}</th>
              </tr>
            </thead>
            <tbody>
              {sets.items.map((set) => (
                <SetRow key={set.id} set={set} />
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
      <More of={sets} />
      {isMaking ? (
        <SetForm
          set={null}
          onClose={() => setMaking(false)}
          onSaved={({ id }) => void navigate({ to: '/evaluations/$id', params: { id } })}
        />
      ) : null}
    </main>
  );
}

function SetRow({ set: { id, name, cases, latest } }: { set: EvaluationSet }) {
  return (
    <tr className="leads">
      <td>
        <Link dir="auto" to="/evaluations/$id" params={{ id }} className="row-link">
          {name}
        </Link>
      </td>
      <td className="number">{number(cases)}</td>
      {latest ? (
        <>
          <td className="run-links">
            <Link to="/evaluations/$id/$evaluation" params={{ id, evaluation: latest.id }}>
              {nameOf(latest)}
            </Link>
          </td>
          <td className="number">{t('{count} of {all}', { count: latest.passed, all: totalOf(latest) })}</td>
          <td>
            <Ago at={latest.createdAt} />
          </td>
        </>
      ) : (
        <>
          <td className="quiet">{t('None')}</td>
          <td className="number quiet">—</td>
          <td className="quiet">—</td>
        </>
      )}
    </tr>
  );
}
