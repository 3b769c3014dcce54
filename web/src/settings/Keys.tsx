// Creates and revokes the project's API keys. A key is shown once.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import type { FormEvent } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';

type Key = Schemas['KeyItem'];
type Scope = 'read' | 'write' | 'admin' | 'worker';

const SCOPES: Record<Scope, string> = {
  read: 'View data',
  write: 'Chat with agents, cancel runs',
  admin: 'Change settings',
  worker: 'Serve tools',
};
const LIFETIMES: [string, string][] = [
  ['30', '30 days'],
  ['90', '90 days'],
  ['365', '1 year'],
  ['', 'No expiry'],
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
  if (keys.isPending) return <Waiting what="keys" />;
  if (keys.isError) return <ErrorNote error={keys.error} />;
  const failed = make.error ?? revoke.error;
  return (
    <>
      <p className="quiet">
        A key acts as the user who created it, and never has more permissions than that user. It is shown only once,
        when you create it.
      </p>
      <form className="search" onSubmit={submit}>
        <input name="name" aria-label="Key name" placeholder="What the key is for" maxLength={100} required />
        {(Object.keys(SCOPES) as Scope[])
          .filter((scope) => me.scopes.includes(scope))
          .map((scope) => (
            <label key={scope} title={SCOPES[scope]}>
              <input type="checkbox" name="scope" value={scope} defaultChecked={scope === 'read'} /> {scope}
            </label>
          ))}
        <select name="days" aria-label="Expires after" defaultValue="90">
          {LIFETIMES.map(([days, label]) => (
            <option key={label} value={days}>
              {label}
            </option>
          ))}
        </select>
        <button type="submit" className="primary" disabled={make.isPending}>
          Create key
        </button>
      </form>
      {make.data ? (
        <ShownOnce key={make.data.id} secret={make.data.key} onDone={() => make.reset()}>
          Key <b>{make.data.name}</b> created.
        </ShownOnce>
      ) : null}
      {failed ? <ErrorNote error={failed} /> : null}
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Acts as</th>
            <th scope="col">Scopes</th>
            <th scope="col">Created</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">Revoke</th>
          </tr>
        </thead>
        <tbody>
          {keys.data.items.map((key) => (
            <tr key={key.id}>
              <td>
                {key.name} <code className="quiet">{key.prefix}…</code>
              </td>
              <td>
                {key.handle} {key.userId === me.userId ? <span className="quiet">you</span> : null}
              </td>
              <td>{key.scopes.join(', ')}</td>
              <td>
                <Ago at={key.createdAt} /> {key.madeBy ? null : <span className="quiet">by an operator</span>}
              </td>
              <td>{key.lastUsedAt ? <Ago at={key.lastUsedAt} /> : <span className="quiet">never</span>}</td>
              <td>{end(key)}</td>
              <td>
                {isGood(key) ? (
                  <button
                    type="button"
                    className="small"
                    aria-label={`Revoke ${key.name}`}
                    onClick={() =>
                      void confirmed({
                        title: `Revoke the key ${key.name}?`,
                        detail: 'Programs that use it lose access.',
                        action: 'Revoke key',
                      }).then((isAgreed) => isAgreed && revoke.mutate(key.id))
                    }
                  >
                    Revoke
                  </button>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {keys.data.nextCursor ? (
        <p className="quiet">
          Showing the newest {SHOWN} keys. Run <code>rejoin keys list</code> to see all.
        </p>
      ) : null}
    </>
  );
}

function isGood(key: Key): boolean {
  return !key.revokedAt && (!key.expiresAt || Date.parse(key.expiresAt) > Date.now());
}

function end(key: Key) {
  if (key.revokedAt) return <span className="quiet">revoked</span>;
  if (!key.expiresAt) return 'never';
  return isGood(key) ? new Date(key.expiresAt).toLocaleDateString() : <span className="quiet">expired</span>;
}
