// Shows a conversation: its messages, the answer that is streaming, and the message field.
import { Navigate, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { ArrowDown, SquareTerminal } from 'lucide-react';
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { useMe } from '../api/me';
import { useOffline } from '../api/offline';
import { useConsoles } from '../consoles/consoles';
import { client, type Item, type Turn, useTranscript } from '../stream';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { NotFound } from '../ui/NotFound';
import { ErrorNote } from '../ui/parts';
import { useTitle } from '../ui/title';
import { About, usePrewarmed, useStored } from './About';
import { Announcements, ENDS } from './Announcements';
import { Basis } from './Basis';
import { answersOf, useBranches } from './branches';
import { type Chosen, Composer } from './Composer';
import { moveModel } from './chosenModel';
import { moveDraft } from './draft';
import { Earlier, NotHere, SNAPSHOT_MESSAGES } from './Earlier';
import { Head } from './Head';
import { forgetChat, useKeeping, useKept } from './kept';
import { holds, linkedAs, useLinked } from './linked';
import { NotifyOffer } from './NotifyOffer';
import { notify } from './notifications';
import { type Along, outbox, useUnsent } from './outbox';
import { conversationOf } from './places';
import { useRatings } from './ratings';
import { useSeen } from './seen';
import { TurnView } from './TurnView';
import { shownTitle } from './titles';
import { UnsentMessages } from './UnsentMessages';
import { UserMessage } from './UserMessage';
import type { StoredFile } from './uploads';
import { useAgentChange } from './useAgentChange';
import { useFreshTitle } from './useFreshTitle';
import { useReady } from './useReady';

const Pane = lazyPart(async () => (await import('../consoles/Pane')).default, t('the consoles'));

/** The view of a conversation's address. */
export function ChatView() {
  const { id } = useParams({ from: '/c/$id' });
  const { message } = useSearch({ from: '/c/$id' });
  return <Conversation key={id} id={id} message={message} />;
}

/** The view of a conversation that is not there yet. */
export function NewChatView() {
  const { place } = useParams({ from: '/new/$place' });
  return <NewTalk key={place} place={place} />;
}

/** A conversation whose first message is not sent yet. */
function NewTalk({ place }: { place: string }) {
  const unsent = useUnsent(place);
  const conversation = conversationOf(place);
  const navigate = useNavigate();
  useTitle(t('New chat'));
  useEffect(() => {
    if (conversation === undefined) return;
    moveDraft(place, conversation);
    moveModel(place, conversation);
    void navigate({ to: '/c/$id', params: { id: conversation }, replace: true });
  }, [conversation, place, navigate]);
  // Deleted: there is nothing here.
  if (unsent.length === 0 && conversation === undefined) return <Navigate to="/" replace />;
  return (
    <main id="main" className="talk">
      <div className="head">
        <h1>{t('New chat')}</h1>
      </div>
      <div className="said">
        <ol className="items">
          <UnsentMessages unsent={unsent} />
        </ol>
      </div>
      <Composer
        draft={place}
        isBusy
        onSend={(message, attachments, { model }) => outbox.add({ place, message, attachments, model })}
      />
    </main>
  );
}

/** A conversation with its consoles. The pane is loaded when there are consoles, or when the user opens it. */
function Conversation({ id, message }: { id: string; message: string | undefined }) {
  const consoles = useConsoles(id);
  const [isWanted, setWanted] = useState(false);
  // Folded away, it still says where agents work.
  const pinned =
    consoles.open.find((doc) => doc.id === consoles.pinned) ??
    consoles.closed.find((doc) => doc.id === consoles.pinned);
  const isShown = isWanted || (consoles.open.length > 0 && !consoles.isFolded);
  const fold = (isFolded: boolean) => {
    setWanted(!isFolded);
    consoles.fold(isFolded);
  };
  return (
    <div className={isShown ? 'with-consoles' : 'alone'}>
      <Talk id={id} message={message} attached={consoles.attached}>
        <button
          type="button"
          className="plain small consoles-toggle"
          aria-expanded={isShown}
          onClick={() => fold(isShown)}
        >
          <SquareTerminal className="icon" />
          {consoles.open.length > 0 ? t('Consoles ({count})', { count: consoles.open.length }) : t('Consoles')}
          {pinned && !isShown ? <span className="quiet"> ◆ {pinned.about.title}</span> : null}
        </button>
      </Talk>
      {isShown ? <Pane consoles={consoles} onFold={() => fold(true)} /> : null}
    </div>
  );
}

const focusField = () => document.getElementById('words')?.focus();

/** Turns that ended so may be asked for again. */
const RETRIED = ['failed', 'cancelled'];
/** How an answer ended that the user has not seen yet, in the title of the page. */
const ENDED: Partial<Record<Turn['status'], string>> = {
  completed: t('Answer ready'),
  failed: t('Answer failed'),
  cancelled: t('Answer stopped'),
  paused: t('Answer paused'),
};
/** Number of items at the end of a conversation that are rendered first. */
const NEAR_ITEMS = 6;
/** How far from the end still counts as the end [px]. */
const NEAR = 80;

interface TalkProps {
  id: string;
  /** The message that the address names. */
  message: string | undefined;
  /** What goes along with a message. */
  attached: () => Promise<Along>;
  children: ReactNode;
}

function Talk({ id, message: linked, attached, children }: TalkProps) {
  const { view: live, status, error, complete } = useTranscript(id);
  const view = useKept(id, live, status);
  const isOffline = useOffline();
  const [refused, setRefused] = useState<unknown>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const active = view.active;
  /** The last event when the end of the conversation went out of sight; null: it is in sight. */
  const [leftAt, setLeftAt] = useState<number | null>(null);
  const answers = useMemo(() => answersOf(view.items), [view.items]);
  const branches = useBranches(id);
  // The view stays at the end, unless the user has scrolled away from it.
  useEffect(() => {
    const element = scroller.current;
    if (!element?.firstElementChild) return;
    const watch = new ResizeObserver(() => {
      if (follows.current) element.scrollTop = element.scrollHeight;
    });
    watch.observe(element.firstElementChild);
    return () => watch.disconnect();
  }, []);
  const { contextType, focus, contextUsage } = view;
  const stored = useStored(id, { contextType, focus });
  const about = useMemo(
    () => <About id={id} contextType={contextType} focus={focus} contextUsage={contextUsage} />,
    [id, contextType, focus, contextUsage],
  );
  usePrewarmed(id, stored.data);
  useKeeping(stored.data, live);
  useFreshTitle(id, view, stored.data?.title);
  const title = stored.data ? shownTitle(stored.data) : '';
  const ratings = useRatings(id, stored.data !== undefined);
  const ended = useReady(view, (status) => notify(title || t('Chat'), ENDS[status] ?? '', id));
  useTitle(title || t('Chat'), ended ? ENDED[ended] : active !== undefined ? t('Answering') : undefined);
  useSeen(id, view);
  const linkedAt = linked === undefined ? -1 : view.items.findIndex((item) => holds(item, linked));
  useLinked(scroller, linked, linkedAt >= 0);
  const unsent = useUnsent(id, view.messages);
  const attempt = useCallback(async (act: () => Promise<unknown>) => {
    try {
      setRefused(null);
      await act();
    } catch (refusal) {
      setRefused(refusal);
      throw refusal;
    }
  }, []);
  // Sends the same text again. The conversation keeps both messages.
  const last = view.turns.at(-1);
  const asked = RETRIED.includes(last?.status ?? '')
    ? view.messages.find((message) => message.id === last?.messageId)
    : undefined;
  const { messages } = view;
  const first = messages[0]?.id;
  const missing = linkedAt < 0 ? linked : undefined;
  const mayWrite = useMe().scopes.includes('write');
  const [changeAgent, agentSettled] = useAgentChange(id);
  const onAgent = useCallback((agent: string) => attempt(() => changeAgent(agent)), [attempt, changeAgent]);
  const send = useCallback(
    (message: string, attachments: readonly StoredFile[] = [], { model }: Chosen = {}) => {
      follows.current = true;
      const same = messages.filter(({ role, content }) => role === 'user' && content === message).map((one) => one.id);
      const along = () => agentSettled().then(attached);
      return outbox.add({ place: id, message, attachments, model, same, along });
    },
    [messages, id, attached, agentSettled],
  );
  const retry = useCallback(() => {
    if (asked) void send(asked.content, asked.attachments)?.catch(setRefused);
  }, [asked, send]);
  const resume = useCallback((runId: string) => void attempt(() => client.resume(runId)).catch(() => {}), [attempt]);
  const activeId = active?.runId;
  const stop = useCallback(
    () => (activeId === undefined ? Promise.resolve() : attempt(() => client.cancel(activeId))),
    [activeId, attempt],
  );
  const steer = useCallback(
    (words: string) => (activeId === undefined ? Promise.resolve() : attempt(() => client.tell(activeId, words))),
    [activeId, attempt],
  );
  const takeBack = useCallback((runId: string) => void attempt(() => client.cancel(runId)).catch(() => {}), [attempt]);
  const jump = () => {
    follows.current = true;
    const element = scroller.current;
    element?.scrollTo({ top: element.scrollHeight });
    element?.focus({ preventScroll: true });
  };
  const entry = (item: Item, nth: number) =>
    item.type === 'message' ? (
      <UserMessage
        message={item.message}
        runId={item.message.runId ?? answers.get(item.message.id)}
        point={branches.get(item.message.id)}
      />
    ) : (
      <TurnView
        turn={item.turn}
        isNear={view.items.length - nth <= NEAR_ITEMS}
        onComplete={complete}
        onRetry={asked && item.turn === last ? retry : undefined}
        onContinue={item.turn === last && item.turn.status === 'paused' ? resume : undefined}
        isAnswer
        rating={item.turn.message && ratings[item.turn.message.id]}
        onTakeBack={item.turn === active ? undefined : takeBack}
      />
    );
  const isMissing = error?.status === 404;
  useEffect(() => {
    if (isMissing) forgetChat(id);
  }, [isMissing, id]);
  if (isMissing) return <NotFound what={t('This chat')} />;
  return (
    <main id="main" className="talk">
      <Head
        id={id}
        title={title}
        metadata={stored.data?.metadata}
        agent={view.turns.findLast((turn) => turn.agent)?.agent}
        runId={last?.runId}
      >
        {children}
      </Head>
      <div
        ref={scroller}
        className="said"
        // Read from here at will; it is not read out word by word while it grows.
        role="log"
        aria-live="off"
        aria-label={t('Messages')}
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          follows.current = scrollHeight - scrollTop - clientHeight < NEAR;
          setLeftAt((at) => (follows.current ? null : (at ?? view.cursor)));
        }}
      >
        <div>
          {stored.data ? <Basis metadata={stored.data.metadata} /> : null}
          {first === undefined ? null : messages.length >= SNAPSHOT_MESSAGES ? (
            <Earlier conversationId={id} before={first} linked={missing} scroller={scroller} />
          ) : missing === undefined ? null : (
            <NotHere />
          )}
          <ol className="items">
            {view.items.map((item, nth) => (
              <li key={keyOf(item)} {...(linked !== undefined && nth === linkedAt ? linkedAs(linked) : {})}>
                {entry(item, nth)}
              </li>
            ))}
            <UnsentMessages unsent={unsent} />
          </ol>
          {isOffline && view.items.length === 0 ? (
            <p className="notice" role="status">
              {t('This device has no copy of this chat. It will be shown when the server can be reached again.')}
            </p>
          ) : null}
          {view.notices.some(({ kind }) => kind === 'rewound') ? (
            <p className="notice" role="status">
              {t(
                "The server's database has lost the end of this chat. This is what it still has: send lost messages again.",
              )}
            </p>
          ) : null}
        </div>
      </div>
      <Announcements view={view} />
      {leftAt !== null ? (
        <div className="to-end">
          <button type="button" onClick={jump}>
            <ArrowDown className="icon" /> {t('Jump to the newest')}
            {view.cursor > leftAt ? <span className="mark" role="img" aria-label={t('New')} /> : null}
          </button>
        </div>
      ) : null}
      <NotifyOffer runId={activeId} onLeave={focusField} />
      <Connection status={status} />
      {error ? <ErrorNote error={error} /> : null}
      {refused ? <ErrorNote error={refused} /> : null}
      <Composer
        draft={id}
        about={about}
        agentId={stored.data && (stored.data.agentDefinitionId ?? null)}
        onAgent={mayWrite ? onAgent : undefined}
        isBusy={active !== undefined || unsent.length > 0}
        onStop={active ? stop : undefined}
        onSteer={active ? steer : undefined}
        onSend={send}
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
    connecting: t('Connecting…'),
    paused: t('Paused while this page is hidden.'),
    offline: t("You're offline. Answers keep running and will appear when you reconnect."),
  }[status];
  return (
    <p className="connection" role="status" aria-live="polite">
      {words ?? ''}
    </p>
  );
}
