// The user's feedback about an agent's answers, with their runs, and its export.
import { Link } from '@tanstack/react-router';
import { Download, ThumbsUp } from 'lucide-react';
import { useState } from 'react';
import { query, type Schemas } from '../../api/http';
import { More, usePages } from '../../api/pages';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { Ago, Folded, Payload, State, Waiting } from '../../ui/parts';
import type { Definition } from './draft';

type Feedback = Schemas['Feedback'];

const RATINGS = [
  ['false', 'Not helpful'],
  ['true', 'Helpful'],
  ['', 'All'],
] as const;

export function FeedbackList({ definition }: { definition: Definition }) {
  const [helped, setHelped] = useState<string>('false');
  const [label, setLabel] = useState('');
  const filter = {
    agentDefinitionId: definition.id,
    helped: helped || undefined,
    label: label.trim() || undefined,
  };
  const feedback = usePages<Feedback>(['feedback', filter], '/api/feedback', { narrowedBy: filter });
  return (
    <section aria-label={`Feedback on ${definition.name}`}>
      <p className="quiet">Your feedback on this agent&apos;s answers. Other members&apos; feedback is not shown.</p>
      <div className="search">
        <label>
          Rating{' '}
          <select value={helped} onChange={(event) => setHelped(event.target.value)}>
            {RATINGS.map(([value, name]) => (
              <option key={name} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <input
          aria-label="Label"
          placeholder="Label"
          value={label}
          onChange={(event) => setLabel(event.target.value)}
        />
        <a href={`/api/feedback/export${query(filter)}`} download="feedback.ndjson" className="button">
          <Download className="icon" /> Export as NDJSON
        </a>
      </div>
      {feedback.reading.isPending ? <Waiting what="feedback" /> : null}
      {feedback.reading.isError ? <Failed reading={feedback.reading} /> : null}
      {feedback.reading.isSuccess && feedback.items.length === 0 ? (
        <Empty icon={ThumbsUp} title="No feedback matches">
          Answers are rated below them, in the chat.
        </Empty>
      ) : null}
      <ol className="records">
        {feedback.items.map((one) => (
          <Rated key={one.messageId} feedback={one} />
        ))}
      </ol>
      <More of={feedback} />
    </section>
  );
}

function Rated({ feedback }: { feedback: Feedback }) {
  const { helped, comment, labels, question, answer, agentVersion, model, runId, conversationId, updatedAt } = feedback;
  return (
    <li>
      <p className="one-line">
        <b>{question ?? 'A message that was removed'}</b>
      </p>
      <p className="rated">
        <State state={helped ? 'helpful' : 'not helpful'} />
        {labels.map((label) => (
          <span key={label} className="badge">
            {label}
          </span>
        ))}
        <span className="quiet">
          <Ago at={updatedAt} />
          {agentVersion ? `, version ${agentVersion}` : ''}
          {model ? `, ${model}` : ''}
        </span>
        {runId ? (
          <Link to="/runs/$id" params={{ id: runId }}>
            Open run
          </Link>
        ) : null}
        <Link to="/c/$id" params={{ id: conversationId }}>
          Open chat
        </Link>
      </p>
      {comment ? <p>{comment}</p> : null}
      <Folded label="Answer">{() => <Payload value={answer} />}</Folded>
    </li>
  );
}
