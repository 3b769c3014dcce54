/** A React hook that follows a conversation. */
import { useCallback, useMemo, useState, useSyncExternalStore } from 'react';

import type { Client, Follower, SendOptions } from './client.js';
import type { RejoinError } from './error.js';
import type { FollowStatus } from './log.js';
import type { TranscriptView } from './view.js';
import type { Accepted } from './wire.js';

export interface ConversationState {
  /** The one that was given, or the one that the first message began. */
  readonly conversationId: string | undefined;
  readonly transcript: TranscriptView;
  readonly status: FollowStatus;
  /** Why it has ended. */
  readonly error: RejoinError | undefined;
  /** Sends a message to it; without an id, to a new conversation, which is followed from then on. */
  readonly send: (message: string, options?: Omit<SendOptions, 'message' | 'conversationId'>) => Promise<Accepted>;
  /** Fetches what is not shown yet of a turn that ended before we came (`turn.partial`). */
  readonly complete: (runId: string) => Promise<void>;
  /** Stops the run that is under way. */
  readonly cancel: () => Promise<void>;
}

type Shown = Pick<ConversationState, 'transcript' | 'status' | 'error'>;

const EMPTY: TranscriptView = { items: [], messages: [], turns: [], questions: [], notices: [], cursor: 0 };
const NOTHING: Shown = { transcript: EMPTY, status: 'connecting', error: undefined };

/** Follows a conversation while the component is there. Components that follow the same one share a connection. */
export function useConversation(client: Client, id?: string): ConversationState {
  const [begun, setBegun] = useState<string>();
  const conversationId = id ?? begun;
  const store = useMemo(() => new Store(client, conversationId), [client, conversationId]);
  const shown = useSyncExternalStore(store.subscribe, store.get, () => NOTHING);
  const send = useCallback<ConversationState['send']>(
    async (message, options) => {
      const accepted = await client.send({ ...options, message, ...(conversationId && { conversationId }) });
      setBegun(accepted.conversationId);
      return accepted;
    },
    [client, conversationId],
  );
  const cancel = useCallback(async () => {
    const active = store.get().transcript.active;
    if (active) await client.cancel(active.runId);
  }, [client, store]);
  const complete = useCallback((runId: string) => store.complete(runId), [store]);
  return { conversationId, ...shown, send, cancel, complete };
}

/** Follows as long as there are subscribers. */
class Store {
  #follower: Follower | undefined;
  #shown = NOTHING;

  constructor(
    private readonly client: Client,
    private readonly id: string | undefined,
  ) {}

  readonly subscribe = (changed: () => void): (() => void) => {
    if (!this.id) return () => {};
    const follower = this.client.follow(this.id, { onStatus: changed });
    this.#follower = follower;
    const unsubscribe = follower.transcript.subscribe(changed);
    // Events from before the subscription.
    changed();
    return () => {
      unsubscribe();
      follower.close();
    };
  };

  complete(runId: string): Promise<void> {
    return this.#follower?.complete(runId) ?? Promise.resolve();
  }

  readonly get = (): Shown => {
    if (!this.#follower) return NOTHING;
    const { status, error } = this.#follower;
    const transcript = this.#follower.transcript.getSnapshot();
    const { transcript: shown, status: was, error: before } = this.#shown;
    if (transcript !== shown || status !== was || error !== before) this.#shown = { transcript, status, error };
    return this.#shown;
  };
}
