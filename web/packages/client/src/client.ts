/** The client of a Rejoin API: commands, lists and followers. `log.ts` follows the logs. */
import { RejoinError } from './error.js';
import type { RequestOptions } from './http.js';
import { Http } from './http.js';
import type { FollowStatus, Listener, Start } from './log.js';
import { Log } from './log.js';
import type { Transcript } from './transcript.js';
import { isOver } from './turn.js';
import type { Turn } from './view.js';
import type {
  Accepted,
  Agent,
  Conversation,
  Page,
  Prewarmed,
  ProjectFocus,
  Run,
  StoredMessage,
  StoredQuestion,
  WireEvent,
} from './wire.js';

export interface ClientOptions {
  /** Where the API is. In a browser: the page's origin, unless it is given. */
  url?: string | undefined;
  /** An API key or a token, or what gives one for each request. In a browser without it, the session's cookie is shown. */
  apiKey?: string | (() => string | Promise<string>) | undefined;
  /** Among several projects of the caller. */
  projectId?: string | undefined;
  /** Instead of the global one. */
  fetch?: typeof fetch | undefined;
  /** How often a silent stream gives a sign of life [ms]; 10,000. After 2.5 times as long it is taken for dead. */
  heartbeatMs?: number | undefined;
  /** A page that is hidden for longer gives its connections up until it is seen again [ms]; 30,000. `Infinity`: never. */
  hiddenMs?: number | undefined;
}

export interface SendOptions {
  message: string;
  /** None: a new conversation. */
  conversationId?: string | undefined;
  /** The agent of a new conversation. None: plain chat. */
  agentDefinitionId?: string | undefined;
  /** The model of this turn, as `provider:model`. None: the agent's. */
  model?: string | undefined;
  /** The consoles that the user has open, and the one that she sees. */
  consoles?:
    | readonly {
        id: string;
        title: string;
        content: string;
        version?: number | undefined;
        databaseType?: string | undefined;
        databaseId?: string | undefined;
        database?: string | undefined;
      }[]
    | undefined;
  consoleId?: string | undefined;
  /** Files that were uploaded before (`POST /api/files`) and come with the message. */
  attachments?: readonly { fileId: string }[] | undefined;
  /**
   * While a run of the conversation is active: the message answers what that run asks, and where it asks nothing, waits its turn (`answer`, as
   * usual); it waits its turn whatever is asked (`enqueue`); is refused; or ends that run.
   */
  onBusy?: 'answer' | 'enqueue' | 'reject' | 'interrupt' | undefined;
  signal?: AbortSignal | undefined;
  /** A name of this very message, so that it is stored once even if the program is restarted in between. */
  idempotencyKey?: string | undefined;
  /** How long the message is retried while the server is unreachable or busy, in milliseconds; 120,000. */
  retryLimitMs?: number | undefined;
}

export interface PrewarmOptions {
  /** None: a new conversation. */
  conversationId?: string | undefined;
  /** What it is about from now on: a type of context, such as `project`. */
  contextType?: string | undefined;
  projectFocus?: ProjectFocus | undefined;
  /** The agent of a new conversation. */
  agentDefinitionId?: string | undefined;
}

export interface FollowOptions {
  /** Where to begin. `snapshot`, of a run: `beginning`. */
  from?: Start | undefined;
  /** Receives each event of the log with its number, and events about the connection without one. */
  onEvent?: ((event: WireEvent, seq: number | undefined) => void) | undefined;
  onStatus?: ((status: FollowStatus, error: RejoinError | undefined) => void) | undefined;
  /** Closes it. */
  signal?: AbortSignal | undefined;
}

/** A follower of a log. Those of one conversation share a connection and a transcript. */
export interface Follower {
  readonly transcript: Transcript;
  readonly status: FollowStatus;
  /** Why it has ended, if the API refused. */
  readonly error: RejoinError | undefined;
  /** The end of a run's turn; of a run that was resumed, of a turn later than `after`. Fails where the log ends before it. */
  turn(runId: string, after?: Turn): Promise<Turn>;
  /** Fetches what a snapshot leaves out of turns that ended before it (`turn.partial`): calls, reasoning, sub-agents, in their order. */
  complete(runId: string): Promise<void>;
  /** Follows no more. With its last follower, the connection is closed. */
  close(): void;
}

const HEARTBEAT_MS = 10_000;
const HIDDEN_MS = 30_000;

export type Client = ReturnType<typeof createClient>;

