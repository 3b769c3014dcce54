// The user's feedback about an agent's answers, with their runs, and its export.
import { Link } from '@tanstack/react-router';
import { Download, ThumbsUp } from 'lucide-react';
import { useState } from 'react';
import { query, type Schemas } from '../../api/http';
import { More, usePages } from '../../api/pages';
import { Empty } from '../../ui/Empty';
import { Failed } from '../../ui/Failed';
import { message, rich, t } from '../../ui/language';
import { Ago, Folded, Payload, State, Waiting } from '../../ui/parts';
import type { Definition } from './draft';

type Feedback = Schemas['Feedback'];

const RATINGS = [
  ['false', message('Not helpful')],
  ['true', message('Helpful')],
  ['', message('All')],
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
    <section aria-label={t('Feedback on {name}', { name: definition.name })}>
      <p className="quiet">{t("Your feedback on this agent's answers. Other members' feedback is not shown.")}</p>
      <div className="search">
        <label>
          {t('Rating')}{' '}
          <select value={helped} onChange={(event) => setHelped(event.target.value)}>
            {RATINGS.map(([value, name]) => (
              <option key={name} value={value}>
                {t(name)}
              </option>
            ))}
          </select>
        </label>
        <input
          aria-label={t('Label')}
          placeholder={t('Label')}
          value={label}
          onChange={(event) => setLabel(event.target.value)}
        />
        <a href={`/api/feedback/export${query(filter)}`} download="feedback.ndjson" className="button">
          <Download className="icon" /> {t('Export as NDJSON')}
        </a>
      </div>
      {feedback.reading.isPending ? <Waiting what={t('feedback')} /> : null}
      {feedback.reading.isError ? <Failed reading={feedback.reading} /> : null}
      {feedback.reading.isSuccess && feedback.items.length === 0 ? (
        <Empty icon={ThumbsUp} title={t('No feedback matches')}>
          {t('Answers are rated below them, in the chat.')}
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
  const origin = agentVersion
    ? message(model ? '{when}, version {version}, {model}' : '{when}, version {version}')
    : message(model ? '{when}, {model}' : '{when}');
  return (
    <li>
      <p dir="auto" className="one-line">
        <b>{question ?? t('A message that was removed')}</b>
      </p>
      <p className="rated">
        <State state={helped ? 'helpful' : 'not helpful'} />
        {labels.map((label) => (
          <span key={label} dir="auto" className="badge">
            {label}
          </span>
        ))}
        <span className="quiet">
          {rich(origin, { when: <Ago at={updatedAt} />, version: agentVersion ? String(agentVersion) : '', model })}
        </span>
        {runId ? (
          <Link to="/runs/$id" params={{ id: runId }}>
            {t('Open run')}
          </Link>
        ) : null}
        <Link to="/c/$id" params={{ id: conversationId }}>
          {t('Open chat')}
        </Link>
      </p>
      {comment ? <p dir="auto">{comment}</p> : null}
      <Folded label={t('Answer')}>{() => <Payload value={answer} />}</Folded>
    </li>
  );
}
