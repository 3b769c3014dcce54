// Searches the graph by keyword, by meaning and by both, side by side.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { message, number, t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';

/** Each with the heading of its results, and their name. */
const HYBRID = { mode: 'hybrid', heading: message('Hybrid'), name: message('By hybrid') };
const LEXICAL = { mode: 'lexical', heading: message('Keyword'), name: message('By keyword') };
const SEMANTIC = { mode: 'semantic', heading: message('Semantic'), name: message('By semantic') };
const SCORE = { minimumFractionDigits: 2, maximumFractionDigits: 2 };

export function GraphSearch() {
  const me = useMe();
  const { q } = useSearch({ from: '/graph' });
  useTitle(q ? t('Knowledge graph: {query}', { query: q }) : t('Knowledge graph'));
  const navigate = useNavigate({ from: '/graph' });
  const [words, setWords] = useState(q ?? '');
  const types = useQuery({
    queryKey: ['types'],
    queryFn: () => api<Schemas['GraphTypes']>(`/api/projects/${me.projectId}/graph/types`),
    staleTime: 60_000,
  });
  return (
    <main id="main" className="page wide">
      <h1>{t('Knowledge graph')}</h1>
      <search>
        <form
          className="search"
          onSubmit={(event) => {
            event.preventDefault();
            void navigate({ search: { q: words.trim() || undefined } });
          }}
        >
          <label htmlFor="q" className="hidden">
            {t('Search')}
          </label>
          <input
            id="q"
            type="search"
            value={words}
            onChange={(event) => setWords(event.target.value)}
            placeholder={t('Search the graph')}
          />
          <button type="submit" className="primary">
            {t('Search')}
          </button>
        </form>
      </search>
      {q ? (
        <Results q={q} />
      ) : (
        <section>
          <h2>{t('Types')}</h2>
          {types.isError ? <ErrorNote error={types.error} /> : null}
          {types.isPending ? <Waiting what={t('types')} /> : null}
          <ul className="chips">
            {types.data?.types.map((type) => (
              <li key={type.name}>
                {type.name} <span className="quiet">{number(type.count)}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </main>
  );
}

/** The three ways to search beside each other; only one where the server can search by words alone. */
function Results({ q }: { q: string }) {
  const hits = useHits(HYBRID.mode, q);
  if (hits.data?.note) return <Hits {...LEXICAL} mode={HYBRID.mode} q={q} />;
  // The others are asked when it is known that they differ.
  const modes = hits.isPending ? [HYBRID] : [HYBRID, LEXICAL, SEMANTIC];
  return (
    <div className="columns">
      {modes.map((mode) => (
        <Hits key={mode.mode} {...mode} q={q} />
      ))}
    </div>
  );
}

function useHits(mode: string, q: string) {
  const me = useMe();
  return useQuery({
    queryKey: ['search', mode, q],
    queryFn: ({ signal }) =>
      api<Schemas['GraphHits']>(`/api/projects/${me.projectId}/graph/search${query({ query: q, mode, limit: 10 })}`, {
        signal,
      }),
  });
}

function Hits({ mode, heading, name, q }: typeof HYBRID & { q: string }) {
  const hits = useHits(mode, q);
  return (
    <section aria-label={t(name)}>
      <h2>{t(heading)}</h2>
      {hits.isPending ? <Waiting what={t('results')} /> : null}
      {hits.isError ? <ErrorNote error={hits.error} /> : null}
      {hits.data?.note ? <p className="note quiet">{hits.data.note}</p> : null}
      {hits.data?.data.length === 0 ? <p className="quiet">{t('No matching objects.')}</p> : null}
      <ol className="hits">
        {hits.data?.data.map(({ object, score }) => (
          <li key={object.id}>
            <Link dir="auto" to="/graph/$id" params={{ id: object.id }}>
              {object.name ?? object.key}
            </Link>{' '}
            <span className="quiet">
              {object.type} · {number(score, SCORE)}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
