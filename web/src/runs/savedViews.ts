// Saved views: filters of the list of runs by name, in this browser. All tabs share them.
import { useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';
import { t } from '../ui/language';
import { toast } from '../ui/toasts';
import { filtersOf, type RunFilters } from './filters';

const KEPT = 'runs.views';
/** The maximum number of views; each is a link on the page. */
export const VIEWS_MAX = 30;

export interface SavedView {
  name: string;
  filters: RunFilters;
}

let views: readonly SavedView[] | undefined;
const listeners = new Set<() => void>();

function all(): readonly SavedView[] {
  if (views) return views;
  const kept = localStore.read(KEPT);
  views = Array.isArray(kept) ? kept.flatMap(parsed) : [];
  return views;
}

function parsed(kept: { name?: unknown; filters?: unknown } | null): SavedView[] {
  if (typeof kept?.name !== 'string' || typeof kept.filters !== 'object' || kept.filters === null) return [];
  return [{ name: kept.name, filters: filtersOf(kept.filters as Record<string, unknown>) }];
}

function change(to: readonly SavedView[]): void {
  views = to;
  for (const listener of listeners) listener();
  if (!localStore.write(KEPT, to))
    toast(t('The browser’s storage is full or blocked. This change is lost when the page is closed.'), true);
}

export function saveView(view: SavedView): void {
  change([...all(), view]);
}

export function renameView(from: string, to: string): void {
  change(all().map((view) => (view.name === from ? { ...view, name: to } : view)));
}

export function deleteView(name: string): void {
  change(all().filter((view) => view.name !== name));
}

function subscribe(changed: () => void): () => void {
  const other = ({ key }: StorageEvent) => {
    if (key !== localStore.keyOf(KEPT)) return;
    views = undefined;
    changed();
  };
  listeners.add(changed);
  addEventListener('storage', other);
  return () => {
    listeners.delete(changed);
    removeEventListener('storage', other);
  };
}

export function useSavedViews(): readonly SavedView[] {
  return useSyncExternalStore(subscribe, all);
}
