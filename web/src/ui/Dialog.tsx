// A modal dialog. Escape closes it and returns the focus to where it was.
import { type ReactNode, useLayoutEffect, useRef } from 'react';

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // Closed, not only taken away: so the browser brings the focus back.
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="title">
        <h2>{title}</h2>
        <button type="button" className="plain actions" aria-label="Close" onClick={() => onClose()}>
          ×
        </button>
      </div>
      {children}
    </dialog>
  );
}
