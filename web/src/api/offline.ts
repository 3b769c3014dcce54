// Whether the page was opened while the server could not be reached. It shows the copies that this browser has until the server answers.
import { useSyncExternalStore } from 'react';

let isOffline = false;
const listeners = new Set<() => void>();

export function setOffline(now: boolean): void {
  if (now === isOffline) return;
  isOffline = now;
  for (const listener of listeners) listener();
}

export function getOffline(): boolean {
  return isOffline;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function useOffline(): boolean {
  return useSyncExternalStore(subscribe, getOffline);
}
