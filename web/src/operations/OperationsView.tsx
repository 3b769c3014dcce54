// Shows the project's operations: queues, runs of the last hour, failures by kind, dead letter jobs that can be retried, and the worker fleet.
import { useQuery } from '@tanstack/react-query';
import { api, type Schemas } from '../api/http';
import { isAdmin, useMe } from '../api/me';
import { Fact, Facts } from '../ui/Facts';
import { Ago, duration, ErrorNote, Folded, State, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { Wide } from '../ui/Wide';
import { minuteOf, RunsChart, seconds, TimesChart } from './charts';
import { DeadJobs } from './DeadJobs';
import { Failures } from './Failures';
import { useFailedRuns } from './failedRuns';
import { Health } from './Health';

type Operations = Schemas['Operations'];

const REFRESH_MS = 5_000;
const WAKEUPS: Record<string, string> = {
  listening: 'Connected',
  lost: 'Reconnecting. Until then, changes are picked up within a second.',
  off: 'Off. Changes are picked up within a second.',
};

export function OperationsView() {
  useTitle('Operations');
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
        <h1>Operations</h1>
        {operations.data ? (
          <span className="quiet">
            <span className="live" aria-hidden="true" /> Live, as of {new Date(operations.data.at).toLocaleTimeString()}
          </span>
        ) : null}
      </div>
      {mayLook ? null : (
        <p className="note quiet">
          Your key can’t view operations. This needs the <code>admin</code> scope.
        </p>
      )}
      {mayLook && operations.isPending ? <Waiting what="operations" /> : null}
      {operations.isError ? <ErrorNote error={operations.error} /> : null}
      {operations.data ? (
        <>
          <Health operations={operations.data} failed={failed.data?.kinds ?? []} />
          <Now operations={operations.data} />
          <div className="charts">
            <RunsChart hour={operations.data.hour} minutes={operations.data.minutes} />
            <TimesChart
              title="Queue wait time"
              of="waited"
              hour={operations.data.hour}
              minutes={operations.data.minutes}
            />
            <TimesChart title="Run duration" of="took" hour={operations.data.hour} minutes={operations.data.minutes} />
          </div>
          <Folded label="Show as table">{() => <Figures operations={operations.data} />}</Folded>
          <Queues queues={operations.data.queues} />
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
        <Fact name="Queue depth">
          {sum((queue) => queue.available)}
          {oldest > 0 ? <span className="quiet">Oldest {seconds(oldest)}</span> : null}
        </Fact>
        <Fact name="Running">{sum((queue) => queue.running)}</Fact>
        <Fact name="Dead letter jobs">{sum((queue) => queue.dead)}</Fact>
        <Fact name="Workers">
          {alive.length === 0 ? (
            'None'
          ) : (
            <>
              {alive.length}
              <span className="quiet">
                {alive.reduce((all, { busy }) => all + busy, 0)} of {alive.reduce((all, { slots }) => all + slots, 0)}{' '}
                slots busy
              </span>
            </>
          )}
        </Fact>
        <Fact name="Finished in the last hour">
          {ended}
          <span className="quiet">
            {(ended / 60).toFixed(1)} per minute{hour.failed > 0 ? `, ${hour.failed} failed` : ''}
          </span>
        </Fact>
        <Fact name="Wait time, p50">
          {seconds(hour.waitedP50S)}
          <span className="quiet">p95 {seconds(hour.waitedP95S)}</span>
        </Fact>
        <Fact name="Duration, p50">
          {seconds(hour.tookP50S)}
          <span className="quiet">p95 {seconds(hour.tookP95S)}</span>
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
            names={['Minute']}
            counts={['Started', 'Completed', 'Failed', 'Cancelled', 'Wait time (p50, p95)', 'Duration (p50, p95)']}
          />
        </thead>
        <tbody>
          {[hour, ...shown].map((pace) => (
            <tr key={pace.from ?? 'hour'}>
              <th scope="row">{minuteOf(pace) || 'Last hour'}</th>
              {[pace.started, pace.completed, pace.failed, pace.cancelled].map((count, nth) => (
                <td key={nth} className="number">
                  {count}
                </td>
              ))}
              <td className="number">
                {seconds(pace.waitedP50S)}, {seconds(pace.waitedP95S)}
              </td>
              <td className="number">
                {seconds(pace.tookP50S)}, {seconds(pace.tookP95S)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function Queues({ queues }: { queues: Operations['queues'] }) {
  return (
    <section id="queues">
      <h2>Queues</h2>
      <Wide>
        <table>
          <thead>
            <Heads
              names={['Queue']}
              counts={['Available', 'Scheduled', 'Blocked', 'Running', 'Dead letter', 'Oldest available']}
            />
          </thead>
          <tbody>
            {queues.map((queue) => (
              <tr key={queue.queue}>
                <th scope="row">
                  {queue.queue} {queue.paused ? <State state="paused" /> : null}
                </th>
                {[queue.available, queue.scheduled, queue.held, queue.running, queue.dead].map((count, nth) => (
                  <td key={nth} className="number">
                    {count.toLocaleString('en')}
                  </td>
                ))}
                <td className="number">{seconds(queue.oldestAvailableS)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </section>
  );
}

function Workers({ workers }: { workers: Operations['workers'] }) {
  return (
    <section id="workers">
      <h2>Workers</h2>
      {workers.length === 0 ? (
        <p className="note bad">
          No workers are running. Start one with <code>rejoin worker</code>.
        </p>
      ) : (
        <Wide>
          <table>
            <thead>
              <tr>
                <th scope="col">Worker</th>
                <th scope="col">State</th>
                <th scope="col">Busy</th>
                <th scope="col">Version</th>
                <th scope="col">Started</th>
                <th scope="col">Last seen</th>
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
                      aria-label={`${worker.busy} of ${worker.slots} slots busy`}
                    />{' '}
                    {worker.busy} of {worker.slots}
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
  const pool = ({ open, idle, max }: Schemas['ConnectionsBody']) => `${open - idle} of ${max} in use`;
  return (
    <section id="api-process">
      <h2>API process</h2>
      <Facts>
        <Fact name="Wake-ups">{WAKEUPS[process.wakeups] ?? process.wakeups}</Fact>
        <Fact name="Database latency">
          {process.databaseMs < 10 ? `${process.databaseMs.toFixed(1)} ms` : duration(process.databaseMs)}
        </Fact>
        <Fact name="Query connections">{pool(process.connections)}</Fact>
        <Fact name="Stream connections">{pool(process.streamConnections)}</Fact>
      </Facts>
    </section>
  );
}

function Heads({ names, counts }: { names: string[]; counts: string[] }) {
  return (
    <tr>
      {names.map((name) => (
        <th key={name} scope="col">
          {name}
        </th>
      ))}
      {counts.map((name) => (
        <th key={name} scope="col" className="number">
          {name}
        </th>
      ))}
    </tr>
  );
}
