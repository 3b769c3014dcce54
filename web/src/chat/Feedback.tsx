// Lets the reader rate an answer, say why, and withdraw that.
import { MessageSquare, MessageSquareText, ThumbsDown, ThumbsUp } from 'lucide-react';
import { type FormEvent, useRef, useState } from 'react';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import { type Rating, useRate } from './ratings';

const CHOICES = [
  { helped: true, icon: ThumbsUp, name: t('Helpful') },
  { helped: false, icon: ThumbsDown, name: t('Not helpful') },
];
/** As the API takes it, in characters. */
const COMMENT_MAX = 2_000;

export function Feedback({ messageId, given }: { messageId: string; given: Rating | undefined }) {
  const rate = useRate(messageId);
  const [isCommenting, setCommenting] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const store = async (rating: Rating | null) => {
    setError(null);
    try {
      await rate(rating);
    } catch (refusal) {
      setError(refusal);
      throw refusal;
    }
  };
  const close = () => {
    setError(null);
    setCommenting(false);
    opener.current?.focus();
  };
  const choose = (helped: boolean) => {
    // The choice that was made is withdrawn, with its comment.
    const rating = given?.helped === helped ? null : { labels: [], ...given, helped };
    if (rating === null) setCommenting(false);
    void store(rating).catch(() => {});
  };
  return (
    <>
      <span role="group" aria-label={t('Did this answer help?')} className="group">
        {CHOICES.map(({ helped, icon, name }) => (
          <IconButton
            key={String(helped)}
            icon={icon}
            label={name}
            aria-pressed={given?.helped === helped}
            onClick={() => choose(helped)}
          />
        ))}
        {given ? (
          <IconButton
            ref={opener}
            icon={given.comment ? MessageSquareText : MessageSquare}
            label={given.comment ? t('Change your comment') : t('Add a comment')}
            aria-expanded={isCommenting}
            onClick={() => setCommenting(!isCommenting)}
          />
        ) : null}
      </span>
      {given && isCommenting ? (
        <Comment
          words={given.comment ?? ''}
          onSave={(comment) => store({ ...given, comment }).then(close)}
          onClose={close}
        />
      ) : null}
      {error ? <ErrorNote error={error} /> : null}
    </>
  );
}

interface CommentProps {
  words: string;
  onSave: (words: string) => Promise<void>;
  onClose: () => void;
}

function Comment({ words, onSave, onClose }: CommentProps) {
  const [text, setText] = useState(words);
  const save = (event: FormEvent) => {
    event.preventDefault();
    // The error is shown beside it, and the words stay.
    void onSave(text.trim()).catch(() => {});
  };
  return (
    <form className="comment" onSubmit={save}>
      <textarea
        aria-label={t('Comment on this answer')}
        placeholder={t('What was good, or what was missing?')}
        rows={3}
        maxLength={COMMENT_MAX}
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape' && !event.nativeEvent.isComposing) onClose();
        }}
      />
      <div className="controls">
        <button type="submit" className="small" disabled={text.trim() === words}>
          {t('Save comment')}
        </button>
        <button type="button" className="small" onClick={onClose}>
          {t('Cancel')}
        </button>
      </div>
    </form>
  );
}
