// The failed runs of the last day by their error codes. The API counts runs by state alone: the codes are those of the newest runs that this user
// can see.
import { useQuery } from '@tanstack/react-query';
import { api, query, type Schemas } from '../api/http';
import { adviceFor } from '../runs/failures';
import { parametersOf } from '../runs/filters';

type Run = Schemas['RunBody'];

/** How many failed runs are read. */
export const FAILED_MAX = 200;
const REFRESH_MS = 15_000;

export interface Kind {
  /** The error code; empty: of other members' runs, only the state is known. */
  code: string;
  runs: readonly Run[];
  /** What a user can do; undefined: a failure of the system or of a provider. */
  advice: string | undefined;
}

export function useFailedRuns(projectId: string, isEnabled: boolean) {
  return useQuery({
    queryKey: ['runs', 'failed'],
    queryFn: () => {
      const { since } = parametersOf({ period: 'day' }, Date.now());
      const asked = query({ state: 'failed', since, limit: FAILED_MAX });
      return api<Schemas['RunPage']>(`/api/projects/${projectId}/agent-runs${asked}`);
    },
    select: ({ items, nextCursor }) => ({ kinds: kindsOf(items), hasMore: Boolean(nextCursor) }),
    refetchInterval: REFRESH_MS,
    enabled: isEnabled,
  });
}

/** The most frequent kind first. */
function kindsOf(runs: readonly Run[]): Kind[] {
  const byCode = new Map<string, Run[]>();
  for (const run of runs) {
    const code = run.restricted ? '' : (run.errorCode ?? 'unknown');
    byCode.set(code, [...(byCode.get(code) ?? []), run]);
  }
  return [...byCode]
    .map(([code, failed]) => ({ code, runs: failed, advice: adviceFor(code) }))
    .sort((one, other) => other.runs.length - one.runs.length);
}

/** Those that failed within the hour before a moment. */
export function ofLastHour(kinds: readonly Kind[], at: string): Kind[] {
  const from = Date.parse(at) - 3_600_000;
  return kinds
    .map((kind) => ({ ...kind, runs: kind.runs.filter(({ finishedAt }) => Date.parse(finishedAt ?? '') >= from) }))
    .filter(({ runs }) => runs.length > 0);
}
