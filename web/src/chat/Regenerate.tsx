// Answers a message again in a branch: by the same agent, or by another agent or model.
import { ChevronDown, RefreshCw } from 'lucide-react';
import { useState } from 'react';
import { IconButton } from '../ui/Button';
import { Dialog } from '../ui/Dialog';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { useAgents } from './agents';
import { type Change, useBranching } from './branches';
import { Choices } from './Choices';

export function Regenerate({ runId }: { runId: string }) {
  const branch = useBranching();
  const [isChoosing, setChoosing] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const again = async (change?: Change) => {
    setError(null);
    setAsking(true);
    try {
      await branch(runId, change);
    } catch (refusal) {
      setError(refusal);
    } finally {
      setAsking(false);
    }
  };
  return (
    <>
      <IconButton
        icon={RefreshCw}
        label={t('Regenerate in a new branch')}
        disabled={isAsking}
        onClick={() => void again()}
      />
      <IconButton
        icon={ChevronDown}
        label={t('Regenerate with another agent or model')}
        aria-haspopup="dialog"
        onClick={() => {
          setError(null);
          setChoosing(true);
        }}
      />
      {isChoosing ? (
        <Dialog title={t('Regenerate with another agent or model')} onClose={() => setChoosing(false)}>
          {error ? <ErrorNote error={error} /> : null}
          <Alternatives isDisabled={isAsking} onChoose={(change) => void again(change)} />
        </Dialog>
      ) : error ? (
        <ErrorNote error={error} />
      ) : null}
    </>
  );
}

function Alternatives(props: { isDisabled: boolean; onChoose: (change: Change) => void }) {
  return <Choices {...props} agents={useAgents()} />;
}
