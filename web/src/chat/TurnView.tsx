// Shows one turn of an agent: its streaming text, tool calls, sub-agents, questions, sources and outcome.
import { Link } from '@tanstack/react-router';
import { Bot, Play, RefreshCw, Wrench } from 'lucide-react';
import { Fragment, memo, type ReactNode, useEffect, useRef, useState } from 'react';
import type { Part, ToolCall, Turn } from '../stream';
import { number, rich, t } from '../ui/language';
import { CopyButton, duration, Folded, Payload, State } from '../ui/parts';
import { Attachments } from './Attachments';
import { DagProgress, MAKES_TASKS } from './DagProgress';
import { Feedback } from './Feedback';
import { LazyQuestionForm } from './LazyQuestionForm';
import { Markdown } from './Markdown';
import { Operations } from './Operations';
import { asksAbout, isStepOf, MAKES_PLAN, PlanTimeline, usePlan } from './PlanTimeline';
import { Regenerate } from './Regenerate';
import type { Rating } from './ratings';
import { Silence } from './Silence';
import { Found, Sources } from './Sources';
import { STRETCH, Stretches } from './stretches';
import { ToEvaluationSet } from './ToEvaluationSet';
import { filesIn } from './uploads';

const OVER = ['completed', 'failed', 'cancelled', 'paused'];
/** Turns that ended so can be asked for again in a branch. */
const REPEATED = ['completed', 'failed', 'cancelled'];
/** So far before it is in sight, what a turn leaves out is fetched. */
const MARGIN = '100%';
/** Number of parts at the end of a turn that are rendered first. */
const NEAR_PARTS = 12;

interface Props {
  turn: Turn;
  /** The turn is among the last of the conversation, which are rendered first. */
  isNear?: boolean;
  /** Fetches the calls of a turn that ended before this page came. */
  onComplete?: (runId: string) => Promise<void>;
  /** Asks the same again; only where that may help. */
  onRetry?: ((turn: Turn) => void) | undefined;
  /** Lets a paused turn go on. */
  onContinue?: ((runId: string) => void) | undefined;
  /** It answers a message of the conversation, not the task of another agent. */
  isAnswer?: boolean;
  /** What the user has said about it. */
  rating?: Rating | undefined;
  /** Takes a message back that waits for its turn. */
  onTakeBack?: ((runId: string) => void) | undefined;
}

