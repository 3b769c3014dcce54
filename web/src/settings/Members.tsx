// Who is in the project, as what, and how others get in. Owners change it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { Ago, ErrorNote, Waiting } from '../ui/parts';

type Member = Schemas['MemberItem'];
type Role = Schemas['RoleName'];

const ROLES: Record<Role, string> = {
  owner: 'everything, members included',
  member: 'talks to agents',
  viewer: 'reads',
  operator: 'sets agents up, and has no conversations',
  service: 'a program',
};

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
            <th scope="col">May</th>
            <th scope="col">Since</th>
            {isOwner ? <th scope="col">Change</th> : null}
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
                    aria-label={`Take out ${member.handle}`}
                    onClick={() => {
                      if (window.confirm(`Take ${member.handle} out of the project? Their keys open it no longer.`))
                        remove.mutate(member.userId);
                    }}
                  >
                    Take out
                  </button>
                </td>
              ) : null}
            </tr>
          ))}
        </tbody>
      </table>
      {failed ? <ErrorNote error={failed} /> : null}
      <h2>How others get in</h2>
      <p className="quiet">
        A first key of another user is made where the database is:{' '}
        <code>rejoin keys create --project … --user … --create</code>. Once in, admins make more for themselves under
        API keys. Users of an identity provider come in by themselves, as far as the deployment lets them.
      </p>
    </>
  );
}
