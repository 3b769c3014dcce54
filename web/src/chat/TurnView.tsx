// One turn of an agent: its words as they come, its calls, those that it has started, what it asks, and what became of it.
import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import type { Part, ToolCall, Turn } from '../stream';
import { CopyButton, duration, Folded, Payload, State } from '../ui/parts';
import { Markdown } from './Markdown';
import { QuestionForm } from './QuestionForm';

const OVER = ['completed', 'failed', 'cancelled', 'paused'];

export const TurnView = memo(function TurnView({ turn }: { turn: Turn }) {
  const isOver = OVER.includes(turn.status);
  return (
    <article className="turn" aria-label={turn.agent ?? 'Answer'} aria-busy={!isOver}>
      <header>
        <b>{turn.agent ?? 'Answer'}</b> <span className="quiet">{turn.model ?? ''}</span>{' '}
        {turn.status === 'completed' ? null : <State state={turn.status} />}
      </header>
      <Parts parts={turn.parts} isOver={isOver} />
      {turn.questions.map((question) => (
        <QuestionForm key={question.questionId} question={question} />
      ))}
      {turn.notices.map((notice, nth) => (
        <p key={nth} className="notice">
          {notice.text}
        </p>
      ))}
      {turn.limits.map((limit, nth) => (
        <p key={nth} className="notice">
          {limit.message}
        </p>
      ))}
      {turn.errors.map((error, nth) => (
        <p key={nth} className="note bad">
          {error.error} <code>{error.code}</code>
        </p>
      ))}
      <footer>
        {isOver ? <CopyButton text={() => turn.text} /> : <span className="pulse" aria-hidden="true" />}
        <Link to="/runs/$id" params={{ id: turn.runId }} className="quiet">
          run
        </Link>
        {turn.usage ? <Used turn={turn} /> : null}
      </footer>
    </article>
  );
});

function Used({ turn }: { turn: Turn }) {
  const { totalTokens, costUsd } = turn.usage ?? {};
  return (
    <span className="quiet">
      {totalTokens ? `${totalTokens.toLocaleString('en')} tokens` : ''}
      {costUsd ? ` · $${costUsd.toFixed(4)}` : ''}
    </span>
  );
}

function Parts({ parts, isOver }: { parts: readonly Part[]; isOver: boolean }) {
  return parts.map((part, nth) => {
    switch (part.type) {
      case 'text':
        return <Markdown key={nth} text={part.text} isLive={!isOver && nth === parts.length - 1} />;
      case 'reasoning':
        return (
          <Folded key={nth} label={<span className="quiet">Reasoning</span>}>
            {() => <p className="reasoning">{part.text}</p>}
          </Folded>
        );
      case 'tool':
        return <Call key={part.callId} call={part} />;
      case 'agent':
        return (
          <details key={part.turn.id} className="sub" open={!OVER.includes(part.turn.status)}>
            <summary>
              <b>{part.turn.agent ?? 'sub-agent'}</b> <State state={part.turn.status} />{' '}
              <span className="quiet">{part.turn.task?.slice(0, 120)}</span>
            </summary>
            <TurnView turn={part.turn} />
          </details>
        );
      case 'message':
        return (
          <p key={part.message.id} className="told">
            {part.message.content}
          </p>
        );
    }
  });
}

function Call({ call }: { call: ToolCall }) {
  return (
    <Folded
      label={
        <>
          <code>{call.tool}</code> <State state={call.status} /> <span className="quiet">{duration(call.durationMs)}</span>
        </>
      }
    >
      {() => (
        <>
          <h4>Arguments</h4>
          <Payload value={call.input} />
          {call.error ? (
            <p className="note bad">{call.error}</p>
          ) : call.status === 'running' ? null : (
            <>
              <h4>Result</h4>
              <Payload value={call.output} />
            </>
          )}
        </>
      )}
    </Folded>
  );
}
