// Names the authors of what members make: versions of agents, evaluations.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { t } from '../ui/language';

/** The handle of a user. Only admins can read those of other members. */
export function useHandles(): (id: string | null | undefined) => string {
  const me = useMe();
  const members = useQuery({
    queryKey: ['members'],
    queryFn: () => api<Schemas['Members']>(`/api/admin/projects/${me.projectId}/members`),
    enabled: isAdmin(me),
  });
  return (id) => {
    if (!id) return t('an operator or a product');
    if (id === me.userId) return me.handle;
    if (!isAdmin(me)) return t('another member');
    const member = members.data?.items.find(({ userId }) => userId === id);
    return member?.handle ?? (members.isPending ? '…' : t('a former member'));
  };
}
