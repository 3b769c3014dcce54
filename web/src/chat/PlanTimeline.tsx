// Shows a plan while it is executed: its steps with their states and tool calls, and the approval that a draft waits for.
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import type { Plan, Question, Turn } from '../stream';
import { number, t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { Folded, State } from '../ui/parts';
import { LazyQuestionForm } from './LazyQuestionForm';

const PlanGraph = lazyPart(async () => (await import('./PlanGraph')).default, t('the graph'));

/** The tool by which agents plan. */
export const MAKES_PLAN = 'agent_create_plan';

/** What a review can ask for, besides an approval. */
const VERDICTS: Record<string, string> = {
  changes_requested: t('changes requested'),
  rejected: t('rejected'),
};

/** The plan is of the newest ones. */
const LOOKED_AT = 20;

/** The newest plan of a turn: from its events, or, if the turn ended before the page was loaded, the stored one. */
export function usePlan(turn: Turn, isOver: boolean): Plan | undefined {
  const me = useMe();
  const isAsked = isOver && !turn.plan && !turn.partial && turn.toolCalls.some((call) => call.tool === MAKES_PLAN);
  const stored = useQuery({
    queryKey: ['plan-of', turn.runId],
    queryFn: async () => {
      const { items } = await api<Schemas['PlanPage']>(`/api/projects/${me.projectId}/plans?limit=${LOOKED_AT}`);
      return (items.find((one) => one.runId === turn.runId) as Plan | undefined) ?? null;
    },
    enabled: isAsked,
  });
  return turn.plan ?? (isAsked ? (stored.data ?? undefined) : undefined);
}

/** Whether a run does a step of this plan. */
export function isStepOf(plan: Plan, turn: Turn): boolean {
  return turn.source === 'plan_step' && (turn.planId === undefined || turn.planId === plan.id);
}

/** Whether a question asks for a word on this plan: the planner waits for nothing else meanwhile. */
export function asksAbout(plan: Plan, question: Question): boolean {
  return (
    question.runId === plan.runId &&
    question.interactionType === 'confirm' &&
    question.options.some(({ value, label }) => value === 'refuse' && label === 'Reject')
  );
}

interface Props {
  plan: Plan;
  /** The runs that do its steps. */
  runs: readonly Turn[];
  /** About the plan. */
  question?: Question | undefined;
  /** How a run is shown within its step. */
  children: (run: Turn) => ReactNode;
}

export function PlanTimeline({ plan, runs, question, children }: Props) {
  const [isDrawn, setDrawn] = useState(false);
  const shown = (step: Plan['steps'][number]) => (
    <Step key={step.stepNumber} step={step} runs={runs}>
      {children}
    </Step>
  );
  const done = plan.steps.filter((step) => step.status === 'completed').length;
  return (
    <section className="plan" aria-label={t('Plan: {objective}', { objective: plan.objective })}>
      <p>
        <b>{t('Plan')}</b> <bdi>{plan.objective}</bdi> <State state={plan.status} />{' '}
        <span className="quiet" role="status">
          {t('{done} of {count, plural, other {# steps}}', { done, count: plan.steps.length })}
        </span>{' '}
        <button type="button" className="plain small" aria-pressed={isDrawn} onClick={() => setDrawn(!isDrawn)}>
          {t('Show as graph')}
        </button>
      </p>
      {plan.verdict && plan.verdict !== 'approved' ? (
        <p className="notice">
          {plan.reviewer ?? t('Reviewer')}: {VERDICTS[plan.verdict] ?? plan.verdict.replaceAll('_', ' ')}
          {plan.notes ? `: ${plan.notes}` : ''}
        </p>
      ) : null}
      {isDrawn ? (
        <PlanGraph plan={plan} runs={runs}>
          {shown}
        </PlanGraph>
      ) : (
        <ol>{plan.steps.map(shown)}</ol>
      )}
      {plan.status === 'pending_review' && plan.recommendations
        ? plan.recommendations.map((words) => (
            <p key={words} dir="auto" className="notice">
              {words}
            </p>
          ))
        : null}
      {question ? <LazyQuestionForm key={question.questionId} question={question} plan={plan} /> : null}
    </section>
  );
}

interface StepProps extends Pick<Props, 'runs' | 'children'> {
  step: Plan['steps'][number];
}

function Step({ step, runs, children }: StepProps) {
  const own = runs.filter((run) => run.stepNumber === step.stepNumber);
  return (
    <li className={step.status}>
      <p>
        <span className="step">{number(step.stepNumber)}.</span> <bdi>{step.description}</bdi>{' '}
        <State state={step.status} />{' '}
        {step.attempt && step.attempt > 1 ? (
          <span className="quiet">{t('attempt {attempt}', { attempt: step.attempt })}</span>
        ) : null}
      </p>
      {own.map(children)}
      {step.result ? (
        <Folded label={<span className="quiet">{t('Result')}</span>}>
          {() => (
            <p dir="auto" className="outcome">
              {step.result}
            </p>
          )}
        </Folded>
      ) : null}
      {step.error ? (
        <Folded label={<span className="quiet">{t('Error')}</span>}>
          {() => (
            <p dir="auto" className="note bad">
              {step.error}
            </p>
          )}
        </Folded>
      ) : null}
    </li>
  );
}
