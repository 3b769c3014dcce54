// Shows a failed request with a retry button.
import type { UseQueryResult } from '@tanstack/react-query';
import { t } from './language';
import { ErrorNote } from './parts';

export function Failed({ reading }: { reading: Pick<UseQueryResult, 'error' | 'refetch' | 'isFetching'> }) {
  return (
    <div>
      <ErrorNote error={reading.error} />
      <button type="button" disabled={reading.isFetching} onClick={() => void reading.refetch()}>
        {t('Retry')}
      </button>
    </div>
  );
}
