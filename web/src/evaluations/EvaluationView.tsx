// Shows one evaluation live: its counts and results, which can be compared with those of another evaluation of the set. The address holds the
// other evaluation and the filter.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Square } from 'lucide-react';
import { api } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { usePages } from '../api/pages';
import { useHandles } from '../settings/handles';
import { Fact, Facts } from '../ui/Facts';
import { Failed } from '../ui/Failed';
import { LoadFailed } from '../ui/LoadFailed';
import { LOCALE, number, rich, t } from '../ui/language';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { changesOf, isChanged, isShown, type Row, rowsOf, type Shown } from './compare';
import {
  type Detail,
  type Evaluation,
  type EvaluationSet,
  isOver,
  LIVE_MS,
  nameOf,
  shareOf,
  stateOf,
  useSetsPath,
} from './evaluations';
import { Results } from './Results';
import './evaluations.css';

/** Evaluations that are offered for a comparison: the newest. */
const OFFERED = 100;

export function EvaluationView() {
  const { id, evaluation } = useParams({ from: '/evaluations/$id/$evaluation' });
  const path = `${useSetsPath()}/${id}`;
  const detail = useEvaluation(path, id, evaluation);
  useTitle(
    detail.data ? t('Evaluation of {agent}', { agent: nameOf(detail.data) }) : t('Evaluation'),
    detail.data?.state === 'active' ? t('Running') : undefined,
  );
  if (detail.isPending) return <Waiting what={t('the evaluation')} />;
  // A failed refresh takes nothing away that is being read.
  if (!detail.data) return <LoadFailed reading={detail} what={t('This evaluation')} />;
  return <OneEvaluation key={evaluation} detail={detail.data} path={path} />;
}

/** Read again while it is under way. */
function useEvaluation(path: string, setId: string, id: string | undefined) {
  return useQuery({
    queryKey: ['evaluation', setId, id],
    queryFn: () => api<Detail>(`${path}/evaluations/${id}`),
    enabled: id !== undefined,
    refetchInterval: ({ state }) => (state.status === 'error' || (state.data && isOver(state.data)) ? false : LIVE_MS),
  });
}

function OneEvaluation({ detail, path }: { detail: Detail; path: string }) {
  const { compare, show } = useSearch({ from: '/evaluations/$id/$evaluation' });
  const other = useEvaluation(path, detail.setId, compare);
  const rows = rowsOf(detail.results, other.data?.results);
  const shown = rows.filter((row) => isShown(row, show));
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1 dir="auto">{t('Evaluation of {agent}', { agent: nameOf(detail) })}</h1>
        <State state={stateOf(detail)} />
        <Cancel evaluation={detail} />
        <SetLink id={detail.setId} path={path} />
      </div>
      <Summary evaluation={detail} />
      {detail.criteria ? (
        <section>
          <h2>{t('Criteria')}</h2>
          <p dir="auto" className="criteria">
            {detail.criteria}
          </p>
        </section>
      ) : null}
      <div className="heading">
        <h2>{t('Results')}</h2>
        <Narrowing evaluation={detail} path={path} other={other.data} />
      </div>
      {compare !== undefined && other.isError ? <Failed reading={other} /> : null}
      <p className="quiet searched" role="status">
        {other.data ? changesInWords(rows, other.data) : ''}
      </p>
      {show === 'changed' && other.isPending ? (
        <Waiting what={t('the other evaluation')} />
      ) : shown.length === 0 ? (
        <p className="note quiet">{t('No cases match this filter.')}</p>
      ) : (
        <Results rows={shown} evaluation={detail} other={other.data} />
      )}
    </main>
  );
}

function changesInWords(rows: readonly Row[], other: Evaluation): string {
  const { better, worse } = changesOf(rows);
  const changed = rows.filter(isChanged).length;
  return [
    t(
      '{count, plural, =0 {No case changed} one {# case changed} other {# cases changed}}, compared with {evaluation}.',
      { count: changed, evaluation: nameOf(other) },
    ),
    better > 0 ? t('{count, plural, one {# now passes.} other {# now pass.}}', { count: better }) : '',
    worse > 0 ? t('{count, plural, one {# no longer passes.} other {# no longer pass.}}', { count: worse }) : '',
  ]
    .filter((words) => words !== '')
    .join(' ');
}

