// Shows the project's usage today and the operator's limits.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote, Waiting } from '../ui/parts';

/** Looked at again after this [ms]. */
const FRESH_MS = 10_000;
const NAMES = { runs: 'Runs started', tokens: 'Model tokens' } as const;

export function Usage() {
  const me = useMe();
  const usage = useQuery({
    queryKey: ['usage'],
    queryFn: () => api<Schemas['Usage']>(`/api/admin/projects/${me.projectId}/usage`),
    refetchInterval: FRESH_MS,
  });
  if (usage.isPending) return <Waiting what="usage" />;
  if (usage.isError) return <ErrorNote error={usage.error} />;
  const hours = Math.ceil(usage.data.dayLeftS / 3_600);
  return (
    <>
      <p className="quiet">
        Usage today. Resets in {hours} {hours === 1 ? 'hour' : 'hours'}, at midnight UTC. The operator sets the daily
        limits with <code>rejoin projects quota</code>. Limits for a run and the runs it starts are set on its agent.
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col" className="number">
              Used
            </th>
            <th scope="col" className="number">
              Daily limit
            </th>
            <th scope="col">Progress</th>
          </tr>
        </thead>
        <tbody>
          {(['runs', 'tokens'] as const).map((what) => {
            const { used, bound } = usage.data[what];
            return (
              <tr key={what}>
                <td>{NAMES[what]}</td>
                <td className="number">{used.toLocaleString()}</td>
                <td className="number">
                  {bound == null ? <span className="quiet">Unlimited</span> : bound.toLocaleString()}
                </td>
                <td>
                  {bound == null ? null : (
                    <meter
                      min={0}
                      max={Math.max(bound, 1)}
                      high={bound * 0.85}
                      value={Math.min(used, bound)}
                      aria-label={`${NAMES[what]}: ${used} of ${bound}`}
                    />
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}
