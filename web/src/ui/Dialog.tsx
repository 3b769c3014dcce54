// Modal dialogs. Escape closes them and returns the focus to where it was.
import { X } from 'lucide-react';
import { type ReactNode, useSyncExternalStore } from 'react';
import { IconButton } from './Button';
import { t } from './language';
import { useModal } from './useModal';

interface DialogProps {
  title: string;
  className?: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, className, onClose, children }: DialogProps) {
  const modal = useModal(onClose);
  return (
    <dialog {...modal} className={className} aria-label={title}>
      <div className="title">
        <h2>{title}</h2>
        <IconButton icon={X} label={t('Close')} className="actions" onClick={() => onClose()} />
      </div>
      {children}
    </dialog>
  );
}

interface Request {
  title: string;
  detail: string;
  /** What the button says. */
  action: string;
}

let asked: (Request & { settle: (agreed: boolean) => void }) | null = null;
const listeners = new Set<() => void>();

/** Asks before something is done that can't be undone. */
export function confirmed(request: Request): Promise<boolean> {
  return new Promise((resolve) => {
    asked?.settle(false);
    asked = {
      ...request,
      settle: (agreed) => {
        asked = null;
        for (const listener of listeners) listener();
        resolve(agreed);
      },
    };
    for (const listener of listeners) listener();
  });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Shows what `confirmed` asks. */
export function Confirmations() {
  const request = useSyncExternalStore(subscribe, () => asked);
  if (request === null) return null;
  const { title, detail, action, settle } = request;
  return (
    <Dialog title={title} className="narrow" onClose={() => settle(false)}>
      <p>{detail}</p>
      <div className="controls">
        <button type="button" onClick={() => settle(false)}>
          {t('Cancel')}
        </button>
        <button type="button" className="danger" autoFocus onClick={() => settle(true)}>
          {action}
        </button>
      </div>
    </Dialog>
  );
}
