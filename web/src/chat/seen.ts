// Tracks which conversations have updates that this browser has not shown yet. All tabs share the state.
import { useEffect, useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';

const KEPT = 'seen';
/** Of so many conversations it is remembered; the oldest are forgotten first, and count as seen. */
const MAX_KEPT = 500;

/** Until when each conversation has been seen [ms since 1970], and since when we look: what is older is not news. */
interface Seen {
  since: number;
  until: Record<string, number>;
}

let parsed: Seen | undefined;
const listeners = new Set<() => void>();

function read(): Seen {
  if (parsed) return parsed;
  const kept = localStore.read(KEPT) as Partial<Seen> | null;
  if (typeof kept?.since === 'number' && kept.until) {
    parsed = { since: kept.since, until: kept.until };
    return parsed;
  }
  parsed = { since: Date.now(), until: {} };
  // From the first look on: what comes after it is news, also after a reload.
  localStore.write(KEPT, parsed);
  return parsed;
}

/** Marks a conversation as seen up to the time of its newest message. */
function markSeen(id: string, at: string): void {
  const { since, until } = read();
  const moment = Date.parse(at);
  if ((until[id] ?? 0) >= moment) return;
  const kept = Object.entries({ ...until, [id]: moment }).sort(([, one], [, other]) => other - one);
  parsed = { since, until: Object.fromEntries(kept.slice(0, MAX_KEPT)) };
  localStore.write(KEPT, parsed);
  for (const listener of listeners) listener();
}

function subscribe(changed: () => void): () => void {
  const other = ({ key }: StorageEvent) => {
    if (key !== localStore.keyOf(KEPT)) return;
    parsed = undefined;
    changed();
  };
  listeners.add(changed);
  addEventListener('storage', other);
  return () => {
    listeners.delete(changed);
    removeEventListener('storage', other);
  };
}

/** Whether a conversation that changed last at a moment holds news. */
export function useNews(): (id: string, updatedAt: string) => boolean {
  const { since, until } = useSyncExternalStore(subscribe, read);
  return (id, updatedAt) => Date.parse(updatedAt) > (until[id] ?? since);
}

/** What is shown is seen, as soon as the page is. */
export function useSeen(id: string, newest: string | undefined): void {
  useEffect(() => {
    const look = () => {
      if (newest !== undefined && !document.hidden) markSeen(id, newest);
    };
    look();
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, [id, newest]);
}
