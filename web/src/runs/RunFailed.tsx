// Why a run can't be shown. To everybody but the member who started it, a run outside a conversation is not there in detail.
import { Link } from '@tanstack/react-router';
import { ErrorNote } from '../ui/parts';

export function RunFailed({ error }: { error: Error }) {
  if (!('code' in error && error.code === 'run_not_found')) return <ErrorNote error={error} />;
  return (
    <p className="note">
      Only the member who started this run can see it, or it does not exist. <Link to="/runs">Runs</Link> shows the
      state of every run outside a conversation.
    </p>
  );
}
