// Shows the project's operations: queues, runs of the last hour, failures by kind, dead letter jobs that can be retried, and the worker fleet.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { Fact, Facts } from '../ui/Facts';
import { LOCALE, message, number, rich, t } from '../ui/language';
import { Ago, duration, ErrorNote, Folded, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Wide } from '../ui/Wide';
import { minuteOf, RunsChart, seconds, type Time, TimesChart } from './charts';
import { DeadJobs } from './DeadJobs';
import { Failures } from './Failures';
import { useFailedRuns } from './failedRuns';
import { Heads } from './Heads';
import { Health } from './Health';
import { Queues } from './Queues';

type Operations = Schemas['Operations'];

const REFRESH_MS = 5_000;
const WAKEUPS: Record<string, string> = {
  listening: message('Connected'),
  lost: message('Reconnecting. Until then, changes are picked up within a second.'),
  off: message('Off. Changes are picked up within a second.'),
};
const TIMES: readonly Time[] = ['waited', 'firstToken', 'took'];
const TENTHS = { minimumFractionDigits: 1, maximumFractionDigits: 1 };

export function OperationsView() {
  useTitle(t('Operations'));
  const me = useMe();
  const mayLook = isAdmin(me);
  const path = `/api/admin/projects/${me.projectId}/operations`;
  const operations = useQuery({
    queryKey: ['operations'],
    queryFn: ({ signal }) => api<Operations>(path, { signal }),
    refetchInterval: REFRESH_MS,
    enabled: mayLook,
  });
  const failed = useFailedRuns(me.projectId, mayLook);
  return (
    <main id="main" className="page wide">
      <div className="title">
        <h1>{t('Operations')}</h1>
        {operations.data ? (
          <span className="quiet">
            <span className="live" aria-hidden="true" />{' '}
            {t('Live, as of {time}', { time: new Date(operations.data.at).toLocaleTimeString(LOCALE) })}
          </span>
        ) : null}
      </div>
      {mayLook ? null : (
        <p className="note quiet">
          {rich('Your key can’t view operations. This needs the {scope} scope.', { scope: <code>admin</code> })}
        </p>
      )}
      {mayLook && operations.isPending ? <Waiting what={t('operations')} /> : null}
      {operations.isError ? <ErrorNote error={operations.error} /> : null}
      {operations.data ? (
        <>
          <Health operations={operations.data} failed={failed.data?.kinds ?? []} />
          <Now operations={operations.data} />
          <div className="charts">
            <RunsChart hour={operations.data.hour} minutes={operations.data.minutes} />
            <TimesChart
              title={t('Queue wait time')}
              of="waited"
              hour={operations.data.hour}
              minutes={operations.data.minutes}
            />
            <TimesChart
              title={t('Time to first token')}
              of="firstToken"
              hour={operations.data.hour}
              minutes={operations.data.minutes}
            />
            <TimesChart
              title={t('Run duration')}
              of="took"
              hour={operations.data.hour}
              minutes={operations.data.minutes}
            />
          </div>
          <Folded label={t('Show as table')}>{() => <Figures operations={operations.data} />}</Folded>
          <Queues operations={operations.data} path={path} />
          <Failures reading={failed} />
          <DeadJobs operations={operations.data} path={path} />
          <Workers workers={operations.data.workers} />
          <Process process={operations.data.api} />
        </>
      ) : null}
    </main>
  );
}

/** What one looks at first. */
function Now({ operations: { queues, workers, hour } }: { operations: Operations }) {
  const sum = (count: (queue: Operations['queues'][number]) => number) =>
    queues.reduce((all, queue) => all + count(queue), 0);
  const alive = workers.filter((worker) => worker.alive);
  const oldest = Math.max(0, ...queues.map((queue) => queue.oldestAvailableS ?? 0));
  const ended = hour.completed + hour.failed + hour.cancelled;
  return (
    <div className="tiles">
      <Facts>
        <Fact name={t('Queue depth')}>
          {number(sum((queue) => queue.available))}
          {oldest > 0 ? <span className="quiet">{t('Oldest {time}', { time: seconds(oldest) })}</span> : null}
        </Fact>
        <Fact name={t('Running')}>{number(sum((queue) => queue.running))}</Fact>
        <Fact name={t('Dead letter jobs')}>{number(sum((queue) => queue.dead))}</Fact>
        <Fact name={t('Workers')}>
          {alive.length === 0 ? (
            t('None')
          ) : (
            <>
              {number(alive.length)}
              <span className="quiet">
                {t('{busy} of {slots} slots busy', {
                  busy: alive.reduce((all, { busy }) => all + busy, 0),
                  slots: alive.reduce((all, { slots }) => all + slots, 0),
                })}
              </span>
            </>
          )}
        </Fact>
        <Fact name={t('Finished in the last hour')}>
          {number(ended)}
          <span className="quiet">
            {t(hour.failed > 0 ? '{pace} per minute, {failed} failed' : '{pace} per minute', {
              pace: number(ended / 60, TENTHS),
              failed: hour.failed,
            })}
          </span>
        </Fact>
        <Fact name={t('Wait time, p50')}>
          {seconds(hour.waitedP50S)}
          <span className="quiet">
            {t('p95 {p95}, p99 {p99}', { p95: seconds(hour.waitedP95S), p99: seconds(hour.waitedP99S) })}
          </span>
        </Fact>
        <Fact name={t('First token, p50')}>
          {seconds(hour.firstTokenP50S)}
          <span className="quiet">
            {t('p95 {p95}, p99 {p99}', { p95: seconds(hour.firstTokenP95S), p99: seconds(hour.firstTokenP99S) })}
          </span>
        </Fact>
        <Fact name={t('Duration, p50')}>
          {seconds(hour.tookP50S)}
          <span className="quiet">
            {t('p95 {p95}, p99 {p99}', { p95: seconds(hour.tookP95S), p99: seconds(hour.tookP99S) })}
          </span>
        </Fact>
      </Facts>
    </div>
  );
}

