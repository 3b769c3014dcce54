// Searches of the graph: by words, by meaning and by both, side by side.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote, Waiting } from '../ui/parts';

const MODES = [
  ['hybrid', 'Both'],
  ['lexical', 'Words'],
  ['semantic', 'Meaning'],
] as const;

export function GraphSearch() {
  const me = useMe();
  const { q } = useSearch({ from: '/graph' });
  const navigate = useNavigate({ from: '/graph' });
  const [words, setWords] = useState(q ?? '');
  const types = useQuery({
    queryKey: ['types'],
    queryFn: () => api<Schemas['GraphTypes']>(`/api/projects/${me.projectId}/graph/types`),
    staleTime: 60_000,
  });
  return (
    <main id="main" className="page wide">
      <h1>Graph</h1>
      <form
        role="search"
        className="search"
        onSubmit={(event) => {
          event.preventDefault();
          void navigate({ search: { q: words.trim() || undefined } });
        }}
      >
        <label htmlFor="q" className="hidden">
          Search
        </label>
        <input id="q" type="search" value={words} onChange={(event) => setWords(event.target.value)} placeholder="Search the graph" />
        <button type="submit">Search</button>
      </form>
      {q ? (
        <div className="columns">
          {MODES.map(([mode, label]) => (
            <Hits key={mode} mode={mode} label={label} q={q} />
          ))}
        </div>
      ) : (
        <section>
          <h2>Types</h2>
          {types.isError ? <ErrorNote error={types.error} /> : null}
          {types.isPending ? <Waiting what="types" /> : null}
          <ul className="chips">
            {types.data?.types.map((type) => (
              <li key={type.name}>
                {type.name} <span className="quiet">{type.count.toLocaleString('en')}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </main>
  );
}

function Hits({ mode, label, q }: { mode: string; label: string; q: string }) {
  const me = useMe();
  const hits = useQuery({
    queryKey: ['search', mode, q],
    queryFn: ({ signal }) =>
      api<Schemas['GraphHits']>(`/api/projects/${me.projectId}/graph/search${query({ query: q, mode, limit: 10 })}`, { signal }),
  });
  return (
    <section aria-label={`By ${label.toLowerCase()}`}>
      <h2>{label}</h2>
      {hits.isPending ? <Waiting what="results" /> : null}
      {hits.isError ? <ErrorNote error={hits.error} /> : null}
      {hits.data?.note ? <p className="note quiet">{hits.data.note}</p> : null}
      {hits.data?.data.length === 0 ? <p className="quiet">Nothing was found.</p> : null}
      <ol className="hits">
        {hits.data?.data.map(({ object, score }) => (
          <li key={object.id}>
            <Link to="/graph/$id" params={{ id: object.id }}>
              {object.name ?? object.key}
            </Link>{' '}
            <span className="quiet">
              {object.type} · {score.toFixed(2)}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
