// What makes a `<dialog>` modal while it is shown. Escape closes it, and nothing that it was opened from.
import { type KeyboardEvent, type RefObject, type SyntheticEvent, useLayoutEffect, useRef } from 'react';

interface Modal {
  ref: RefObject<HTMLDialogElement | null>;
  onCancel: (event: SyntheticEvent) => void;
  onKeyDown: (event: KeyboardEvent) => void;
}

/** What the `<dialog>` gets. Where the focus was is where it comes back to. */
export function useModal(onClose: () => void): Modal {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    element?.showModal();
    // Closed, not only taken away: so the browser brings the focus back.
    return () => element?.close();
  }, []);
  const onCancel = (event: SyntheticEvent) => {
    event.preventDefault();
    onClose();
  };
  // The browser cancels a dialog on Escape, unless something has taken the key for itself, as a menu does that is just closing.
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    if (event.nativeEvent.isComposing) return;
    onCancel(event);
  };
  return { ref, onCancel, onKeyDown };
}