export const TurnView = memo(function TurnView({
  turn,
  isNear = true,
  onComplete,
  onRetry,
  onContinue,
  isAnswer = false,
  rating,
  onTakeBack,
}: Props) {
  const isOver = OVER.includes(turn.status);
  const place = useRef<HTMLElement>(null);
  const { partial, runId } = turn;
  const plan = usePlan(turn, isOver);
  const aboutPlan = plan && turn.questions.findLast((question) => asksAbout(plan, question));
  const steps = plan ? turn.agents.filter((one) => isStepOf(plan, one)) : [];
  useEffect(() => {
    if (!partial || !onComplete || !place.current) return;
    const watch = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && void onComplete(runId), {
      rootMargin: MARGIN,
    });
    watch.observe(place.current);
    return () => watch.disconnect();
  }, [partial, runId, onComplete]);
  return (
    <article ref={place} className="turn" aria-label={turn.agent ?? t('Answer')} aria-busy={!isOver}>
      <header>
        <Bot className="icon" />
        <b dir="auto">{turn.agent ?? t('Answer')}</b>{' '}
        <span dir="auto" className="quiet">
          {turn.model ?? ''}
        </span>{' '}
        {turn.status === 'completed' ? null : <State state={turn.status} />}
      </header>
      <Parts
        parts={turn.parts.filter((part) => part.type !== 'agent' || !steps.includes(part.turn))}
        runId={runId}
        isGrowing={turn.status === 'running'}
        isNear={isNear}
        plan={
          plan ? (
            <PlanTimeline plan={plan} runs={steps} question={aboutPlan}>
              {(run) => <Within key={run.id} turn={run} />}
            </PlanTimeline>
          ) : null
        }
      />
      <Operations operations={turn.operations} />
      {isOver ? <Sources text={turn.text} /> : null}
      <Found citations={turn.citations} />
      {turn.questions
        .filter((question) => question !== aboutPlan)
        .map((question) => (
          <LazyQuestionForm key={question.questionId} question={question} />
        ))}
      {turn.notices.map((notice, nth) => (
        <p key={nth} className="notice" dir="auto">
          {notice.text}
        </p>
      ))}
      {turn.limits.map((limit, nth) => (
        <p key={nth} className="notice" dir="auto">
          {limit.message}
        </p>
      ))}
      {turn.errors
        // A limit that ends a run is also its error: it is shown once.
        .filter((error) => !turn.limits.some((limit) => limit.message === error.error))
        .map((error, nth) => (
          <p key={nth} className={turn.status === 'paused' ? 'notice' : 'note bad'} dir="auto">
            {error.error} <code>{error.code}</code>
          </p>
        ))}
      {turn.details && turn.details.length > 0 ? <Details details={turn.details} /> : null}
      <footer>
        {isOver ? (
          <CopyButton text={() => turn.text} of={t('the answer')} />
        ) : (
          <>
            <span className="pulse" aria-hidden="true" />
            <Silence turn={turn} />
          </>
        )}
        {turn.message && turn.status === 'completed' ? <Feedback messageId={turn.message.id} given={rating} /> : null}
        {isAnswer && REPEATED.includes(turn.status) ? <Regenerate runId={runId} /> : null}
        {isAnswer && turn.status === 'completed' ? <ToEvaluationSet runId={runId} /> : null}
        {onContinue ? (
          <button type="button" className="small" onClick={() => onContinue(runId)}>
            <Play className="icon" /> {t('Continue')}
          </button>
        ) : null}
        {onRetry ? (
          <button type="button" className="small" onClick={() => onRetry(turn)}>
            <RefreshCw className="icon" /> {t('Retry')}
          </button>
        ) : null}
        {onTakeBack && turn.status === 'queued' ? (
          <button type="button" className="small" onClick={() => onTakeBack(runId)}>
            {t('Cancel message')}
          </button>
        ) : null}
        <TraceLink runId={runId} />
        {turn.usage ? <Used turn={turn} /> : null}
      </footer>
    </article>
  );
});

/** Memoised, as links of the router are costly to render. */
const TraceLink = memo(function TraceLink({ runId }: { runId: string }) {
  return (
    <Link to="/runs/$id" params={{ id: runId }} className="trace quiet">
      {t('View trace')}
    </Link>
  );
});

/** Details from a development server about how an answer came about. */
function Details({ details }: { details: NonNullable<Turn['details']> }) {
  return (
    <Folded label={<span className="quiet">{t('Details')}</span>}>
      {() =>
        details.map(({ type, value }, nth) => (
          <section key={nth} aria-label={DETAILS[type]}>
            <h4>{DETAILS[type]}</h4>
            <Payload value={value} />
          </section>
        ))
      }
    </Folded>
  );
}

/** Costs are often less than a cent. */
const DOLLARS = {
  style: 'currency',
  currency: 'USD',
  currencyDisplay: 'narrowSymbol',
  minimumFractionDigits: 4,
  maximumFractionDigits: 4,
  useGrouping: false,
} as const;

const DETAILS = { telemetry: t('Request routing'), debug_context: t('Model input') };

function Used({ turn }: { turn: Turn }) {
  const { totalTokens, costUsd } = turn.usage ?? {};
  return (
    <span className="quiet">
      {totalTokens ? t('{count, plural, one {# token} other {# tokens}}', { count: totalTokens }) : ''}
      {costUsd ? ` · ${number(costUsd, DOLLARS)}` : ''}
    </span>
  );
}

/** A run that a turn has started, within it. */
function Within({ turn }: { turn: Turn }) {
  return (
    <details className="sub" open={!OVER.includes(turn.status)}>
      <summary>
        <b dir="auto">{turn.agent ?? t('Sub-agent')}</b> <State state={turn.status} />{' '}
        <span dir="auto" className="quiet">
          {turn.task?.slice(0, 120)}
        </span>
      </summary>
      <TurnView turn={turn} />
    </details>
  );
}

