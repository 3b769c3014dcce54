// The failed runs of the last day by kind: what settings or input have caused, apart from failures of the system.
import type { UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
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
        <h2>Failed runs of the last 24 hours</h2>
        <Link to="/runs" search={{ state: 'failed', period: 'day' }}>
          Show runs
        </Link>
      </div>
      {isError ? <ErrorNote error={error} /> : null}
      {data?.hasMore ? <p className="quiet">Of more failed runs, the newest {FAILED_MAX} are counted.</p> : null}
      {data?.kinds.length === 0 ? <p className="quiet">No failed runs.</p> : null}
      {data && data.kinds.length > 0 ? (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col">Cause</th>
                <th scope="col" className="number">
                  Runs
                </th>
                <th scope="col">Newest</th>
                <th scope="col">Error</th>
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
      <th scope="row">{code === '' ? 'Other members’ runs' : <code>{code}</code>}</th>
      <td>{code === '' ? 'Unknown' : advice === undefined ? 'System' : 'Settings or input'}</td>
      <td className="number">{runs.length}</td>
      <td>
        {newest && !newest.restricted ? (
          <Link to="/runs/$id" params={{ id: newest.id }}>
            <span className="hidden">Newest run: {code}, </span>
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
