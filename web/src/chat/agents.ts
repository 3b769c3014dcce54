// The agents that a user may choose.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';

export function useAgents(isWanted = true): Schemas['AgentItem'][] {
  const me = useMe();
  const page = useQuery({
    queryKey: ['agents'],
    queryFn: () => api<Schemas['AgentPage']>(`/api/projects/${me.projectId}/agents?limit=100`),
    enabled: isWanted,
    staleTime: 60_000,
  });
  return page.data?.items ?? [];
}
