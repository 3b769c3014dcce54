// Lists the workspace's invitations. Owners create and revoke them; the link of an invitation is shown once.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useRef } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { More, usePages } from '../api/pages';
import { confirmed } from '../ui/Dialog';
import { Failed } from '../ui/Failed';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { Wide } from '../ui/Wide';
import { ROLES, roleName } from './roles';

type Invitation = Schemas['InvitationItem'];

const INVITED: Schemas['InvitedRole'][] = ['member', 'viewer', 'operator', 'owner'];
/** In days. */
const LIFETIMES = [1, 7, 30];
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
      <h2 id="invitations">{t('Invitations')}</h2>
      {isOwner ? <NewInvitation path={path} onCreated={onSuccess} /> : null}
      {invitations.reading.isPending ? (
        <Waiting what={t('invitations')} />
      ) : invitations.reading.isError ? (
        <Failed reading={invitations.reading} />
      ) : invitations.items.length === 0 ? (
        <p className="quiet">{isOwner ? t('No invitations yet.') : t('No invitations yet. Owners can create them.')}</p>
      ) : (
        <Wide>
          <table ref={table} tabIndex={-1}>
            <thead>
              <tr>
                <th scope="col">{t('For')}</th>
                <th scope="col">{t('Role')}</th>
                <th scope="col">{t('Joined')}</th>
                <th scope="col">{t('Created')}</th>
                <th scope="col">{t('Expires')}</th>
                {isOwner ? <th scope="col">{t('Actions')}</th> : null}
              </tr>
            </thead>
            <tbody>
              {invitations.items.map((one) => (
                <tr key={one.id}>
                  <td dir="auto">{one.note ?? <span className="quiet">{t('Anyone with the link')}</span>}</td>
                  <td>{roleName(one.role)}</td>
                  <td>{t('{count} of {all}', { count: one.uses, all: one.maxUses })}</td>
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
                          aria-label={
                            one.note == null
                              ? t('Revoke the invitation for the role {role}', { role: roleName(one.role) })
                              : t('Revoke the invitation {note}', { note: one.note })
                          }
                          onClick={() =>
                            void confirmed({
                              title: t('Revoke this invitation?'),
                              detail: t('Its link stops working. Members who have joined with it stay members.'),
                              action: t('Revoke invitation'),
                            }).then((isAgreed) => isAgreed && revoke.mutate(one.id))
                          }
                        >
                          {t('Revoke')}
                        </button>
                      ) : null}
                    </td>
                  ) : null}
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <More of={invitations} label={t('Load more invitations')} />
      {revoke.error ? <ErrorNote error={revoke.error} /> : null}
    </section>
  );
}

/** Why it can't be accepted. */
function endOf({ revokedAt, uses, maxUses, expiresAt }: Invitation): string {
  if (revokedAt) return t('revoked');
  if (uses >= maxUses) return t('used up');
  return Date.parse(expiresAt) <= Date.now() ? t('expired') : t('not valid: its creator is not an owner');
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
      <p className="quiet">{t('Anyone who opens the link of an invitation and accepts it becomes a member.')}</p>
      <form className="fields" onSubmit={submit}>
        <label>
          {t('Role')}
          <select name="role" defaultValue="member">
            {INVITED.map((role) => (
              <option key={role} value={role} title={ROLES[role]}>
                {roleName(role)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t('Expires after')}
          <select name="days" defaultValue="7">
            {LIFETIMES.map((days) => (
              <option key={days} value={days}>
                {t('{count, plural, one {# day} other {# days}}', { count: days })}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t('Number of users')}
          <input name="uses" type="number" min={1} max={USES_MAX} defaultValue={1} required />
        </label>
        <label>
          {t('Note (optional)')}
          <input name="note" maxLength={200} placeholder={t('Who the invitation is for')} />
        </label>
        <button type="submit" className="primary" disabled={create.isPending}>
          {t('Create invitation')}
        </button>
      </form>
      {create.error ? <ErrorNote error={create.error} /> : null}
      {create.data ? (
        <ShownOnce key={create.data.id} secret={create.data.url} copy={t('Copy link')} onDone={() => create.reset()}>
          {rich('Invitation for the role {role} created.', { role: <b>{roleName(create.data.role)}</b> })}
        </ShownOnce>
      ) : null}
    </>
  );
}
