// Evaluation sets with their cases and evaluations, as the API returns them, and what their states are called.
import type { QueryClient } from '@tanstack/react-query';
import type { Schemas } from '../api/http';
import { useMe } from '../api/me';
import { number, t } from '../ui/language';

export type EvaluationSet = Schemas['EvaluationSet'];
export type Case = Schemas['EvaluationCase'];
export type Evaluation = Schemas['Evaluation'];
export type Detail = Schemas['EvaluationDetail'];
export type Result = Schemas['EvaluationResult'];

/** The judge of evaluations that name no other one. */
export const BUILT_IN_JUDGE = 'evaluation-judge';
/** How often what is under way is looked at again [ms]. */
export const LIVE_MS = 2_000;
/** The same for lists [ms]. */
export const LISTED_MS = 5_000;

const OVER = ['completed', 'failed', 'cancelled'];

export function useSetsPath(): string {
  return `/api/projects/${useMe().projectId}/evaluation-sets`;
}

/** Reads again what shows a set: lists, its page, its cases and evaluations. */
export async function refreshSet(queries: QueryClient, id: string): Promise<void> {
  await Promise.all(
    [['evaluation-sets'], ['evaluation-set', id], ['evaluation-cases', id], ['evaluations', id]].map((queryKey) =>
      queries.invalidateQueries({ queryKey }),
    ),
  );
}

export function isOver({ state }: Evaluation): boolean {
  return OVER.includes(state);
}

/** The agent and its version. */
export function nameOf({ agent, agentVersion }: Evaluation): string {
  return t('{agent}, version {version}', { agent, version: String(agentVersion) });
}

/** The number of cases. */
export function totalOf({ passed, failed, errors, pending }: Evaluation): number {
  return passed + failed + errors + pending;
}

/** The share of passed cases among those that ended, rounded down: 100 % means all of them. */
export function shareOf({ passed, failed, errors }: Evaluation): string {
  const ended = passed + failed + errors;
  if (ended === 0) return '—';
  return number(Math.floor((100 * passed) / ended) / 100, { style: 'percent' });
}

/** What `State` shows of an evaluation: its DAG has failed when one of its tasks has. */
const STATES: Readonly<Record<string, string>> = { active: 'running', failed: 'ended_with_errors' };

export function stateOf({ state }: Evaluation): string {
  return STATES[state] ?? state;
}

/** What `State` shows of a result. */
const RESULT_STATES: Readonly<Record<string, string>> = { running: 'answering', failed: 'not_passed' };

export function resultStateOf({ state }: Result): string {
  return RESULT_STATES[state] ?? state;
}

/** What became of cases that were to be added. */
export function addedInWords({ added, skipped }: Schemas['EvaluationCasesAdded']): string {
  const what = t('{count, plural, =0 {No cases added.} one {# case added.} other {# cases added.}}', { count: added });
  if (skipped === 0) return what;
  const others = t(
    '{count, plural, one {# was skipped: it is already in the set, or too long.} other {# were skipped: they are already in the set, or too long.}}',
    { count: skipped },
  );
  return `${what} ${others}`;
}

/** The beginning of a question, for names of buttons. */
export function shortOf(question: string): string {
  return question.length > 80 ? `${question.slice(0, 79)}…` : question;
}
