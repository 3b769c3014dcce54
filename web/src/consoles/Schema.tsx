// Lists the tables or collections of a data source and, on demand, their columns. A click inserts a name into the console.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { t } from '../ui/language';
import { ErrorNote, Folded, Waiting } from '../ui/parts';

/** A column, or a field of a collection's documents, as a schema describes it. */
interface Column {
  name: string;
  type?: string;
  types?: string[];
}

interface Props {
  sourceId: string;
  database?: string | undefined;
  onName: (name: string) => void;
}

export function Schema({ sourceId, database, onName }: Props) {
  const me = useMe();
  /** Number of requested reloads. The server caches a schema for an hour. */
  const [looks, setLooks] = useState(0);
  const path = `/api/projects/${me.projectId}/data-sources/${sourceId}`;
  const key = ['schema', sourceId, database ?? null, looks];
  const tables = useQuery({
    queryKey: [...key, 'tables'],
    queryFn: () => api<Schemas['Tables']>(`${path}/tables${among({ database })}`),
  });
  return (
    <section className="schema" aria-label={t('Schema')}>
      <button type="button" className="plain small" onClick={() => setLooks(looks + 1)}>
        {t('Refresh')}
      </button>
      {tables.isPending ? <Waiting what={t('tables')} /> : null}
      {tables.isError ? <ErrorNote error={tables.error} /> : null}
      <ul className="hits">
        {tables.data?.items.map((table) => (
          <li key={table.name}>
            <button
              type="button"
              className="plain small"
              title={t('Insert the name into the console')}
              onClick={() => onName(table.name)}
            >
              {table.name}
            </button>
            <Folded label={<span className="quiet">{columnsOf(table.kind)}</span>}>
              {() => (
                <Columns
                  path={path}
                  within={key}
                  isFresh={looks > 0}
                  database={database}
                  table={table.name}
                  onName={onName}
                />
              )}
            </Folded>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface ColumnsProps {
  path: string;
  within: unknown[];
  isFresh: boolean;
  database: string | undefined;
  table: string;
  onName: (name: string) => void;
}

function Columns({ path, within, isFresh, database, table, onName }: ColumnsProps) {
  const schema = useQuery({
    queryKey: [...within, table],
    queryFn: () =>
      api<Schemas['SchemaBody']>(`${path}/schema${among({ database, table, refresh: isFresh ? 'true' : undefined })}`),
  });
  if (schema.isPending) return <Waiting what={t('columns')} />;
  if (schema.isError) return <ErrorNote error={schema.error} />;
  const described = schema.data.schema as { columns?: Column[]; fields?: Column[] };
  return (
    <ul>
      {(described.columns ?? described.fields ?? []).map((column) => (
        <li key={column.name}>
          <button type="button" className="plain small" onClick={() => onName(column.name)}>
            {column.name}
          </button>{' '}
          <span className="quiet">{column.type ?? column.types?.join(', ')}</span>
        </li>
      ))}
    </ul>
  );
}

function columnsOf(kind: string): string {
  switch (kind) {
    case 'table':
      return t('Columns of this table');
    case 'view':
      return t('Columns of this view');
    case 'materialized view':
      return t('Columns of this materialized view');
    case 'foreign table':
      return t('Columns of this foreign table');
    case 'collection':
      return t('Columns of this collection');
    default:
      return t('Columns of this {kind}', { kind });
  }
}

function among(given: Record<string, string | undefined>): string {
  const known = Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return known.length > 0 ? `?${new URLSearchParams(known)}` : '';
}
