/** Applies events to the plan of a turn and to its operations. All functions are pure. */
import type { Plan, StepView } from './view.js';
import type { Operation, PlanEvent, PlanReviewEvent, RunEvent, WirePlan } from './wire.js';

/** The tool by which agents plan. */
export const MAKES_PLAN = 'agent_create_plan';

/** The plan after an event; undefined: it changes nothing. */
export function planned(plan: Plan | undefined, event: RunEvent): Plan | undefined {
  switch (event.type) {
    case 'plan_created':
      return fresh(undefined, event.plan);
    case 'plan_ready_for_review': {
      const { summary, recommendations } = event as PlanEvent;
      return { ...fresh(plan, event.plan), ...(summary && { summary }), ...(recommendations && { recommendations }) };
    }
    case 'plan_review': {
      const { verdict, notes, reviewer } = event as PlanReviewEvent;
      const status = verdict === 'approved' ? 'executing' : 'failed';
      return { ...fresh(plan, event.plan), status, verdict, ...(notes && { notes }), ...(reviewer && { reviewer }) };
    }
    case 'step_start':
    case 'step_complete': {
      const { planId, ...step } = event.step;
      if (planId !== plan?.id) return undefined;
      if (event.type === 'step_complete') return withStep(plan, step);
      // What an attempt before it has left is void.
      return { ...withStep(plan, step, ['result', 'error']), status: 'executing' };
    }
    case 'executor_spawned':
      return plan && event.task.planId === plan.id
        ? withStep(plan, { stepNumber: event.task.stepNumber, executorId: event.executorId })
        : undefined;
    case 'mcp_tool': {
      // There is no separate event for the end of a plan: the result of its tool call ends it.
      const status =
        event.tool === MAKES_PLAN && event.status === 'completed'
          ? (event.result as { status?: unknown } | undefined)?.status
          : undefined;
      return plan && typeof status === 'string' ? { ...plan, status } : undefined;
    }
    default:
      return undefined;
  }
}

/** The operations after an event about one of them. */
export function operated(operations: readonly Operation[], changed: Operation): readonly Operation[] {
  const same = (one: Operation) =>
    one.status === 'start' &&
    one.action === changed.action &&
    one.entity_type === changed.entity_type &&
    one.entity_name === changed.entity_name;
  const at = changed.status === 'start' ? -1 : operations.findIndex(same);
  return at < 0 ? [...operations, changed] : operations.with(at, changed);
}

/** A plan as an event describes it, with the values that only earlier events contained. */
function fresh(before: Plan | undefined, plan: WirePlan): Plan {
  return { ...(before?.id === plan.id && before), ...plan, steps: plan.steps ?? [] };
}

function withStep(plan: Plan, change: Partial<StepView>, without: readonly string[] = []): Plan {
  const changed = (step: StepView) =>
    ({
      ...Object.fromEntries(Object.entries(step).filter(([name]) => !without.includes(name))),
      ...change,
    }) as StepView;
  return { ...plan, steps: plan.steps.map((step) => (step.stepNumber === change.stepNumber ? changed(step) : step)) };
}
