// The page's title: tabs, bookmarks and the history tell views apart by it.
import { useEffect } from 'react';

const APP = 'Rejoin';

/** Names the page after what it shows, and before that, what goes on. */
export function useTitle(name: string, state?: string): void {
  useEffect(() => {
    document.title = `${state === undefined ? '' : `${state} · `}${name} · ${APP}`;
  }, [name, state]);
}
