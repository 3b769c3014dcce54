// Stores the unsent message of each conversation across view changes and reloads.
import { useCallback, useEffect, useRef, useState } from 'react';
import * as localStore from '../api/localStore';
import type { TextFile } from './files';
import type { StoredFile } from './uploads';

export interface Draft {
  words: string;
  /** Text that becomes part of the message. */
  files: readonly TextFile[];
  /** Files that the server has already. */
  attachments: readonly StoredFile[];
}

const KEPT = 'draft.';
export const EMPTY: Draft = { words: '', files: [], attachments: [] };

function read(name: string): Draft {
  const kept = localStore.read(KEPT + name) as Partial<Draft> | null;
  if (typeof kept?.words !== 'string') return EMPTY;
  const files = Array.isArray(kept.files) ? kept.files : [];
  const attachments = Array.isArray(kept.attachments) ? kept.attachments : [];
  return {
    words: kept.words,
    files: files.filter((file) => typeof file?.name === 'string' && typeof file.content === 'string'),
    attachments: attachments.filter((file) => typeof file?.fileId === 'string' && typeof file.name === 'string'),
  };
}

export function forgetDraft(name: string): void {
  localStore.remove(KEPT + name);
}

/** What was written in one place goes on in another, unless something is written there already. */
export function moveDraft(from: string, to: string): void {
  const draft = localStore.read(KEPT + from);
  if (draft !== null && localStore.read(KEPT + to) === null) localStore.write(KEPT + to, draft);
  forgetDraft(from);
}

/** What changes, also by what is there at that moment. */
type Change = Partial<Draft> | ((now: Draft) => Partial<Draft>);

/** The draft of a place, and how to change it. */
export function useDraft(name: string): [Draft, (change: Change) => void] {
  const [draft, setDraft] = useState(() => read(name));
  const now = useRef(draft);
  useEffect(() => {
    now.current = read(name);
    setDraft(now.current);
  }, [name]);
  const change = useCallback(
    (change: Change) => {
      now.current = { ...now.current, ...(typeof change === 'function' ? change(now.current) : change) };
      const { words, files, attachments } = now.current;
      if (words === '' && files.length === 0 && attachments.length === 0) forgetDraft(name);
      // Without room for the files, the words are kept.
      else if (!localStore.write(KEPT + name, now.current))
        localStore.write(KEPT + name, { words, files: [], attachments });
      setDraft(now.current);
    },
    [name],
  );
  return [draft, change];
}
