// Shows a view whose data could not be loaded: not found, or a failed request with a retry button.
import type { UseQueryResult } from '@tanstack/react-query';
import { Problem } from '../api/http';
import { Failed } from './Failed';
import { t } from './language';
import { NotFound } from './NotFound';

export function LoadFailed({
  reading,
  what,
  hint,
}: {
  reading: Pick<UseQueryResult, 'error' | 'refetch' | 'isFetching'>;
  what: string;
  hint?: string | undefined;
}) {
  if (reading.error instanceof Problem && reading.error.status === 404) return <NotFound what={what} hint={hint} />;
  return (
    <main id="main" className="page">
      <h1>{t("{what} can't be shown", { what })}</h1>
      <Failed reading={reading} />
    </main>
  );
}
