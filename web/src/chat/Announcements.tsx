// Announces to screen readers and background tabs that an answer started, needs input, or ended, but not each of its words.
import { useEffect, useRef, useState } from 'react';
import type { TranscriptView, Turn } from '../stream';
import { t } from '../ui/language';

/** How turns end, for people. */
export const ENDS: Partial<Record<Turn['status'], string>> = {
  completed: t('Answer finished.'),
  failed: t('The answer failed.'),
  cancelled: t('Answer stopped.'),
  paused: t('The answer is paused.'),
};

export function Announcements({ view }: { view: TranscriptView }) {
  const [words, setWords] = useState('');
  /** The announced state of each turn, or its state when the conversation was opened. */
  const announced = useRef<Map<string, string> | null>(null);
  const { turns, cursor } = view;
  useEffect(() => {
    // Nothing is known of it yet.
    if (cursor === 0) return;
    const isFirst = announced.current === null;
    announced.current ??= new Map();
    const known = announced.current;
    for (const { id, status } of turns) {
      const state = status in ENDS ? status : 'started';
      if (known.get(id) === state) continue;
      known.set(id, state);
      if (!isFirst) setWords(ENDS[status] ?? t('Answer started.'));
    }
  }, [turns, cursor]);
  const question = view.questions[0]?.question;
  useEffect(() => {
    if (question !== undefined) setWords(t('The agent asks: {question}', { question }));
  }, [question]);
  return (
    <p className="hidden" role="status" aria-live="polite">
      {words}
    </p>
  );
}