function Figures({ operations: { hour, minutes } }: { operations: Operations }) {
  const shown = minutes.filter((pace) => pace.started + pace.completed + pace.failed + pace.cancelled > 0).reverse();
  return (
    <Wide>
      <table>
        <thead>
          <Heads
            names={[t('Minute')]}
            counts={[
              t('{kind, select, count {Started} other {Started}}', { kind: 'count' }),
              t('Completed'),
              t('Failed'),
              t('Cancelled'),
              t('Wait time (p50, p95, p99)'),
              t('First token (p50, p95, p99)'),
              t('Duration (p50, p95, p99)'),
            ]}
          />
        </thead>
        <tbody>
          {[hour, ...shown].map((pace) => (
            <tr key={pace.from ?? 'hour'}>
              <th scope="row">{minuteOf(pace) || t('Last hour')}</th>
              {[pace.started, pace.completed, pace.failed, pace.cancelled].map((count, nth) => (
                <td key={nth} className="number">
                  {number(count)}
                </td>
              ))}
              {TIMES.map((of) => (
                <td key={of} className="number">
                  {t('{p50}, {p95}, {p99}', {
                    p50: seconds(pace[`${of}P50S`]),
                    p95: seconds(pace[`${of}P95S`]),
                    p99: seconds(pace[`${of}P99S`]),
                  })}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function Workers({ workers }: { workers: Operations['workers'] }) {
  return (
    <section id="workers">
      <h2>{t('Workers')}</h2>
      {workers.length === 0 ? (
        <p className="note bad">
          {rich('No workers are running. Start one with {command}.', { command: <code>rejoin worker</code> })}
        </p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">{t('Worker')}</th>
                <th scope="col">{t('State')}</th>
                <th scope="col">{t('Busy')}</th>
                <th scope="col">{t('Version')}</th>
                <th scope="col">{t('Started')}</th>
                <th scope="col">{t('Last seen')}</th>
              </tr>
            </thead>
            <tbody>
              {workers.map((worker) => (
                <tr key={worker.id}>
                  <th scope="row">
                    {worker.hostname} <span className="quiet">{worker.pid}</span>
                  </th>
                  <td>
                    <State state={worker.alive ? (worker.draining ? 'draining' : 'alive') : 'lost'} />
                  </td>
                  <td>
                    <meter
                      min={0}
                      max={worker.slots}
                      value={worker.busy}
                      aria-label={t('{busy} of {slots} slots busy', { busy: worker.busy, slots: worker.slots })}
                    />{' '}
                    {t('{busy} of {slots}', { busy: worker.busy, slots: worker.slots })}
                  </td>
                  <td>{worker.version}</td>
                  <td>
                    <Ago at={worker.startedAt} />
                  </td>
                  <td>
                    <Ago at={worker.seenAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </section>
  );
}

function Process({ process }: { process: Operations['api'] }) {
  const pool = ({ open, idle, max }: Schemas['ConnectionsBody']) =>
    t('{open} of {max} in use', { open: open - idle, max });
  return (
    <section id="api-process">
      <h2>{t('API process')}</h2>
      <Facts>
        <Fact name={t('Wake-ups')}>{t(WAKEUPS[process.wakeups] ?? process.wakeups)}</Fact>
        <Fact name={t('Database latency')}>
          {process.databaseMs < 10
            ? t('{count} ms', { count: number(process.databaseMs, TENTHS) })
            : duration(process.databaseMs)}
        </Fact>
        <Fact name={t('Query connections')}>{pool(process.connections)}</Fact>
        <Fact name={t('Stream connections')}>{pool(process.streamConnections)}</Fact>
      </Facts>
    </section>
  );
}
