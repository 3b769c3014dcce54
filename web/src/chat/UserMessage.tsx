// Shows a user message. Editing it starts a branch: a new conversation based on the messages before it.
import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Pencil } from 'lucide-react';
import { type FormEvent, memo, useState } from 'react';
import { client, type Message } from '../stream';
import { IconButton } from '../ui/Button';
import { CopyButton, ErrorNote } from '../ui/parts';
import { Attachments } from './Attachments';
import { MessageText } from './MessageText';

export const UserMessage = memo(function UserMessage({
  message,
  runId,
}: {
  message: Message;
  runId: string | undefined;
}) {
  const [isEdited, setEdited] = useState(false);
  return (
    <article className="mine" aria-label="You">
      {isEdited && runId ? (
        <Edit runId={runId} words={message.content} onClose={() => setEdited(false)} />
      ) : (
        <>
          <MessageText content={message.content} />
          <Attachments files={message.attachments ?? []} />
          <div className="row-actions">
            <CopyButton text={() => message.content} of="your message" />
            {runId ? <IconButton icon={Pencil} label="Edit" onClick={() => setEdited(true)} /> : null}
          </div>
        </>
      )}
    </article>
  );
});

function Edit({ runId, words, onClose }: { runId: string; words: string; onClose: () => void }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [text, setText] = useState(words);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      const fork = await client.fork(runId, { step: 0, message: text });
      const { conversationId } = await client.runs.get(fork.runId);
      onClose();
      if (conversationId) await navigate({ to: '/c/$id', params: { id: conversationId } });
      await queries.invalidateQueries({ queryKey: ['conversations'] });
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <textarea
        aria-label="Edit message"
        rows={3}
        cols={50}
        autoFocus
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {error ? <ErrorNote error={error} /> : null}
      <div className="controls">
        <button type="submit" className="primary" disabled={text.trim() === ''}>
          Send as new branch
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </form>
  );
}