export function createClient(options: ClientOptions = {}) {
  const http = new Http(options);
  const logs = new Map<string, Log>();
  const path = (...parts: string[]) => `/api/${parts.map(encodeURIComponent).join('/')}`;
  const request = <T = unknown>(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<T> =>
    http.request<T>(method, path, body, options);
  const page = (options: PageOptions = {}) => {
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    return given.length > 0 ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : '';
  };

  function send({ onBusy, signal, idempotencyKey, retryLimitMs, ...body }: SendOptions): Promise<Accepted> {
    const query = onBusy ? `?onBusy=${onBusy}` : '';
    return http.postSurely(`/api/chat/stream${query}`, body, idempotencyKey ?? randomKey(), signal, retryLimitMs);
  }

  function follow(what: string | { runId: string }, { from, onEvent, onStatus, signal }: FollowOptions = {}): Follower {
    const runId = typeof what === 'string' ? undefined : what.runId;
    const place = typeof what === 'string' ? path('conversations', what) : path('runs', what.runId);
    const start = from ?? (runId ? 'beginning' : 'snapshot');
    const key = `${place} ${start}`;
    let log = logs.get(key);
    // One that wants all events from a place on, and comes too late for some, reads them for itself.
    const isLate =
      log?.hasDelivered === true && onEvent !== undefined && (start === 'beginning' || typeof start === 'number');
    if (!log || log.status === 'ended' || isLate) {
      const { heartbeatMs = HEARTBEAT_MS, hiddenMs = HIDDEN_MS } = options;
      log = new Log(http, place, runId, start, { heartbeatMs, hiddenMs });
      logs.set(key, log);
    }
    return follower(log, onEvent, onStatus, signal, () => {
      if (log.listeners.size > 0) return;
      log.close();
      if (logs.get(key) === log) logs.delete(key);
    });
  }

  return {
    /** Sends a message. It is stored once, whatever happens on the way. */
    send,
    /** Follows a conversation, or one run. */
    follow,
    /** Any other request. Fails with a `RejoinError` where the answer is no success. */
    request,
    /** Stops a run, and what it has started. Idempotent. */
    cancel: (runId: string) => request<{ runId: string; state: string }>('POST', path('runs', runId, 'cancel')),
    /** Sends a message to a run while it is at work. */
    tell: (runId: string, message: string) =>
      request<{ runId: string; messageId: string; seq: number }>('POST', path('runs', runId, 'messages'), { message }),
    /** Answers a question. `input`: with the answer `edit`, the arguments that replace those of the call. */
    answer: (questionId: string, answer: unknown, input?: unknown) =>
      request<StoredQuestion>('POST', path('questions', questionId, 'answer'), {
        answer,
        ...(input !== undefined && { input }),
      }),
    /**
     * Call it as a chat opens, and when its user turns to something else: finds or makes the conversation, and reads what its first answer
     * needs to know of the project in focus.
     */
    prewarm: ({ conversationId, ...about }: PrewarmOptions = {}) =>
      request<Prewarmed>('POST', path('agent', 'prewarm'), {
        ...about,
        ...(conversationId && { sessionId: conversationId }),
      }),
    /** Lets a paused run go on. */
    resume: (runId: string, message?: string) =>
      request<{ runId: string; cursor: number }>('POST', path('runs', runId, 'resume'), {
        ...(message && { message }),
      }),
    /** Begins a new run where this one stood after a step. */
    fork: (runId: string, fork: { step: number; message?: string | undefined }) =>
      request<{ runId: string; cursor: number }>('POST', path('runs', runId, 'fork'), fork),
    runs: {
      get: (id: string) => request<Run>('GET', path('runs', id)),
    },
    questions: {
      list: (options?: PageOptions & { status?: StoredQuestion['status'] | undefined }) =>
        request<Page<StoredQuestion>>('GET', path('questions') + page(options)),
    },
    conversations: {
      list: (options?: PageOptions) => request<Page<Conversation>>('GET', path('conversations') + page(options)),
      get: (id: string) => request<Conversation>('GET', path('conversations', id)),
      create: (
        conversation: {
          title?: string | undefined;
          agentDefinitionId?: string | undefined;
          metadata?: Record<string, unknown> | undefined;
        } = {},
      ) => request<Conversation>('POST', path('conversations'), conversation),
      rename: (id: string, title: string) => request<Conversation>('PATCH', path('conversations', id), { title }),
      delete: (id: string) => request<void>('DELETE', path('conversations', id)),
      messages: (id: string, options?: PageOptions) =>
        request<Page<StoredMessage>>('GET', path('conversations', id, 'messages') + page(options)),
    },
    agents: {
      /** The agents that may be chosen, by name. */
      list: async (options: PageOptions = {}): Promise<Page<Agent>> => {
        const { projectId } = await request<{ projectId: string }>('GET', '/api/me');
        return request('GET', path('projects', projectId, 'agents') + page(options));
      },
    },
    /** Closes all that is followed. */
    close: (): void => {
      for (const log of logs.values()) log.close();
      logs.clear();
    },
  };
}

export interface PageOptions {
  /** Items of the page. */
  limit?: number | undefined;
  /** `nextCursor` of the page before. */
  cursor?: string | undefined;
}

function follower(
  log: Log,
  event: FollowOptions['onEvent'],
  status: FollowOptions['onStatus'],
  signal: AbortSignal | undefined,
  left: () => void,
): Follower {
  let open = true;
  const pending = new Set<() => void>();
  const listener: Listener = {
    ...(event && { event }),
    status: (now, error) => {
      status?.(now, error);
      for (const look of pending) look();
    },
  };
  log.listeners.add(listener);
  const close = (): void => {
    if (!open) return;
    open = false;
    log.listeners.delete(listener);
    signal?.removeEventListener('abort', close);
    for (const look of pending) look();
    // A component that unmounts and mounts again at once finds the connection still open.
    setTimeout(left);
  };
  signal?.addEventListener('abort', close);
  if (signal?.aborted) close();
  return {
    transcript: log.transcript,
    get status() {
      return open ? log.status : 'ended';
    },
    get error() {
      return log.error;
    },
    close,
    complete: (runId) => log.complete(runId),
    turn: (runId, after) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const turn = log.transcript.turn(runId);
          if (turn && turn.id !== after?.id && isOver(turn.status)) resolve(turn);
          else if (!open || log.status === 'ended')
            reject(log.error ?? new RejoinError(0, 'closed', 'the follower was closed'));
          else return;
          pending.delete(look);
          unsubscribe();
        };
        const unsubscribe = log.transcript.subscribe(look);
        pending.add(look);
        look();
      }),
  };
}

/** 128 random bits. Also where the page is not served securely, and has no `randomUUID`. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
