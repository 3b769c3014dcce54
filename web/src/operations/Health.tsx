// The summary of the page: what needs attention, each with a link to its section, or that all is good.
import { CircleCheck, TriangleAlert } from 'lucide-react';
import type { Schemas } from '../api/http';
import { list, t } from '../ui/language';
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
  add(!workers.some(({ alive }) => alive), 'workers', t('No workers are running.'));
  add(oldest > LONG_WAIT_S, 'queues', t('The oldest job has been waiting for {time}.', { time: seconds(oldest) }));
  add(
    failures > ended * MANY_FAILED,
    'failures',
    t('{failures} of {ended} runs failed in the last hour.', { failures, ended }),
  );
  for (const { code, runs, advice } of resolvable) {
    const words = t(
      '{count, plural, one {# run} other {# runs}} failed in the last hour because of settings or input: {code}. {advice}',
      { count: runs.length, code, advice: advice ?? '' },
    );
    add(true, 'failures', words);
  }
  // The dead jobs of runs need nothing: their runs have failed, and count as such.
  const dead = deadJobs.filter(({ runId }) => !runId).length;
  add(
    dead > 0,
    'dead-jobs',
    t(
      '{count, plural, one {# dead letter job needs a retry or a fix.} other {# dead letter jobs need a retry or a fix.}}',
      { count: dead },
    ),
  );
  add(process.wakeups === 'lost', 'api-process', t('Notifications from the database are reconnecting.'));
  add(paused.length > 0, 'queues', t('Paused: {queues}.', { queues: list(paused) }));
  return problems;
}

export function Health({ operations, failed }: { operations: Operations; failed: readonly Kind[] }) {
  const problems = problemsOf(operations, failed);
  if (problems.length === 0) {
    return (
      <p className="health good">
        <CircleCheck className="icon" /> {t('All good')}
      </p>
    );
  }
  return (
    <div className="health bad">
      <TriangleAlert className="icon" />
      <div>
        <b>{t('{count, plural, one {# thing to look at} other {# things to look at}}', { count: problems.length })}</b>
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
