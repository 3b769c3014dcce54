// Searches the graph by keyword, by meaning and by both, side by side.
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { api, query, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';

const MODES = [
  ['hybrid', 'Hybrid'],
  ['lexical', 'Keyword'],
  ['semantic', 'Semantic'],
] as const;

export function GraphSearch() {
  const me = useMe();
  const { q } = useSearch({ from: '/graph' });
  useTitle(q ? `Knowledge graph: ${q}` : 'Knowledge graph');
  const navigate = useNavigate({ from: '/graph' });
  const [words, setWords] = useState(q ?? '');
  const types = useQuery({
    queryKey: ['types'],
    queryFn: () => api<Schemas['GraphTypes']>(`/api/projects/${me.projectId}/graph/types`),
    staleTime: 60_000,
  });
  return (
    <main id="main" className="page wide">
      <h1>Knowledge graph</h1>
      <search>
        <form
          className="search"
          onSubmit={(event) => {
            event.preventDefault();
            void navigate({ search: { q: words.trim() || undefined } });
          }}
        >
          <label htmlFor="q" className="hidden">
            Search
          </label>
          <input
            id="q"
            type="search"
            value={words}
            onChange={(event) => setWords(event.target.value)}
            placeholder="Search the graph"
          />
          <button type="submit" className="primary">
            Search
          </button>
        </form>
      </search>
      {q ? (
        <Results q={q} />
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

/** The three ways to search beside each other; only one where the server can search by words alone. */
function Results({ q }: { q: string }) {
  const hits = useHits('hybrid', q);
  if (hits.data?.note) return <Hits mode="hybrid" label="Keyword" q={q} />;
  // The others are asked when it is known that they differ.
  const modes = hits.isPending ? MODES.slice(0, 1) : MODES;
  return (
    <div className="columns">
      {modes.map(([mode, label]) => (
        <Hits key={mode} mode={mode} label={label} q={q} />
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

function Hits({ mode, label, q }: { mode: string; label: string; q: string }) {
  const hits = useHits(mode, q);
  return (
    <section aria-label={`By ${label.toLowerCase()}`}>
      <h2>{label}</h2>
      {hits.isPending ? <Waiting what="results" /> : null}
      {hits.isError ? <ErrorNote error={hits.error} /> : null}
      {hits.data?.note ? <p className="note quiet">{hits.data.note}</p> : null}
      {hits.data?.data.length === 0 ? <p className="quiet">No matching objects.</p> : null}
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
