// What the project has used up today, beside what its operator allows.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { ErrorNote, Waiting } from '../ui/parts';

/** Looked at again after this [ms]. */
const FRESH_MS = 10_000;
const NAMES = { runs: 'Runs begun', tokens: 'Tokens of models' } as const;

export function Usage() {
  const me = useMe();
  const usage = useQuery({
    queryKey: ['usage'],
    queryFn: () => api<Schemas['Usage']>(`/api/admin/projects/${me.projectId}/usage`),
    refetchInterval: FRESH_MS,
  });
  if (usage.isPending) return <Waiting what="what was used" />;
  if (usage.isError) return <ErrorNote error={usage.error} />;
  const hours = Math.ceil(usage.data.dayLeftS / 3_600);
  return (
    <>
      <p className="quiet">
        Today, counted anew in {hours} {hours === 1 ? 'hour' : 'hours'}, at midnight UTC. The bounds are the
        operator&apos;s: <code>rejoin projects quota</code>. What trees of runs may use is bounded by their agents.
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" className="number">
              Used
            </th>
            <th scope="col" className="number">
              Allowed a day
            </th>
            <th scope="col">How far</th>
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
                  {bound == null ? <span className="quiet">any number</span> : bound.toLocaleString()}
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
