// Short notices of what was done, at the edge of the page. Screen readers read them, and they go away by themselves.
import { CircleAlert, CircleCheck, X } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import { IconButton } from './Button';
import { t } from './language';

interface Toast {
  key: number;
  words: string;
  isBad: boolean;
}

/** How long a notice is shown, in milliseconds. */
const SHOWN_MS = 5_000;
/** Notices that are shown at once. */
const SHOWN_MAX = 4;

let shown: readonly Toast[] = [];
let next = 0;
const listeners = new Set<() => void>();

function change(to: readonly Toast[]): void {
  shown = to;
  for (const listener of listeners) listener();
}

export function toast(words: string, isBad = false): void {
  next += 1;
  const key = next;
  change([...shown, { key, words, isBad }].slice(-SHOWN_MAX));
  setTimeout(forget, SHOWN_MS, key);
}

/** Reports a failed action. */
export function toastError(error: unknown): void {
  toast(error instanceof Error ? error.message : t('Something went wrong.'), true);
}

function forget(key: number): void {
  change(shown.filter((one) => one.key !== key));
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function Toasts() {
  const all = useSyncExternalStore(subscribe, () => shown);
  return (
    <div className="toasts" role="status" aria-live="polite" aria-label={t('Notices')}>
      {all.map(({ key, words, isBad }) => (
        <div key={key} className={isBad ? 'toast bad' : 'toast'}>
          {isBad ? <CircleAlert className="icon" /> : <CircleCheck className="icon" />}
          <span>{words}</span>
          <IconButton
            icon={X}
            label={t('Close')}
            name={t('Close: {notice}', { notice: words })}
            className="small"
            onClick={() => forget(key)}
          />
        </div>
      ))}
    </div>
  );
}
