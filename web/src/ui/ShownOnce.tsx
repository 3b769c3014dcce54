// Shows a secret that was just created: a key, or a link with a token. The server shows it only this once.
import { type ReactNode, useRef, useState } from 'react';
import { t } from './language';

interface Props {
  secret: string;
  /** What was created. */
  children: ReactNode;
  /** What the button that copies it is called. */
  copy?: string;
  /** What the button is called that ends this. */
  done?: string;
  onDone: () => void;
}

export function ShownOnce({ secret, children, copy = t('Copy'), done = t('Done'), onDone }: Props) {
  const shown = useRef<HTMLElement>(null);
  const [state, setState] = useState<'new' | 'copied' | 'failed'>('new');
  const copySecret = async () => {
    try {
      await navigator.clipboard.writeText(secret);
      setState('copied');
    } catch {
      // Pages over plain HTTP have no clipboard.
      if (shown.current) getSelection()?.selectAllChildren(shown.current);
      setState('failed');
    }
  };
  return (
    <div className="note" role="status">
      <p>
        {children} {t('Copy it now. It will not be shown again.')}
      </p>
      <p>
        <code ref={shown}>{secret}</code>
      </p>
      {state === 'failed' ? (
        <p>{t('This browser did not copy it. It is selected: copy it with your keyboard.')}</p>
      ) : null}
      <button type="button" className="small" onClick={() => void copySecret()}>
        {state === 'copied' ? t('Copied') : copy}
      </button>{' '}
      <button type="button" className="small" onClick={onDone}>
        {done}
      </button>
    </div>
  );
}
