// Adds, tests and removes the project's data sources. A secret is entered once and never shown.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Database } from 'lucide-react';
import { type FormEvent, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { Empty } from '../ui/Empty';
import { message, rich, t } from '../ui/language';
import { Ago, ErrorNote, State, Waiting } from '../ui/parts';

type Source = Schemas['DataSourceBody'];
type Request = Schemas['DataSourceRequest'];
type Settings = Schemas['DataSourceSettings'];

const SERVER = ['host', 'port', 'database', 'user'] as const;
/** What each kind is reached by. */
const KINDS: Record<string, readonly (keyof Settings)[]> = {
  postgresql: SERVER,
  mysql: SERVER,
  sqlite: ['path'],
  duckdb: ['path'],
  mongodb: [...SERVER, 'authSource'],
  bigquery: ['cloudProject', 'database', 'location'],
};
/** What the settings are called; the others are called as in the API. */
const LABELS: Partial<Record<keyof Settings, string>> = {
  host: t('host'),
  port: t('port'),
  database: t('database'),
  user: t('user'),
  path: t('path'),
  location: t('location'),
};

export function DataSources() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/projects/${me.projectId}/data-sources`;
  const sources = useQuery({ queryKey: ['data-sources'], queryFn: () => api<Schemas['DataSources']>(path) });
  const onSuccess = () => queries.invalidateQueries({ queryKey: ['data-sources'] });
  const add = useMutation({ mutationFn: (body: Request) => api<Source>(path, { method: 'POST', body }), onSuccess });
  if (sources.isPending) return <Waiting what={t('data sources')} />;
  if (sources.isError) return <ErrorNote error={sources.error} />;
  return (
    <>
      {sources.data.items.length === 0 ? (
        <Empty icon={Database} title={t('No data sources yet')}>
          {t('Add one to run queries in consoles.')}
        </Empty>
      ) : null}
      <ol className="records">
        {sources.data.items.map((source) => (
          <One key={source.id} source={source} path={`${path}/${source.id}`} onSuccess={onSuccess} />
        ))}
      </ol>
      <h2>{t('Add a data source')}</h2>
      <SourceForm key={sources.data.items.length} isBusy={add.isPending} onSubmit={(body) => add.mutate(body)} />
      {add.isError ? <ErrorNote error={add.error} /> : null}
    </>
  );
}

function One({ source, path, onSuccess }: { source: Source; path: string; onSuccess: () => Promise<unknown> }) {
  const test = useMutation({ mutationFn: () => api(`${path}/test`, { method: 'POST' }), onSettled: onSuccess });
  const remove = useMutation({ mutationFn: () => api(path, { method: 'DELETE' }), onSuccess });
  const failed = test.error ?? remove.error;
  return (
    <li>
      <b dir="auto">{source.name}</b>{' '}
      <State state={source.failure ? 'failed' : source.testedAt ? 'alive' : message('not tested yet')} />{' '}
      <span className="quiet">
        {rich('{kind}, {access, select, read {read-only} other {writable}}, {place}, tested {when}', {
          kind: source.kind,
          access: source.readOnly ? 'read' : 'write',
          place: source.settings.host ?? source.settings.path ?? source.settings.cloudProject,
          when: <Ago at={source.testedAt} />,
        })}
      </span>
      <div className="controls">
        <button type="button" disabled={test.isPending} onClick={() => test.mutate()}>
          {test.isPending ? t('Testing…') : t('Test')}
        </button>
        <button
          type="button"
          onClick={() =>
            void confirmed({
              title: t('Remove the data source “{name}”?', { name: source.name }),
              detail: t('Consoles and agents can no longer query it. The database itself stays as it is.'),
              action: t('Remove data source'),
            }).then((isAgreed) => isAgreed && remove.mutate())
          }
        >
          {t('Remove')}
        </button>
        {test.isSuccess ? (
          <span role="status" className="quiet">
            {t('Connection succeeded.')}
          </span>
        ) : null}
      </div>
      {source.failure ? (
        <p dir="auto" className="note bad">
          {source.failure}
        </p>
      ) : null}
      {failed ? <ErrorNote error={failed} /> : null}
    </li>
  );
}

function SourceForm({ isBusy, onSubmit }: { isBusy: boolean; onSubmit: (body: Request) => void }) {
  const [kind, setKind] = useState('postgresql');
  const names = KINDS[kind] ?? [];
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const given = (name: string) => String(form.get(name) ?? '').trim();
    const settings: Settings = Object.fromEntries(
      names
        .filter((name) => given(name) !== '')
        .map((name) => [name, name === 'port' ? Number(given(name)) : given(name)]),
    );
    if (names.includes('host') && !form.get('tls')) settings.tls = false;
    const secret = String(form.get('secret') ?? '');
    onSubmit({
      name: given('name'),
      kind,
      settings,
      readOnly: Boolean(form.get('readOnly')),
      ...(secret !== '' && { secret }),
    });
  };
  return (
    <form className="editor" onSubmit={submit}>
      <label>
        {t('Name')} <input name="name" required />
      </label>
      <label>
        {t('Kind')}{' '}
        <select value={kind} onChange={(event) => setKind(event.target.value)}>
          {Object.keys(KINDS).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {names.map((name) => (
        <label key={`${kind} ${name}`}>
          {LABELS[name] ?? name} <input name={name} type={name === 'port' ? 'number' : 'text'} />
        </label>
      ))}
      {kind === 'sqlite' ? null : (
        <label>
          {kind === 'bigquery' ? t('Service account key (JSON)') : t('Password')}{' '}
          <input name="secret" type="password" autoComplete="new-password" />
        </label>
      )}
      {names.includes('host') ? (
        <label>
          <input name="tls" type="checkbox" defaultChecked /> {t('TLS')}
        </label>
      ) : null}
      <label>
        <input name="readOnly" type="checkbox" defaultChecked /> {t('Read-only')}
      </label>
      <button type="submit" className="primary" disabled={isBusy}>
        {isBusy ? t('Testing…') : t('Add data source')}
      </button>
    </form>
  );
}
