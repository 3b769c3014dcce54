// Tests the saved version of an agent in a new conversation next to its editor.
import { Link } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { TurnView } from '../chat/TurnView';
import { client, useTranscript } from '../stream';
import { ErrorNote } from '../ui/parts';

export function TestRun({ agentId }: { agentId: string }) {
  const [conversation, setConversation] = useState<string | null>(null);
  const [words, setWords] = useState('');
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      setError(null);
      // Each test is a new conversation, so that earlier tests do not affect it.
      const { conversationId } = await client.send({ message: words, agentDefinitionId: agentId });
      setConversation(conversationId);
    } catch (refusal) {
      setError(refusal);
    }
  };
  return (
    <section className="trial" aria-label="Try it">
      <h2>Try it</h2>
      <form onSubmit={(event) => void submit(event)}>
        <textarea
          aria-label="Test message"
          rows={3}
          value={words}
          required
          placeholder="Ask the saved version of this agent"
          onChange={(event) => setWords(event.target.value)}
        />
        <div className="controls">
          <button type="submit" disabled={words.trim() === ''}>
            {conversation === null ? 'Ask' : 'Ask again'}
          </button>
          {conversation === null ? null : (
            <Link to="/c/$id" params={{ id: conversation }} className="quiet">
              Open in chat
            </Link>
          )}
        </div>
      </form>
      {error ? <ErrorNote error={error} /> : null}
      {conversation === null ? null : <Answer key={conversation} id={conversation} />}
    </section>
  );
}

function Answer({ id }: { id: string }) {
  const { view, error, complete } = useTranscript(id);
  return (
    <>
      {error ? <ErrorNote error={error} /> : null}
      {view.turns.map((turn) => (
        <TurnView key={turn.id} turn={turn} onComplete={complete} />
      ))}
    </>
  );
}
