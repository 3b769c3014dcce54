// The shortcuts that work everywhere.
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { openDialog, toggleSidebar } from './frame';
import { viewsFor } from './navigation';

/** After G, the key of a view is waited for, in milliseconds. */
const SEQUENCE_MS = 1_500;

export function useKeys(isAdmin: boolean): void {
  const navigate = useNavigate();
  useEffect(() => {
    let begunAt = 0;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      const key = event.key.toLowerCase();
      if (event.ctrlKey || event.metaKey) {
        if (key === 'k' && !event.shiftKey) openDialog('palette');
        else if (key === 'o' && event.shiftKey) void navigate({ to: '/' });
        else if (key === 's' && event.shiftKey) toggleSidebar();
        else return;
        event.preventDefault();
        return;
      }
      if (isWriting(event) || document.querySelector('dialog[open]')) return;
      const isAfterG = event.timeStamp - begunAt < SEQUENCE_MS;
      begunAt = 0;
      const view = isAfterG ? viewsFor(isAdmin).find((one) => one.key === key) : undefined;
      if (view) void navigate({ to: view.to });
      else if (key === 'g') begunAt = event.timeStamp;
      else if (key === '?') openDialog('keys');
      else if (key === '/') document.getElementById('words')?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, [navigate, isAdmin]);
}

/** Letters belong to what is written, also in the shadow root of an editor, and to lists that are walked by them. */
function isWriting(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches('input, textarea, select, [role="menuitem"], [role="menuitemradio"]'))
  );
}
