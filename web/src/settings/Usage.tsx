// Shows the project's usage today and the operator's limits.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { number, rich, t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { Wide } from '../ui/Wide';

/** Looked at again after this [ms]. */
const FRESH_MS = 10_000;
const NAMES = { runs: t('Runs started'), tokens: t('Model tokens') };

export function Usage() {
  const me = useMe();
  const usage = useQuery({
    queryKey: ['usage'],
    queryFn: () => api<Schemas['Usage']>(`/api/admin/projects/${me.projectId}/usage`),
    refetchInterval: FRESH_MS,
  });
  if (usage.isPending) return <Waiting what={t('usage')} />;
  if (usage.isError) return <ErrorNote error={usage.error} />;
  const hours = Math.ceil(usage.data.dayLeftS / 3_600);
  return (
    <>
      <p className="quiet">
        {t(
          '{hours, plural, one {Usage today. Resets in # hour, at midnight UTC.} other {Usage today. Resets in # hours, at midnight UTC.}}',
          { hours },
        )}{' '}
        {rich('The operator sets the daily limits with {command}.', { command: <code>rejoin projects quota</code> })}{' '}
        {t('Limits for a run and the runs it starts are set on its agent.')}
      </p>
      <Wide>
        <table>
          <thead>
            <tr>
              <th scope="col">{t('Resource')}</th>
              <th scope="col" className="number">
                {t('Used')}
              </th>
              <th scope="col" className="number">
                {t('Daily limit')}
              </th>
              <th scope="col">{t('Progress')}</th>
            </tr>
          </thead>
          <tbody>
            {(['runs', 'tokens'] as const).map((what) => {
              const { used, bound } = usage.data[what];
              return (
                <tr key={what}>
                  <td>{NAMES[what]}</td>
                  <td className="number">{number(used)}</td>
                  <td className="number">
                    {bound == null ? <span className="quiet">{t('Unlimited')}</span> : number(bound)}
                  </td>
                  <td>
                    {bound == null ? null : (
                      <meter
                        min={0}
                        max={Math.max(bound, 1)}
                        high={bound * 0.85}
                        value={Math.min(used, bound)}
                        aria-label={t('{resource}: {count} of {all}', {
                          resource: NAMES[what],
                          count: used,
                          all: bound,
                        })}
                      />
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
    </>
  );
}