interface PartsProps {
  parts: readonly Part[];
  runId: string;
  isGrowing: boolean;
  isNear: boolean;
  /** The turn's plan, beside the call that made it. */
  plan: ReactNode;
}

/** What a turn consists of, in stretches: those far from sight are not laid out, and those that have not changed not rendered again. */
function Parts({ parts, runId, isGrowing, isNear, plan }: PartsProps) {
  const [stretches] = useState(() => new Stretches<Part>());
  const planAt = plan ? parts.findLastIndex((part) => part.type === 'tool' && part.tool === MAKES_PLAN) : -1;
  const nearFrom = isNear ? parts.length - NEAR_PARTS : parts.length;
  return stretches.of(parts).map((stretch, at) => {
    const begin = at * STRETCH;
    const hasPlan = planAt >= begin && planAt < begin + stretch.length;
    return (
      <Stretch
        key={at}
        parts={stretch}
        runId={runId}
        isGrowing={isGrowing && begin + stretch.length === parts.length}
        nearFrom={Math.min(Math.max(0, nearFrom - begin), STRETCH)}
        planAt={hasPlan ? planAt - begin : -1}
        plan={hasPlan ? plan : null}
      />
    );
  });
}

interface StretchProps extends Pick<PartsProps, 'parts' | 'runId' | 'plan'> {
  /** Its last part is still growing. */
  isGrowing: boolean;
  /** The first part that is rendered first. */
  nearFrom: number;
  /** The part beside which the plan is; -1: none. */
  planAt: number;
}

const Stretch = memo(function Stretch({ parts, runId, isGrowing, nearFrom, planAt, plan }: StretchProps) {
  return (
    <div className="stretch">
      {parts.map((part, nth) => (
        <Fragment key={nth}>
          <OnePart part={part} runId={runId} isLive={isGrowing && nth === parts.length - 1} isNear={nth >= nearFrom} />
          {nth === planAt ? plan : null}
        </Fragment>
      ))}
    </div>
  );
});

const OnePart = memo(function OnePart({
  part,
  runId,
  isLive,
  isNear,
}: {
  part: Part;
  runId: string;
  isLive: boolean;
  isNear: boolean;
}) {
  switch (part.type) {
    case 'text':
      return <Markdown text={part.text} isLive={isLive} isNear={isNear} />;
    case 'reasoning':
      return (
        <Folded className="reasons" label={<span className="quiet">{t('Reasoning')}</span>}>
          {() => (
            <p dir="auto" className="reasoning">
              {part.text}
            </p>
          )}
        </Folded>
      );
    case 'tool':
      return (
        <>
          <Call call={part} />
          {part.tool === MAKES_TASKS ? <DagProgress call={part} runId={runId} /> : null}
        </>
      );
    case 'agent':
      return <Within turn={part.turn} />;
    case 'handoff':
      return (
        <p className="notice handoff">
          <Handoff from={part.from} to={part.to} reason={part.reason} />
        </p>
      );
    case 'message':
      return (
        <p dir="auto" className="told">
          {part.message.content}
        </p>
      );
  }
});

function Handoff({ from, to, reason }: { from: string; to: string; reason: string | undefined }) {
  const agents = { from: <b dir="auto">{from}</b>, to: <b dir="auto">{to}</b> };
  return reason
    ? rich('Handed off from {from} to {to}: {reason}', { ...agents, reason })
    : rich('Handed off from {from} to {to}.', agents);
}

function Call({ call }: { call: ToolCall }) {
  return (
    <Folded
      className={`tool-call ${call.status}`}
      label={
        <>
          <Wrench className="icon" />
          <code>{call.tool}</code> <State state={call.status} />{' '}
          <span className="quiet">{duration(call.durationMs)}</span>
        </>
      }
    >
      {() => (
        <>
          <h4>{t('Arguments')}</h4>
          <Payload value={call.input} />
          {call.error ? (
            <p dir="auto" className="note bad">
              {call.error}
            </p>
          ) : call.status === 'running' ? null : (
            <>
              <h4>{t('Result')}</h4>
              <Attachments files={filesIn(call.output)} />
              <Payload value={call.output} />
            </>
          )}
        </>
      )}
    </Folded>
  );
}
