// The list as one stop of the Tab key. Arrow keys go from row to row; the focus stays in the list when rows move or are removed.
// A row is an element with `data-row`, its id.
import { type KeyboardEvent, type RefObject, useCallback, useLayoutEffect, useRef, useState } from 'react';
import { BACKWARD, FORWARD } from '../../ui/arrows';

const ROW = '[data-row]';

function rowsOf(list: ParentNode | null): HTMLElement[] {
  return [...(list?.querySelectorAll<HTMLElement>(ROW) ?? [])];
}

function idOf(row: HTMLElement | undefined): string | null {
  return row?.dataset.row ?? null;
}

/** Focuses a row's link, check box or button. */
function focus(row: HTMLElement | undefined): void {
  row?.querySelector<HTMLElement>('a, button, input')?.focus();
}

/** The ids of the rows that can be selected. */
export function selectable(list: ParentNode | null): string[] {
  return rowsOf(list).flatMap((row) => (row.querySelector('input[type="checkbox"]') ? [row.dataset.row ?? ''] : []));
}

/** The ids of the rows from one to another, both included, of those that can be selected. */
export function between(list: ParentNode | null, one: string, other: string): string[] {
  const ids = selectable(list);
  const [from, to] = [ids.indexOf(one), ids.indexOf(other)].sort((a, b) => a - b);
  return from === undefined || to === undefined || from < 0 ? [] : ids.slice(from, to + 1);
}

/** Goes from row to row, and within a row from its link to its actions. Returns the id of the row that it went to. */
export function walk(event: KeyboardEvent<HTMLElement>): string | null {
  const target = event.target instanceof Element ? event.target : null;
  const row = target?.closest<HTMLElement>(ROW);
  if (!row || target?.matches('input:not([type="checkbox"])') || event.defaultPrevented) return null;
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === FORWARD || event.key === BACKWARD) {
    event.preventDefault();
    if (event.key === BACKWARD) focus(row);
    else row.querySelector<HTMLElement>('.row-actions button')?.focus();
    return null;
  }
  const rows = rowsOf(event.currentTarget);
  const at = rows.indexOf(row);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (to === undefined) return null;
  event.preventDefault();
  focus(rows[to]);
  return idOf(rows[to]);
}

/** Focuses a row of a list; the first one, if it does not have this one. */
export function enter(list: ParentNode | null, id: string | null): void {
  const rows = rowsOf(list);
  focus(rows.find((row) => idOf(row) === id) ?? rows[0]);
}

export interface Rows {
  /** The row that the Tab key leads to. */
  stop: string | null;
  onFocus: (id: string) => void;
  /** Keeps the focus at this row, or, once it is removed, at its neighbour. */
  keepAt: (id: string) => void;
}

/** `current`: the row that the Tab key leads to before any was focused. */
export function useRows(list: RefObject<HTMLElement | null>, current: string | null): Rows {
  const [stop, setStop] = useState<string | null>(null);
  const focused = useRef<string | null>(null);
  /** Where the focus belongs if it is lost, the best first. Empty as soon as the user does something else. */
  const wanted = useRef<readonly string[]>([]);
  /** The row that has the focus until a better one is there: a row that moves is gone for a moment. */
  const second = useRef<Element | null>(null);
  const regain = useCallback(() => {
    const active = document.activeElement;
    const isLost = active === document.body || (second.current !== null && active?.closest(ROW) === second.current);
    if (wanted.current.length === 0 || !isLost) return;
    const rows = rowsOf(list.current);
    const best = wanted.current.find((id) => rows.some((row) => idOf(row) === id));
    const row = rows.find((row) => idOf(row) === best) ?? rows[0];
    if (row === second.current && active !== document.body) return;
    second.current = best === wanted.current[0] ? null : (row ?? null);
    focus(row);
  }, [list]);
  useLayoutEffect(() => {
    const element = list.current;
    if (!element) return;
    const settle = () => {
      const rows = rowsOf(element);
      const has = (id: string | null) => rows.some((row) => idOf(row) === id);
      setStop([focused.current, current].find(has) ?? idOf(rows[0]));
      regain();
    };
    settle();
    const watch = new MutationObserver(settle);
    watch.observe(element, { childList: true, subtree: true });
    return () => watch.disconnect();
  }, [list, current, regain]);
  useLayoutEffect(() => {
    const forget = () => {
      wanted.current = [];
      second.current = null;
    };
    const deeds = ['pointerdown', 'keydown'] as const;
    for (const deed of deeds) document.addEventListener(deed, forget, true);
    return () => {
      for (const deed of deeds) document.removeEventListener(deed, forget, true);
    };
  }, []);
  const onFocus = useCallback((id: string) => {
    focused.current = id;
    setStop(id);
  }, []);
  const keepAt = useCallback(
    (id: string) => {
      const ids = rowsOf(list.current).map((row) => row.dataset.row ?? '');
      const at = ids.indexOf(id);
      if (at >= 0) wanted.current = [id, ...ids.slice(at + 1), ...ids.slice(0, at).reverse()];
      // It was removed: its neighbours may have been noted before.
      else if (wanted.current.length === 0) wanted.current = [id];
      // A menu or a dialog that has just closed may still have the focus.
      requestAnimationFrame(regain);
    },
    [list, regain],
  );
  return { stop, onFocus, keepAt };
}
