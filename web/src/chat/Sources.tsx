// What an answer refers to, and what was found in the graph for it, listed under the answer.
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { t } from '../ui/language';
import { Folded } from '../ui/parts';
import { sourcesOf } from './citations';

/** The sources that an answer's text names. */
export function Sources({ text }: { text: string }) {
  const sources = useMemo(() => sourcesOf(text), [text]);
  if (sources.length === 0) return null;
  return (
    <Folded label={<span className="quiet">{t('Sources: {count}', { count: sources.length })}</span>}>
      {() => (
        <ol className="sources">
          {sources.map((source) => (
            <li key={source.url ?? source.key}>
              {source.url === undefined ? (
                <Link dir="auto" to="/graph" search={{ q: source.key }}>
                  {source.name}
                </Link>
              ) : (
                <a
                  dir="auto"
                  href={source.url}
                  target="_blank"
                  rel="noopener noreferrer nofollow ugc"
                  title={source.url}
                >
                  {source.name}
                </a>
              )}{' '}
              <span className="quiet">
                {source.url === undefined ? t('knowledge graph') : new URL(source.url).host}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Folded>
  );
}

/** An object of the graph that was found for the message, before it was answered. */
interface Citation {
  id: string;
  type: string;
  key: string;
  name?: string | null;
}

export function Found({ citations }: { citations: readonly unknown[] }) {
  if (citations.length === 0) return null;
  return (
    <Folded label={<span className="quiet">{t('Found in the graph: {count}', { count: citations.length })}</span>}>
      {() => (
        <ul className="chips">
          {(citations as readonly Citation[]).map((citation) => (
            <li key={citation.id}>
              <Link dir="auto" to="/graph/$id" params={{ id: citation.id }} title={citation.key}>
                {citation.name ?? citation.key}
              </Link>{' '}
              <span className="quiet">{citation.type}</span>
            </li>
          ))}
        </ul>
      )}
    </Folded>
  );
}
