// Lists and searches the project's runs, with filters that can be saved as views. Two of the runs can be compared.
import { useMutation } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import { ListTree } from 'lucide-react';
import { memo, useCallback, useEffect, useState } from 'react';
import { api } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { More, type Pages, usePages } from '../api/pages';
import { Empty } from '../ui/Empty';
import { number, t } from '../ui/language';
import { Ago, duration, ErrorNote, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { isFiltered, parametersOf } from './filters';
import { FilterForm } from './RunFilters';
import { SavedViews } from './SavedViews';
import type { Run } from './spans';
import { costOf, tokensOf } from './usage';

const LIVE = ['queued', 'running', 'waiting'];
const PAGE = 100;
/** A search reads further pages by itself, up to this number: each request searches 2,000 runs. */
const SEARCHED_PAGES_MAX = 5;
/** The API sorts this number of runs, the newest. */
const SORTED_MAX = 10_000;
const REFRESH_MS = 5_000;
const MINUTE_MS = 60_000;

export function RunList() {
  useTitle(t('Runs'));
  const me = useMe();
  const filters = useSearch({ from: '/runs' });
  const [words, setWords] = useState(filters.q ?? '');
  /** Those to compare, at most two. */
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const choose = useCallback(
    (id: string) =>
      setChosen((now) => (now.includes(id) ? now.filter((other) => other !== id) : [...now, id].slice(-2))),
    [],
  );
  const runs = usePages<Run>(['runs', filters], `/api/projects/${me.projectId}/agent-runs`, {
    narrowedBy: parametersOf(filters, Date.now()),
    limit: PAGE,
    refetchMs: REFRESH_MS,
    refetchPagesMax: 2,
  });
  const { isPending, isSuccess, isError, error, hasNextPage, refetch } = runs.reading;
  const isSearching = useSearchOn(runs, filters.q !== undefined);
  const cancel = useMutation({
    mutationFn: (id: string) => api(`/api/runs/${id}/cancel`, { method: 'POST' }),
    onSuccess: () => refetch(),
  });
  const [one, other] = chosen;
  const minute = Math.floor(Date.now() / MINUTE_MS);
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Runs')}</h1>
        <div className="actions">
          {one && other ? (
            <Link to="/runs/$id/compare/$other" params={{ id: one, other }} className="button primary">
              {t('Compare 2 runs')}
            </Link>
          ) : one ? (
            <span className="quiet">{t('Select another run to compare')}</span>
          ) : null}
        </div>
      </div>
      <SavedViews filters={filters} />
      <FilterForm
        filters={filters}
        seenAgents={runs.items.flatMap((run) => run.agent ?? [])}
        words={words}
        onWords={setWords}
      />
      {isError ? <ErrorNote error={error} /> : null}
      {cancel.isError ? <ErrorNote error={cancel.error} /> : null}
      {isPending ? <Waiting what={t('runs')} /> : null}
      <p className="quiet searched" role="status">
        {filters.q === undefined || !isSuccess ? '' : foundWords(runs.items.length, hasNextPage, isSearching)}{' '}
        {filters.order ? t('Only the newest {count} runs that match are sorted.', { count: SORTED_MAX }) : ''}
      </p>
      {isSuccess && runs.items.length === 0 && !isSearching ? (
        <Empty icon={ListTree} title={isFiltered(filters) ? t('No runs match these filters') : t('No runs yet')}>
          {isFiltered(filters) ? <Link to="/runs">{t('Clear filters')}</Link> : t('Each answer of an agent is a run.')}
        </Empty>
      ) : null}
      {runs.items.length > 0 ? (
        <section className="scroller" aria-label={t('Runs')} tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th scope="col">
                  <span className="hidden">{t('Compare')}</span>
                </th>
                <th scope="col">{t('Run')}</th>
                <th scope="col">{t('State')}</th>
                <th scope="col">{t('Model')}</th>
                {[t('Steps'), t('Tokens'), t('Cost'), t('Duration')].map((name) => (
                  <th key={name} scope="col" className="number">
                    {name}
                  </th>
                ))}
                <th scope="col">{t('Started')}</th>
              </tr>
            </thead>
            <tbody>
              {runs.items.map((run) => (
                <Row
                  key={run.id}
                  run={run}
                  minute={minute}
                  isChosen={chosen.includes(run.id)}
                  onChoose={choose}
                  onCancel={isAdmin(me) ? cancel.mutate : undefined}
                />
              ))}
            </tbody>
          </table>
        </section>
      ) : null}
      {isSearching ? null : <More of={runs} />}
    </main>
  );
}

/** Reads further pages of a search by itself, until some runs are found; whether it does. */
function useSearchOn({ items, reading }: Pages<Run>, isSearch: boolean): boolean {
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = reading;
  const pages = (data as { pages: unknown[] } | undefined)?.pages.length ?? 0;
  const isSearching = isSearch && hasNextPage && items.length < PAGE && pages < SEARCHED_PAGES_MAX;
  useEffect(() => {
    if (isSearching && !isFetching && !isError) void fetchNextPage();
  }, [isSearching, isFetching, isError, fetchNextPage]);
  return isSearching;
}

function foundWords(found: number, hasMore: boolean, isSearching: boolean): string {
  if (isSearching) return t('Searching…');
  const what = t('{count, plural, one {# run matches.} other {# runs match.}}', { count: found });
  return hasMore ? `${what} ${t('Load more to search older runs.')}` : what;
}

interface RowProps {
  run: Run;
  /** The current one: a row that is not rendered again would show an old “2 minutes ago”. */
  minute: number;
  isChosen: boolean;
  onChoose: (id: string) => void;
  onCancel: ((id: string) => void) | undefined;
}

/** Of a thousand rows, only those that change are rendered again. */
const Row = memo(function Row({ run, isChosen, onChoose, onCancel }: RowProps) {
  const name = run.agent ?? t('plain');
  const short = run.id.slice(-12);
  return (
    <tr className={run.restricted ? undefined : 'leads'}>
      <td className="chooser">
        {run.restricted ? null : (
          <input
            type="checkbox"
            aria-label={t('Compare {run}', { run: short })}
            checked={isChosen}
            onChange={() => onChoose(run.id)}
          />
        )}
      </td>
      <td>
        {run.restricted ? (
          <span className="quiet" title={t('Only the member who started this run can see its details.')}>
            {t('{agent} {run} (another member’s run)', { agent: name, run: short })}{' '}
            {onCancel && LIVE.includes(run.state) ? (
              <button type="button" className="small" onClick={() => onCancel(run.id)}>
                {t('Cancel')}
              </button>
            ) : null}
          </span>
        ) : (
          <>
            <Link to="/runs/$id" params={{ id: run.id }} className="row-link">
              <bdi>{name}</bdi> <code className="quiet">{short}</code>
            </Link>
            {run.inputPreview ? (
              <span dir="auto" className="one-line quiet" title={run.inputPreview}>
                {run.inputPreview}
              </span>
            ) : null}
            {run.error ? (
              <span dir="auto" className="one-line bad" title={run.error}>
                {run.error}
              </span>
            ) : null}
          </>
        )}
      </td>
      <td>
        <State state={run.state} />
      </td>
      <td className="quiet">{run.model ?? '—'}</td>
      <td className="number">{run.restricted ? '—' : number(run.totalSteps)}</td>
      <td className="number">{tokensOf(run)}</td>
      <td className="number">{costOf(run)}</td>
      <td className="number">{duration(run.durationMs) || '—'}</td>
      <td className="quiet">
        <Ago at={run.startedAt ?? run.createdAt} />
      </td>
    </tr>
  );
});
