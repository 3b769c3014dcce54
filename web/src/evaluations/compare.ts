// Compares an evaluation with another one of the same set, case by case.
import type { Result } from './evaluations';

/** What the list of results can be narrowed to. */
export const SHOWN = ['notPassed', 'changed'] as const;
export type Shown = (typeof SHOWN)[number];

/** The result of a case, beside the result of the same case in the other evaluation. */
export interface Row {
  result: Result;
  other: Result | undefined;
}

const VERDICTS = ['passed', 'failed', 'error'];

export function rowsOf(results: readonly Result[], others: readonly Result[] = []): Row[] {
  const byCase = new Map(others.map((other) => [other.caseId, other]));
  return results.map((result) => ({ result, other: byCase.get(result.caseId) }));
}

/** Whether both evaluations have a verdict, and these differ. */
export function isChanged({ result, other }: Row): boolean {
  return (
    other !== undefined &&
    VERDICTS.includes(result.state) &&
    VERDICTS.includes(other.state) &&
    result.state !== other.state
  );
}

export function isShown(row: Row, shown: Shown | undefined): boolean {
  if (shown === 'notPassed') return ['failed', 'error'].includes(row.result.state);
  return shown === undefined || isChanged(row);
}

/** How many cases pass now and did not before, and how many did before and do not now. */
export function changesOf(rows: readonly Row[]): { better: number; worse: number } {
  const changed = rows.filter(isChanged);
  return {
    better: changed.filter(({ result }) => result.state === 'passed').length,
    worse: changed.filter(({ other }) => other?.state === 'passed').length,
  };
}
