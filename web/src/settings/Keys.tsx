// Creates and revokes the project's API keys. A key is shown once.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { LOCALE, rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { Wide } from '../ui/Wide';

type Key = Schemas['KeyItem'];
type Scope = 'read' | 'write' | 'admin' | 'worker';

const SCOPES: Record<Scope, string> = {
  read: t('View data'),
  write: t('Chat with agents, cancel runs'),
  admin: t('Change settings'),
  worker: t('Serve tools'),
};
const LIFETIMES: [string, string][] = [
  ['30', t('{count, plural, one {# day} other {# days}}', { count: 30 })],
  ['90', t('{count, plural, one {# day} other {# days}}', { count: 90 })],
  ['365', t('1 year')],
  ['', t('No expiry')],
];
/** Keys that are shown; the newest. */
const SHOWN = 200;

export function Keys() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/keys`;
  const keys = useQuery({ queryKey: ['keys'], queryFn: () => api<Schemas['KeyPage']>(`${path}?limit=${SHOWN}`) });
  const onSuccess = () => queries.invalidateQueries({ queryKey: ['keys'] });
  const make = useMutation({
    mutationFn: (body: Schemas['KeyRequest']) => api<Schemas['MadeKey']>(path, { method: 'POST', body }),
    onSuccess,
  });
  const revoke = useMutation({ mutationFn: (id: string) => api(`${path}/${id}`, { method: 'DELETE' }), onSuccess });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const element = event.currentTarget;
    const form = new FormData(element);
    const days = String(form.get('days'));
    make.mutate(
      {
        name: String(form.get('name')).trim(),
        scopes: form.getAll('scope') as Scope[],
        expiresInDays: days === '' ? undefined : Number(days),
      },
      { onSuccess: () => element.reset() },
    );
  };
  if (keys.isPending) return <Waiting what={t('keys')} />;
  if (keys.isError) return <ErrorNote error={keys.error} />;
  const failed = make.error ?? revoke.error;
  return (
    <>
      <p className="quiet">
        {t('A key acts as the user who created it, and never has more permissions than that user.')}{' '}
        {t('It is shown only once, when you create it.')}
      </p>
      <form className="search" onSubmit={submit}>
        <input name="name" aria-label={t('Key name')} placeholder={t('What the key is for')} maxLength={100} required />
        {(Object.keys(SCOPES) as Scope[])
          .filter((scope) => me.scopes.includes(scope))
          .map((scope) => (
            <label key={scope} title={SCOPES[scope]}>
              <input type="checkbox" name="scope" value={scope} defaultChecked={scope === 'read'} /> {scope}
            </label>
          ))}
        <select name="days" aria-label={t('Expires after')} defaultValue="90">
          {LIFETIMES.map(([days, label]) => (
            <option key={label} value={days}>
              {label}
            </option>
          ))}
        </select>
        <button type="submit" className="primary" disabled={make.isPending}>
          {t('Create key')}
        </button>
      </form>
      {make.data ? (
        <ShownOnce key={make.data.id} secret={make.data.key} onDone={() => make.reset()}>
          {rich('Key {name} created.', { name: <b dir="auto">{make.data.name}</b> })}
        </ShownOnce>
      ) : null}
      {failed ? <ErrorNote error={failed} /> : null}
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('Key')}</th>
              <th scope="col">{t('Acts as')}</th>
              <th scope="col">{t('Scopes')}</th>
              <th scope="col">{t('Created')}</th>
              <th scope="col">{t('Last used')}</th>
              <th scope="col">{t('Expires')}</th>
              <th scope="col">{t('Revoke')}</th>
            </tr>
          </thead>
          <tbody>
            {keys.data.items.map((key) => (
              <tr key={key.id}>
                <td>
                  <bdi>{key.name}</bdi> <code className="quiet">{key.prefix}…</code>
                </td>
                <td>
                  <bdi>{key.handle}</bdi> {key.userId === me.userId ? <span className="quiet">{t('you')}</span> : null}
                </td>
                <td>{key.scopes.join(', ')}</td>
                <td>
                  <Ago at={key.createdAt} /> {key.madeBy ? null : <span className="quiet">{t('by an operator')}</span>}
                </td>
                <td>{key.lastUsedAt ? <Ago at={key.lastUsedAt} /> : <span className="quiet">{t('never')}</span>}</td>
                <td>{end(key)}</td>
                <td>
                  {isGood(key) ? (
                    <button
                      type="button"
                      className="small"
                      aria-label={t('Revoke {name}', { name: key.name })}
                      onClick={() =>
                        void confirmed({
                          title: t('Revoke the key {name}?', { name: key.name }),
                          detail: t('Programs that use it lose access.'),
                          action: t('Revoke key'),
                        }).then((isAgreed) => isAgreed && revoke.mutate(key.id))
                      }
                    >
                      {t('Revoke')}
                    </button>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {keys.data.nextCursor ? (
        <p className="quiet">
          {rich('Showing the newest {count} keys. Run {command} to see all.', {
            count: SHOWN,
            command: <code>rejoin keys list</code>,
          })}
        </p>
      ) : null}
    </>
  );
}

function isGood(key: Key): boolean {
  return !key.revokedAt && (!key.expiresAt || Date.parse(key.expiresAt) > Date.now());
}

function end(key: Key) {
  if (key.revokedAt) return <span className="quiet">{t('revoked')}</span>;
  if (!key.expiresAt) return t('never');
  return isGood(key) ? (
    new Date(key.expiresAt).toLocaleDateString(LOCALE)
  ) : (
    <span className="quiet">{t('expired')}</span>
  );
}
