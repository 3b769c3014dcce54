// Which conversations of the list are selected, while chats are being selected.
import { type RefObject, useCallback, useMemo, useRef, useState } from 'react';
import { between, selectable } from './rows';

export interface Selection {
  /** null: chats are not being selected. */
  selected: ReadonlySet<string> | null;
  begin: () => void;
  end: () => void;
  /** Selects exactly these. */
  set: (ids: readonly string[]) => void;
  /** Selects all that are listed. */
  all: () => void;
  /** Selects one, or no longer; with `isRange`, all from the one before. */
  select: (id: string, isRange: boolean) => void;
  /** Selects a range that begins where the last one began, or else at `from`. */
  extend: (from: string | null, to: string) => void;
}

export function useSelection(list: RefObject<HTMLElement | null>): Selection {
  const [selected, setSelected] = useState<ReadonlySet<string> | null>(null);
  /** Where a range begins. */
  const anchor = useRef<string | null>(null);
  const set = useCallback((ids: readonly string[]) => {
    anchor.current = null;
    setSelected(new Set(ids));
  }, []);
  const add = useCallback(
    (ids: readonly string[]) => setSelected((before) => new Set([...(before ?? []), ...ids])),
    [],
  );
  const select = useCallback(
    (id: string, isRange: boolean) => {
      if (isRange && anchor.current !== null) {
        add(between(list.current, anchor.current, id));
        return;
      }
      anchor.current = id;
      setSelected((before) => {
        const next = new Set(before);
        if (!next.delete(id)) next.add(id);
        return next;
      });
    },
    [list, add],
  );
  const rest = useMemo(
    () => ({
      begin: () => set([]),
      end: () => setSelected(null),
      all: () => set(selectable(list.current)),
      extend: (from: string | null, to: string) => {
        anchor.current ??= from;
        if (anchor.current !== null) add(between(list.current, anchor.current, to));
      },
    }),
    [set, add, list],
  );
  return { selected, set, select, ...rest };
}
