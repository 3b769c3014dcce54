// Shows a user message, with the switch between its versions. Editing it makes another version, in a branch.
import { Pencil } from 'lucide-react';
import { type FormEvent, memo, useRef, useState } from 'react';
import type { Message } from '../stream';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { CopyButton, ErrorNote } from '../ui/parts';
import { Attachments } from './Attachments';
import { type BranchPoint, useBranching } from './branches';
import { MessageText } from './MessageText';
import { Versions } from './Versions';

export const UserMessage = memo(function UserMessage({
  message,
  runId,
  point,
}: {
  message: Message;
  /** The run that answers it. */
  runId: string | undefined;
  /** Its versions, if there are several. */
  point: BranchPoint | undefined;
}) {
  const [isEdited, setEdited] = useState(false);
  const isLeft = useRef(false);
  return (
    <article className="mine" aria-label={t('You')}>
      {isEdited && runId ? (
        <Edit
          runId={runId}
          words={message.content}
          onClose={() => {
            isLeft.current = true;
            setEdited(false);
          }}
        />
      ) : (
        <>
          <MessageText content={message.content} />
          <Attachments files={message.attachments ?? []} />
          <div className={point ? 'row-actions shown' : 'row-actions'}>
            {point ? <Versions point={point} /> : null}
            <CopyButton text={() => message.content} of={t('your message')} />
            {runId ? (
              <IconButton
                icon={Pencil}
                label={t('Edit')}
                // The form that was left had the focus.
                autoFocus={isLeft.current}
                onClick={() => setEdited(true)}
              />
            ) : null}
          </div>
        </>
      )}
    </article>
  );
});

function Edit({ runId, words, onClose }: { runId: string; words: string; onClose: () => void }) {
  const branch = useBranching();
  const [isSending, setSending] = useState(false);
  const [text, setText] = useState(words);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setError(null);
    setSending(true);
    try {
      await branch(runId, { message: text });
    } catch (refusal) {
      setError(refusal);
      setSending(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <textarea
        aria-label={t('Edit message')}
        rows={3}
        cols={50}
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape' && !event.nativeEvent.isComposing) onClose();
        }}
      />
      {error ? <ErrorNote error={error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={text.trim() === '' || isSending}>
          {t('Send as new branch')}
        </button>
        <button type="button" onClick={onClose}>
          {t('Cancel')}
        </button>
      </div>
    </form>
  );
}
