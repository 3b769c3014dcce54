// Explains why a run can't be shown. Only the member who started a run outside a conversation sees its details.
import { Link } from '@tanstack/react-router';
import { rich, t } from '../ui/language';
import { ErrorNote } from '../ui/parts';

export function RunFailed({ error }: { error: Error }) {
  if (!('code' in error && error.code === 'run_not_found')) return <ErrorNote error={error} />;
  return (
    <p className="note">
      {rich(
        'Run not found. It may not exist, or only the member who started it can see it. {runs} lists the state of every run outside a conversation.',
        { runs: <Link to="/runs">{t('Runs')}</Link> },
      )}
    </p>
  );
}
