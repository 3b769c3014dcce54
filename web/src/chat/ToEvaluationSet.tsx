// Adds an answer of a chat to an evaluation set: for those who build agents.
import { ClipboardPlus } from 'lucide-react';
import { useState } from 'react';
import { isAdmin, useMe } from '../api/me';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';

const AddToSet = lazyPart(async () => (await import('../evaluations/AddToSet')).default, t('evaluation sets'));

export function ToEvaluationSet({ runId }: { runId: string }) {
  const me = useMe();
  const [isOpen, setOpen] = useState(false);
  if (!isAdmin(me) || !me.scopes.includes('write')) return null;
  return (
    <>
      <IconButton
        icon={ClipboardPlus}
        label={t('Add to evaluation set')}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      />
      {isOpen ? <AddToSet runId={runId} hasAnswer onClose={() => setOpen(false)} /> : null}
    </>
  );
}
