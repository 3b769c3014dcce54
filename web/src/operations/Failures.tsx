// The failed runs of the last day by kind: what settings or input have caused, apart from failures of the system.
import type { UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { number, t } from '../ui/language';
import { Ago, ErrorNote } from '../ui/parts';
import { Wide } from '../ui/Wide';
import { FAILED_MAX, type Kind } from './failedRuns';

interface FailuresProps {
  reading: UseQueryResult<{ kinds: Kind[]; hasMore: boolean }>;
}

export function Failures({ reading }: FailuresProps) {
  const { data, isError, error } = reading;
  return (
    <section id="failures">
      <div className="heading">
        <h2>{t('Failed runs of the last 24 hours')}</h2>
        <Link to="/runs" search={{ state: 'failed', period: 'day' }}>
          {t('Show runs')}
        </Link>
      </div>
      {isError ? <ErrorNote error={error} /> : null}
      {data?.hasMore ? (
        <p className="quiet">{t('Of more failed runs, the newest {count} are counted.', { count: FAILED_MAX })}</p>
      ) : null}
      {data?.kinds.length === 0 ? <p className="quiet">{t('No failed runs.')}</p> : null}
      {data && data.kinds.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Kind')}</th>
                <th scope="col">{t('Cause')}</th>
                <th scope="col" className="number">
                  {t('Runs')}
                </th>
                <th scope="col">{t('Newest')}</th>
                <th scope="col">{t('Error')}</th>
              </tr>
            </thead>
            <tbody>
              {data.kinds.map((kind) => (
                <KindRow key={kind.code} kind={kind} />
              ))}
            </tbody>
          </table>
        </Wide>
      ) : null}
    </section>
  );
}

function KindRow({ kind: { code, runs, advice } }: { kind: Kind }) {
  const newest = runs[0];
  return (
    <tr>
      <th scope="row">{code === '' ? t('Other members’ runs') : <code>{code}</code>}</th>
      <td>{t(code === '' ? 'Unknown' : advice === undefined ? 'System' : 'Settings or input')}</td>
      <td className="number">{number(runs.length)}</td>
      <td>
        {newest && !newest.restricted ? (
          <Link to="/runs/$id" params={{ id: newest.id }}>
            <span className="hidden">{t('Newest run: {code},', { code })} </span>
            <Ago at={newest.finishedAt} />
          </Link>
        ) : (
          <Ago at={newest?.finishedAt} />
        )}
      </td>
      <td className="wraps">
        {newest?.error ?? '—'} {advice ? <span className="quiet">{advice}</span> : null}
      </td>
    </tr>
  );
}
