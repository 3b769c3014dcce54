// Draws a plan as a dependency graph. The selected step is shown below it, with its run.
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Plan, Turn } from '../stream';
import { Picture } from '../tasks/Picture';
import { number, t } from '../ui/language';

interface PlanGraphProps {
  plan: Plan;
  /** The runs that do its steps. */
  runs: readonly Turn[];
  /** How a step is shown when it is chosen. */
  children: (step: Plan['steps'][number]) => ReactNode;
}

export default function PlanGraph({ plan, runs, children }: PlanGraphProps) {
  const [chosen, choose] = useState<string | null>(null);
  const tasks = plan.steps.map(({ stepNumber, description, status, dependsOn }) => ({
    id: String(stepNumber),
    title: `${number(stepNumber)}. ${description}`,
    state: status,
    after: dependsOn.map(String),
  }));
  const step = plan.steps.find(({ stepNumber }) => String(stepNumber) === chosen);
  const runId = step?.executorId ?? runs.findLast((run) => run.stepNumber === step?.stepNumber)?.runId;
  return (
    <>
      <Picture tasks={tasks} label={t('Steps and their dependencies')} chosen={chosen} choose={choose} />
      {step ? (
        <>
          <ol>{children(step)}</ol>
          <p>
            {runId ? (
              <Link to="/runs/$id" params={{ id: runId }}>
                {t('Open run')}
              </Link>
            ) : (
              <span className="quiet">{t('This step has not started.')}</span>
            )}
          </p>
        </>
      ) : (
        <p className="quiet">{t('Select a step to see its run and result.')}</p>
      )}
    </>
  );
}
