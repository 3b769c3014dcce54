// Lists the workspace's members with their roles, and its invitations. Owners can change roles.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { Invitations } from './Invitations';
import { ROLES, type Role, roleName } from './roles';

type Member = Schemas['MemberItem'];

export function Members() {
  const me = useMe();
  const queries = useQueryClient();
  const path = `/api/admin/projects/${me.projectId}/members`;
  const members = useQuery({ queryKey: ['members'], queryFn: () => api<Schemas['Members']>(path) });
  const onSuccess = () => queries.invalidateQueries({ queryKey: ['members'] });
  const set = useMutation({
    mutationFn: ({ id, role }: { id: string; role: Role }) => api(`${path}/${id}`, { method: 'PUT', body: { role } }),
    onSuccess,
  });
  const remove = useMutation({ mutationFn: (id: string) => api(`${path}/${id}`, { method: 'DELETE' }), onSuccess });
  if (members.isPending) return <Waiting what={t('members')} />;
  if (members.isError) return <ErrorNote error={members.error} />;
  const isOwner = me.role === 'owner';
  const failed = set.error ?? remove.error;
  const role = (member: Member) =>
    isOwner ? (
      <select
        aria-label={t('Role of {user}', { user: member.handle })}
        value={member.role}
        onChange={(event) => set.mutate({ id: member.userId, role: event.target.value as Role })}
      >
        {Object.entries(ROLES).map(([name, may]) => (
          <option key={name} value={name} title={may}>
            {roleName(name)}
          </option>
        ))}
      </select>
    ) : (
      roleName(member.role)
    );
  return (
    <>
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('Member')}</th>
              <th scope="col">{t('Role')}</th>
              <th scope="col">{t('Permissions')}</th>
              <th scope="col">{t('Member since')}</th>
              {isOwner ? <th scope="col">{t('Actions')}</th> : null}
            </tr>
          </thead>
          <tbody>
            {members.data.items.map((member) => (
              <tr key={member.userId}>
                <td>
                  <bdi>{member.handle}</bdi>{' '}
                  {member.userId === me.userId ? <span className="quiet">{t('you')}</span> : null}
                </td>
                <td>{role(member)}</td>
                <td className="quiet">{ROLES[member.role as Role]}</td>
                <td>
                  <Ago at={member.createdAt} />
                </td>
                {isOwner ? (
                  <td>
                    <button
                      type="button"
                      className="small"
                      aria-label={t('Remove {name}', { name: member.handle })}
                      onClick={() =>
                        void confirmed({
                          title: t('Remove {user} from the project?', { user: member.handle }),
                          detail: t('Their keys lose access to it.'),
                          action: t('Remove member'),
                        }).then((isAgreed) => isAgreed && remove.mutate(member.userId))
                      }
                    >
                      {t('Remove')}
                    </button>
                  </td>
                ) : null}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {failed ? <ErrorNote error={failed} /> : null}
      <Invitations />
      <p className="quiet">
        {t('Users of an identity provider can join without an invitation if the deployment allows it.')}{' '}
        {rich('On a machine that can reach the database, {command} creates a user with a key.', {
          command: <code>rejoin keys create --project … --user … --create</code>,
        })}
      </p>
    </>
  );
}
