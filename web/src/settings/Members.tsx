// Lists the workspace's members with their roles, and its invitations. Owners can change roles.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { confirmed } from '../ui/Dialog';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { Invitations } from './Invitations';
import { ROLES, type Role } from './roles';

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
  if (members.isPending) return <Waiting what="members" />;
  if (members.isError) return <ErrorNote error={members.error} />;
  const isOwner = me.role === 'owner';
  const failed = set.error ?? remove.error;
  const role = (member: Member) =>
    isOwner ? (
      <select
        aria-label={`Role of ${member.handle}`}
        value={member.role}
        onChange={(event) => set.mutate({ id: member.userId, role: event.target.value as Role })}
      >
        {Object.entries(ROLES).map(([name, may]) => (
          <option key={name} value={name} title={may}>
            {name}
          </option>
        ))}
      </select>
    ) : (
      member.role
    );
  return (
    <>
      <table>
        <thead>
          <tr>
            <th scope="col">Member</th>
            <th scope="col">Role</th>
            <th scope="col">Permissions</th>
            <th scope="col">Member since</th>
            {isOwner ? <th scope="col">Actions</th> : null}
          </tr>
        </thead>
        <tbody>
          {members.data.items.map((member) => (
            <tr key={member.userId}>
              <td>
                {member.handle} {member.userId === me.userId ? <span className="quiet">you</span> : null}
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
                    aria-label={`Remove ${member.handle}`}
                    onClick={() =>
                      void confirmed({
                        title: `Remove ${member.handle} from the project?`,
                        detail: 'Their keys lose access to it.',
                        action: 'Remove member',
                      }).then((isAgreed) => isAgreed && remove.mutate(member.userId))
                    }
                  >
                    Remove
                  </button>
                </td>
              ) : null}
            </tr>
          ))}
        </tbody>
      </table>
      {failed ? <ErrorNote error={failed} /> : null}
      <Invitations />
      <p className="quiet">
        Users of an identity provider can join without an invitation if the deployment allows it. On a machine that can
        reach the database, <code>rejoin keys create --project … --user … --create</code> creates a user with a key.
      </p>
    </>
  );
}
