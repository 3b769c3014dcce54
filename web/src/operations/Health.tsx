// The summary of the page: what needs attention, each with a link to its section, or that all is good.
import { CircleCheck, TriangleAlert } from 'lucide-react';
import type { Schemas } from '../api/http';
import { seconds } from './charts';
import { type Kind, ofLastHour } from './failedRuns';

type Operations = Schemas['Operations'];

/** Jobs that wait longer than this are a problem, in seconds. */
const LONG_WAIT_S = 60;
/** This share of failed runs among all that ended is a problem. */
const MANY_FAILED = 0.1;

interface Problem {
  /** The id of the section that shows more. */
  section: string;
  words: string;
}

/** Failures that users can resolve are named by their kind; all others count as failures of the system. */
function problemsOf(operations: Operations, failed: readonly Kind[]): Problem[] {
  const { at, queues, workers, hour, deadJobs, api: process } = operations;
  const problems: Problem[] = [];
  const add = (isProblem: boolean, section: string, words: string) => {
    if (isProblem) problems.push({ section, words });
  };
  const oldest = Math.max(0, ...queues.map((queue) => queue.oldestAvailableS ?? 0));
  const ended = hour.completed + hour.failed + hour.cancelled;
  const paused = queues.filter((queue) => queue.paused).map(({ queue }) => queue);
  const resolvable = ofLastHour(failed, at).filter(({ advice }) => advice !== undefined);
  const failures = hour.failed - resolvable.reduce((sum, { runs }) => sum + runs.length, 0);
  add(!workers.some(({ alive }) => alive), 'workers', 'No workers are running.');
  add(oldest > LONG_WAIT_S, 'queues', `The oldest job has been waiting for ${seconds(oldest)}.`);
  add(failures > ended * MANY_FAILED, 'failures', `${failures} of ${ended} runs failed in the last hour.`);
  for (const { code, runs, advice } of resolvable) {
    const what = runs.length === 1 ? '1 run' : `${runs.length} runs`;
    add(true, 'failures', `${what} failed in the last hour because of settings or input: ${code}. ${advice}`);
  }
  // The dead jobs of runs need nothing: their runs have failed, and count as such.
  const dead = deadJobs.filter(({ runId }) => !runId).length;
  add(dead > 0, 'dead-jobs', `${dead} dead letter ${dead === 1 ? 'job needs' : 'jobs need'} a retry or a fix.`);
  add(process.wakeups === 'lost', 'api-process', 'Notifications from the database are reconnecting.');
  add(paused.length > 0, 'queues', `Paused: ${paused.join(', ')}.`);
  return problems;
}

export function Health({ operations, failed }: { operations: Operations; failed: readonly Kind[] }) {
  const problems = problemsOf(operations, failed);
  if (problems.length === 0) {
    return (
      <p className="health good">
        <CircleCheck className="icon" /> All good
      </p>
    );
  }
  return (
    <div className="health bad">
      <TriangleAlert className="icon" />
      <div>
        <b>{problems.length === 1 ? '1 thing to look at' : `${problems.length} things to look at`}</b>
        <ul>
          {problems.map(({ section, words }) => (
            <li key={words}>
              <a href={`#${section}`}>{words}</a>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
