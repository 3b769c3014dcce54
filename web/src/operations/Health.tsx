// What needs attention, or that nothing does.
import { CircleCheck, TriangleAlert } from 'lucide-react';
import type { Schemas } from '../api/http';
import { seconds } from './charts';

type Operations = Schemas['Operations'];

/** Jobs that wait longer than this are a problem, in seconds. */
const LONG_WAIT_S = 60;
/** So many failed runs of all that ended are a problem. */
const MANY_FAILED = 0.1;

/** What needs attention, in words. */
function problemsOf({ queues, workers, hour, deadJobs, api: process }: Operations): string[] {
  const oldest = Math.max(0, ...queues.map((queue) => queue.oldestAvailableS ?? 0));
  const ended = hour.completed + hour.failed + hour.cancelled;
  const dead = deadJobs.filter(({ runId }) => !runId).length;
  const paused = queues.filter((queue) => queue.paused).map(({ queue }) => queue);
  return [
    workers.some(({ alive }) => alive) ? '' : 'No workers are running.',
    oldest > LONG_WAIT_S ? `The oldest job has been waiting for ${seconds(oldest)}.` : '',
    dead > 0 ? `${dead} dead letter ${dead === 1 ? 'job needs' : 'jobs need'} a retry or a fix.` : '',
    hour.failed > ended * MANY_FAILED ? `${hour.failed} of ${ended} runs failed in the last hour.` : '',
    process.wakeups === 'lost' ? 'Notifications from the database are reconnecting.' : '',
    paused.length > 0 ? `Paused: ${paused.join(', ')}.` : '',
  ].filter((problem) => problem !== '');
}

export function Health({ operations }: { operations: Operations }) {
  const problems = problemsOf(operations);
  if (problems.length === 0) {
    return (
      <p className="health good">
        <CircleCheck className="icon" /> All systems are working.
      </p>
    );
  }
  return (
    <div className="health bad">
      <TriangleAlert className="icon" />
      <div>
        <b>{problems.length === 1 ? '1 thing needs' : `${problems.length} things need`} attention</b>
        <ul>
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}
