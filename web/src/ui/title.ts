// Names the page: in the browser's tab, by which tabs, bookmarks and the history distinguish views, and in the bar above it.
import { useEffect, useSyncExternalStore } from 'react';

const APP = 'Rejoin';

let shown = '';
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Names the page after what it shows, and before that, what goes on. */
export function useTitle(name: string, state?: string): void {
  useEffect(() => {
    document.title = `${state === undefined ? '' : `${state} · `}${name} · ${APP}`;
    shown = name;
    for (const listener of listeners) listener();
  }, [name, state]);
}

/** What the page is named after. */
export function useShownTitle(): string {
  return useSyncExternalStore(subscribe, () => shown);
}
