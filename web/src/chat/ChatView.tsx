// A conversation: what was said, what is being said, and where the next words go.
import { useNavigate } from '@tanstack/react-router';
import { useQueryClient } from '@tanstack/react-query';
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { type Attached, useConsoles } from '../consoles/consoles';
import { client, type Item, useTranscript } from '../stream';
import { ErrorNote } from '../ui/parts';
import { About } from './About';
import { Composer } from './Composer';
import { Conversations } from './Conversations';
import { useSeen } from './seen';
import { TurnView } from './TurnView';
import { UserMessage } from './UserMessage';

const Pane = lazy(() => import('../consoles/Pane'));

export function ChatView({ conversationId }: { conversationId: string | null }) {
  const [listed, setListed] = useState(false);
  return (
    <div className={listed ? 'chat listed' : 'chat'}>
      <button type="button" className="plain small toggle" aria-expanded={listed} onClick={() => setListed(!listed)}>
        Conversations
      </button>
      <Conversations current={conversationId} />
      {conversationId === null ? <Begin /> : <Conversation id={conversationId} />}
    </div>
  );
}

/** The first words of a conversation that is not there yet. */
function Begin() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [error, setError] = useState<unknown>(null);
  return (
    <main id="main" className="talk empty">
      <div className="hello">
        <h1>What would you like to know?</h1>
        <p className="quiet">The answer goes on when you leave, and is here when you come back.</p>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      <Composer
        chooseAgent
        onSend={async (message, agentDefinitionId) => {
          try {
            const sent = await client.send({ message, agentDefinitionId });
            await navigate({ to: '/c/$id', params: { id: sent.conversationId } });
            void queries.invalidateQueries({ queryKey: ['conversations'] });
          } catch (refusal) {
            setError(refusal);
            throw refusal;
          }
        }}
      />
    </main>
  );
}

/** A conversation with its consoles beside it. They are loaded when there are some, or somebody wants one. */
function Conversation({ id }: { id: string }) {
  const consoles = useConsoles(id);
  const [isWanted, setWanted] = useState(false);
  // Folded away, it still says where agents work.
  const pinned = consoles.open.find((doc) => doc.id === consoles.pinned) ?? consoles.closed.find((doc) => doc.id === consoles.pinned);
  const isShown = isWanted || (consoles.open.length > 0 && !consoles.isFolded);
  const fold = (isFolded: boolean) => {
    setWanted(!isFolded);
    consoles.fold(isFolded);
  };
  return (
    <div className={isShown ? 'with-consoles' : 'alone'}>
      <Talk id={id} attached={consoles.attached}>
        <button type="button" className="plain small consoles-toggle" aria-expanded={isShown} onClick={() => fold(isShown)}>
          Consoles{consoles.open.length > 0 ? ` (${consoles.open.length})` : ''}
          {pinned && !isShown ? <span className="quiet"> ◆ {pinned.about.title}</span> : null}
        </button>
      </Talk>
      {isShown ? (
        <Suspense fallback={<p className="note quiet">Loading the consoles…</p>}>
          <Pane consoles={consoles} onFold={() => fold(true)} />
        </Suspense>
      ) : null}
    </div>
  );
}

/** Turns that ended so may be asked for again. */
const RETRIED = ['failed', 'cancelled'];
/** So many items at the end of a conversation are where somebody looks first. */
const NEAR_ITEMS = 6;
/** How far from the end still counts as the end [px]. */
const NEAR = 80;

interface TalkProps {
  id: string;
  /** What goes along with a message. */
  attached: () => Promise<{ consoles?: Attached[]; consoleId?: string }>;
  children: ReactNode;
}

function Talk({ id, attached, children }: TalkProps) {
  const { view, status, error, complete } = useTranscript(id);
  const [refused, setRefused] = useState<unknown>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const active = view.active;
  // The agent that answers now, or answered last: a handoff changes it.
  const current = view.turns.findLast((turn) => turn.agent)?.agent;
  // Which run answers which message.
  const answers = useMemo(() => new Map(view.turns.map((turn) => [turn.messageId, turn.runId])), [view.turns]);
  // The end stays in sight, unless somebody has scrolled away from it.
  useEffect(() => {
    const element = scroller.current;
    if (!element?.firstElementChild) return;
    const watch = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    watch.observe(element.firstElementChild);
    return () => watch.disconnect();
  }, []);
  useSeen(id, view.messages.at(-1)?.createdAt);
  const attempt = useCallback(async (act: () => Promise<unknown>) => {
    try {
      setRefused(null);
      await act();
    } catch (refusal) {
      setRefused(refusal);
      throw refusal;
    }
  }, []);
  // The same words again. They stay in the conversation twice, as they were said.
  const last = view.turns.at(-1);
  const asked = RETRIED.includes(last?.status ?? '') ? view.messages.find((message) => message.id === last?.messageId) : undefined;
  const retry = useCallback(() => {
    if (!asked) return;
    follows.current = true;
    attempt(async () => client.send({ message: asked.content, conversationId: id, ...(await attached()) })).catch(() => {});
  }, [asked, attached, attempt, id]);
  const takeBack = useCallback((runId: string) => void attempt(() => client.cancel(runId)).catch(() => {}), [attempt]);
  const entry = (item: Item, nth: number) =>
    item.type === 'message' ? (
      <UserMessage message={item.message} runId={item.message.runId ?? answers.get(item.message.id)} />
    ) : (
      <TurnView
        turn={item.turn}
        isNear={view.items.length - nth <= NEAR_ITEMS}
        onComplete={complete}
        onRetry={asked && item.turn === last ? retry : undefined}
        onTakeBack={item.turn === active ? undefined : takeBack}
      />
    );
  return (
    <main id="main" className="talk">
      <div className="head">
        <span className="quiet">{current ? `with ${current}` : ''}</span>
        {children}
      </div>
      <div
        ref={scroller}
        className="said"
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          follows.current = scrollHeight - scrollTop - clientHeight < NEAR;
        }}
      >
        <ol className="items">
          {view.items.map((item, nth) => (
            <li key={keyOf(item)}>{entry(item, nth)}</li>
          ))}
        </ol>
      </div>
      <Connection status={status} />
      {error ? <ErrorNote error={error} /> : null}
      {refused ? <ErrorNote error={refused} /> : null}
      <Composer
        about={<About id={id} view={view} />}
        isBusy={active !== undefined}
        onStop={active ? () => attempt(() => client.cancel(active.runId)) : undefined}
        onTell={active ? (words) => attempt(() => client.tell(active.runId, words)) : undefined}
        onSend={(message) => {
          follows.current = true;
          return attempt(async () => client.send({ message, conversationId: id, ...(await attached()) }));
        }}
      />
    </main>
  );
}

function keyOf(item: Item): string {
  return item.type === 'message' ? item.message.id : item.turn.id;
}

/** Quiet while all is well. */
function Connection({ status }: { status: string }) {
  const words = {
    connecting: 'Connecting…',
    paused: 'Paused while this page is hidden.',
    offline: 'You are offline. What is answered meanwhile will be here.',
  }[status];
  return (
    <p className="connection" role="status" aria-live="polite">
      {words ?? ''}
    </p>
  );
}
