// The state of the sidebar: folded away on wide screens, or open as a drawer on narrow ones; and which dialog of the frame is open.
import { useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';

const KEPT = 'sidebar';
/** As in frame.css. */
const narrow = matchMedia('(max-width: 52rem)');

export interface Frame {
  isNarrow: boolean;
  isFolded: boolean;
  isDrawn: boolean;
  dialog: 'palette' | 'keys' | null;
}

let frame: Frame | undefined;
const listeners = new Set<() => void>();

function read(): Frame {
  frame ??= {
    isNarrow: narrow.matches,
    isFolded: localStore.read(KEPT) === 'folded',
    isDrawn: false,
    dialog: null,
  };
  return frame;
}

function change(to: Partial<Frame>): void {
  frame = { ...read(), ...to };
  for (const listener of listeners) listener();
}

narrow.addEventListener('change', () => change({ isNarrow: narrow.matches, isDrawn: false }));

export function toggleSidebar(): void {
  const { isNarrow, isFolded, isDrawn } = read();
  if (isNarrow) {
    change({ isDrawn: !isDrawn });
  } else {
    localStore.write(KEPT, isFolded ? 'open' : 'folded');
    change({ isFolded: !isFolded });
  }
}

export function closeDrawer(): void {
  if (read().isDrawn) change({ isDrawn: false });
}

export function openDialog(dialog: Frame['dialog']): void {
  change({ dialog, isDrawn: false });
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function useFrame(): Frame {
  return useSyncExternalStore(subscribe, read);
}
