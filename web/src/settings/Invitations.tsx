// Lists the workspace's invitations. Owners create and revoke them; the link of an invitation is shown once.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useRef } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { confirmed } from '../ui/Dialog';
import { Failed } from '../ui/Failed';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { ROLES } from './roles';

type Invitation = Schemas['InvitationItem'];

const INVITED: Schemas['InvitedRole'][] = ['member', 'viewer', 'operator', 'owner'];
/** In days. */
const LIFETIMES: [number, string][] = [
  [1, '1 day'],
  [7, '7 days'],
  [30, '30 days'],
];
const USES_MAX = 1_000;

export function Invitations() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/invitations`;
  const invitations = usePages<Invitation>(['invitations'], path);
  const onSuccess = () => queries.invalidateQueries({ queryKey: ['invitations'] });
  const table = useRef<HTMLTableElement>(null);
  const revoke = useMutation({
    mutationFn: (id: string) => api(`${path}/${id}`, { method: 'DELETE' }),
    onSuccess: async () => {
      await onSuccess();
      // The button that had the focus is gone.
      table.current?.focus();
    },
  });
  const isOwner = me.role === 'owner';
  return (
    <section aria-labelledby="invitations">
      <h2 id="invitations">Invitations</h2>
      {isOwner ? <NewInvitation path={path} onCreated={onSuccess} /> : null}
      {invitations.reading.isPending ? (
        <Waiting what="invitations" />
      ) : invitations.reading.isError ? (
        <Failed reading={invitations.reading} />
      ) : invitations.items.length === 0 ? (
        <p className="quiet">{isOwner ? 'No invitations yet.' : 'No invitations yet. Owners can create them.'}</p>
      ) : (
        <table ref={table} tabIndex={-1}>
          <thead>
            <tr>
              <th scope="col">For</th>
              <th scope="col">Role</th>
              <th scope="col">Joined</th>
              <th scope="col">Created</th>
              <th scope="col">Expires</th>
              {isOwner ? <th scope="col">Actions</th> : null}
            </tr>
          </thead>
          <tbody>
            {invitations.items.map((one) => (
              <tr key={one.id}>
                <td>{one.note ?? <span className="quiet">Anyone with the link</span>}</td>
                <td>{one.role}</td>
                <td>
                  {one.uses} of {one.maxUses}
                </td>
                <td>
                  <Ago at={one.createdAt} />
                </td>
                <td>{one.isValid ? <Ago at={one.expiresAt} /> : <span className="quiet">{endOf(one)}</span>}</td>
                {isOwner ? (
                  <td>
                    {one.isValid ? (
                      <button
                        type="button"
                        className="small"
                        aria-label={`Revoke the invitation ${one.note ?? `for the role ${one.role}`}`}
                        onClick={() =>
                          void confirmed({
                            title: 'Revoke this invitation?',
                            detail: 'Its link stops working. Members who have joined with it stay members.',
                            action: 'Revoke invitation',
                          }).then((isAgreed) => isAgreed && revoke.mutate(one.id))
                        }
                      >
                        Revoke
                      </button>
                    ) : null}
                  </td>
                ) : null}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <More of={invitations} label="Load more invitations" />
      {revoke.error ? <ErrorNote error={revoke.error} /> : null}
    </section>
  );
}

/** Why it can't be accepted. */
function endOf({ revokedAt, uses, maxUses, expiresAt }: Invitation): string {
  if (revokedAt) return 'revoked';
  if (uses >= maxUses) return 'used up';
  return Date.parse(expiresAt) <= Date.now() ? 'expired' : 'not valid: its creator is not an owner';
}

function NewInvitation({ path, onCreated }: { path: string; onCreated: () => Promise<void> }) {
  const create = useMutation({
    mutationFn: (body: Schemas['InvitationRequest']) => api<Schemas['MadeInvitation']>(path, { method: 'POST', body }),
    onSuccess: onCreated,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const element = event.currentTarget;
    const form = new FormData(element);
    create.mutate(
      {
        role: form.get('role') as Schemas['InvitedRole'],
        maxUses: Number(form.get('uses')),
        expiresInDays: Number(form.get('days')),
        note: String(form.get('note')).trim() || undefined,
      },
      { onSuccess: () => element.reset() },
    );
  };
  return (
    <>
      <p className="quiet">Anyone who opens the link of an invitation and accepts it becomes a member.</p>
      <form className="fields" onSubmit={submit}>
        <label>
          Role
          <select name="role" defaultValue="member">
            {INVITED.map((role) => (
              <option key={role} value={role} title={ROLES[role]}>
                {role}
              </option>
            ))}
          </select>
        </label>
        <label>
          Expires after
          <select name="days" defaultValue="7">
            {LIFETIMES.map(([days, label]) => (
              <option key={days} value={days}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          Number of users
          <input name="uses" type="number" min={1} max={USES_MAX} defaultValue={1} required />
        </label>
        <label>
          Note (optional)
          <input name="note" maxLength={200} placeholder="Who the invitation is for" />
        </label>
        <button type="submit" className="primary" disabled={create.isPending}>
          Create invitation
        </button>
      </form>
      {create.error ? <ErrorNote error={create.error} /> : null}
      {create.data ? (
        <ShownOnce key={create.data.id} secret={create.data.url} copy="Copy link" onDone={() => create.reset()}>
          Invitation for the role <b>{create.data.role}</b> created.
        </ShownOnce>
      ) : null}
    </>
  );
}