/** Cancels its DAG, as the user who started it, or as an admin. */
function Cancel({ evaluation }: { evaluation: Evaluation }) {
  const me = useMe();
  const queries = useQueryClient();
  const { id, setId, dagId, createdBy } = evaluation;
  const cancel = useMutation({
    mutationFn: () => api(`/api/projects/${me.projectId}/task-dags/${dagId}/cancel`, { method: 'POST' }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['evaluation', setId, id] }),
  });
  const isMine = !createdBy || createdBy === me.userId;
  if (isOver(evaluation) || !me.scopes.includes('write') || !(isMine || isAdmin(me))) return null;
  return (
    <>
      <div className="actions">
        <button type="button" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
          <Square className="icon" /> {t('Cancel')}
        </button>
      </div>
      {cancel.isError ? <ErrorNote error={cancel.error} /> : null}
    </>
  );
}

function SetLink({ id, path }: { id: string; path: string }) {
  const set = useQuery({ queryKey: ['evaluation-set', id], queryFn: () => api<EvaluationSet>(path) });
  const link = (
    <Link dir="auto" to="/evaluations/$id" params={{ id }} search={{ part: 'evaluations' }}>
      {set.data?.name ?? t('Open')}
    </Link>
  );
  return <p className="about-page quiet set-link">{rich('Evaluation set: {set}', { set: link })}</p>;
}

function Summary({ evaluation }: { evaluation: Evaluation }) {
  const { dagId, judge, passed, failed, errors, pending, createdAt, createdBy } = evaluation;
  const handleOf = useHandles();
  return (
    <Facts>
      <Fact name={t('Share passed')}>{shareOf(evaluation)}</Fact>
      <Fact name={t('Passed')}>{number(passed)}</Fact>
      <Fact name={t('Not passed')}>{number(failed)}</Fact>
      <Fact name={t('Errors')}>{number(errors)}</Fact>
      <Fact name={t('Pending')}>{number(pending)}</Fact>
      <Fact name={t('Judge')}>
        <bdi>{judge}</bdi>
      </Fact>
      <Fact name={t('Started')}>
        <Ago at={createdAt} />
      </Fact>
      <Fact name={t('By')}>
        <bdi>{handleOf(createdBy)}</bdi>
      </Fact>
      <Fact name={t('Workflow')}>
        <Link to="/tasks/$id" params={{ id: dagId }}>
          {t('View workflow')}
        </Link>
      </Fact>
    </Facts>
  );
}

const FILTERS: readonly (readonly [Shown, string])[] = [
  ['notPassed', t('Not passed')],
  ['changed', t('Changed')],
];

/** The filter, and the choice of the other evaluation. */
function Narrowing({
  evaluation,
  path,
  other,
}: {
  evaluation: Evaluation;
  path: string;
  other: Evaluation | undefined;
}) {
  const navigate = useNavigate({ from: '/evaluations/$id/$evaluation' });
  const { compare, show } = useSearch({ from: '/evaluations/$id/$evaluation' });
  const { items } = usePages<Evaluation>(['evaluations', evaluation.setId, OFFERED], `${path}/evaluations`, {
    limit: OFFERED,
  });
  const others = items.filter(({ id }) => id !== evaluation.id);
  // The one of the address may be on a later page of the list.
  const offered = other && !others.some(({ id }) => id === other.id) ? [...others, other] : others;
  const change = (to: { compare?: string | undefined; show?: Shown | undefined }) =>
    void navigate({ search: (now) => ({ ...now, ...to }), replace: true });
  return (
    <search className="filters" aria-label={t('Filters')}>
      <label>
        {t('Show')}{' '}
        <select
          value={show ?? ''}
          onChange={(event) => change({ show: FILTERS.find(([name]) => name === event.target.value)?.[0] })}
        >
          <option value="">{t('All')}</option>
          {FILTERS.filter(([name]) => name !== 'changed' || compare !== undefined).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t('Compare with')}{' '}
        <select
          value={compare ?? ''}
          onChange={({ target: { value } }) =>
            change({ compare: value || undefined, ...(value === '' && show === 'changed' && { show: undefined }) })
          }
        >
          <option value="">{t('None')}</option>
          {offered.map((one) => (
            <option key={one.id} value={one.id}>
              {t('{evaluation}, {time}', {
                evaluation: nameOf(one),
                time: new Date(one.createdAt).toLocaleString(LOCALE),
              })}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}
