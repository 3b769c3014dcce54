// Sets the page title, by which tabs, bookmarks and the history distinguish views.
import { useEffect } from 'react';

const APP = 'Rejoin';

/** Names the page after what it shows, and before that, what goes on. */
export function useTitle(name: string, state?: string): void {
  useEffect(() => {
    document.title = `${state === undefined ? '' : `${state} · `}${name} · ${APP}`;
  }, [name, state]);
}
