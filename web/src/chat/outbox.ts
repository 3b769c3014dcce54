// Sends messages and keeps each one in the browser, under a permanent idempotency key, until the server has stored it or the user deletes it: a
// reload, a closed tab or a restarted server loses none, and none is stored twice.
//
// Invariants: the messages of one place are sent one after the other, in the order in which they were written; a body never changes after its first
// attempt; one tab at a time sends those of a place (Web Locks; where a page has none, the key alone keeps them from being stored twice).
import { RejoinError } from '@rejoin/client';
import { useMemo, useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';
import type { Attached } from '../consoles/consoles';
import { client, type Message } from '../stream';
import { message, t } from '../ui/language';
import { BECAME, become, conversationOf, forgetOlder, isNewPlace, randomName } from './places';
import type { StoredFile } from './uploads';

const KEPT = 'outbox.';
/** A message waits no longer for what goes along with it [ms]. */
const PREPARE_LIMIT_MS = 10_000;
/** A message that is older is not sent by itself: the server forgets idempotency keys after 48 h [ms]. */
const SENT_BY_ITSELF_MS = 24 * 3_600_000;
/** The longest pause between two attempts [ms]. */
const PAUSE_MAX_MS = 8_000;
/** An accepted message that its conversation does not show is shown no longer than this [ms]. */
const ACCEPTED_MS = 60_000;

/** What goes along with a message. */
export interface Along {
  consoles?: Attached[];
  consoleId?: string;
}

interface Entry {
  key: string;
  /** A conversation, or a place that becomes one with its first message. */
  place: string;
  /** When it was written [ms since 1970]; orders the messages of a place. */
  at: number;
  /** Since when it may be sent by itself [ms since 1970]. */
  since: number;
  message: string;
  agentDefinitionId?: string;
  /** The model that the user has chosen. */
  model?: string;
  /** Files that the server has already. */
  attachments?: readonly StoredFile[];
  /** null: not known yet. */
  along: Along | null;
  /** The page that it was written in. */
  page: string;
  /** The messages with the same words that the conversation had already. */
  same: string[];
  /** Why the server refused it, not translated: the language may change. It is not sent until the user says so. */
  refused?: string;
}

export interface Unsent {
  key: string;
  place: string;
  at: number;
  message: string;
  attachments: readonly StoredFile[];
  same: readonly string[];
  /** `accepted`: the server has it, and the conversation will show it in a moment. */
  state: 'sending' | 'unreachable' | 'refused' | 'accepted';
  /** Why it is not sent. */
  reason: string;
  messageId?: string;
}

interface NewMessage {
  place: string;
  message: string;
  agentDefinitionId?: string | undefined;
  model?: string | undefined;
  attachments?: readonly StoredFile[] | undefined;
  same?: string[];
  /** What goes along, as soon as that is known. */
  along?: () => Promise<Along>;
}

class Outbox {
  /** Identifies the page. After a reload it is another one. */
  readonly #page = randomName();
  /** Those that the browser has no room for. */
  #unkept = new Map<string, Entry>();
  #accepted = new Map<string, Unsent>();
  /** Why the last attempt failed, not translated. */
  #trouble = new Map<string, string>();
  #requests = new Map<string, AbortController>();
  #sending = new Set<string>();
  #waiting = new Set<() => void>();
  #settled = new Map<string, (refused?: Error) => void>();
  #listeners = new Set<() => void>();
  #view: readonly Unsent[] | undefined;
  #lastAt = 0;
  #accepts: () => void = () => {};

  /** Sends what earlier pages left, and what other tabs leave; calls `onAccepted` after each message. Returns how to stop listening. */
  start(onAccepted: () => void): () => void {
    this.#accepts = onAccepted;
    const again = () => this.#again();
    const other = ({ key }: StorageEvent) => {
      if (key !== null && ![KEPT, BECAME].some((prefix) => key.startsWith(localStore.keyOf(prefix)))) return;
      this.#changed();
      this.#sendAll();
    };
    const seen = () => {
      if (!document.hidden) again();
    };
    forgetOlder();
    addEventListener('online', again);
    addEventListener('storage', other);
    document.addEventListener('visibilitychange', seen);
    this.#sendAll();
    return () => {
      removeEventListener('online', again);
      removeEventListener('storage', other);
      document.removeEventListener('visibilitychange', seen);
    };
  }

  /** Takes a message. null: it is kept, and will be sent. A promise: the browser can't keep it; it settles when the server has taken or refused it. */
  add({
    place,
    message,
    agentDefinitionId,
    model,
    attachments = [],
    same = [],
    along,
  }: NewMessage): Promise<void> | null {
    const now = Date.now();
    this.#lastAt = Math.max(now, this.#lastAt + 1);
    const entry: Entry = {
      key: randomName(),
      place: this.#placeNow(place),
      at: this.#lastAt,
      since: now,
      message,
      ...(agentDefinitionId !== undefined && { agentDefinitionId }),
      ...(model !== undefined && { model }),
      ...(attachments.length > 0 && { attachments }),
      along: along ? null : {},
      page: this.#page,
      same,
    };
    const isKept = localStore.write(KEPT + entry.key, entry);
    if (!isKept) this.#unkept.set(entry.key, entry);
    const settled = isKept
      ? null
      : new Promise<void>((resolve, reject) =>
          this.#settled.set(entry.key, (refused) => (refused ? reject(refused) : resolve())),
        );
    this.#changed();
    const send = () => void this.#send(entry.place);
    if (along) {
      void within(along(), PREPARE_LIMIT_MS).then((found) => {
        // Unless it has gone without already: a body never changes after its first attempt.
        const now = this.#entry(entry.key);
        if (now?.along === null) this.#put({ ...now, along: found });
        send();
      });
    } else {
      send();
    }
    return settled;
  }

  retry(key: string): void {
    const entry = this.#entry(key);
    if (!entry) return;
    const { refused: _, ...rest } = entry;
    this.#trouble.delete(key);
    this.#put({ ...rest, since: Date.now() });
    this.#again();
  }

  /** Deletes a message. One that the server took a moment before stays in the conversation. */
  remove(key: string): void {
    this.#drop(key);
    this.#requests.get(key)?.abort(new Error('deleted'));
    this.#settled.get(key)?.(new Error(t('The message was deleted.')));
    this.#settled.delete(key);
    this.#again();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** All of them, the oldest first. */
  readonly get = (): readonly Unsent[] => {
    if (this.#view) return this.#view;
    const waiting = this.#entries().map(({ key, place, at, message, attachments = [], same, refused }): Unsent => {
      const reason = refused ?? this.#trouble.get(key) ?? '';
      return {
        key,
        place,
        at,
        message,
        attachments,
        same,
        state: refused !== undefined ? 'refused' : reason !== '' ? 'unreachable' : 'sending',
        reason: t(reason),
      };
    });
    const known = new Set(waiting.map(({ key }) => key));
    const accepted = [...this.#accepted.values()].filter(({ key }) => !known.has(key));
    this.#view = [...accepted, ...waiting].sort((one, other) => one.at - other.at);
    return this.#view;
  };

  #sendAll(): void {
    for (const place of new Set(this.#entries().map((entry) => entry.place))) void this.#send(place);
  }

  /** Attempts that pause are made now. */
  #again(): void {
    for (const wake of this.#waiting) wake();
    this.#changed();
    this.#sendAll();
  }

  async #send(place: string): Promise<void> {
    if (this.#sending.has(place)) return;
    this.#sending.add(place);
    let isSignedOut = false;
    try {
      await exclusively(localStore.keyOf(`sending.${place}`), async () => {
        isSignedOut = await this.#sendInOrder(place);
      });
    } finally {
      this.#sending.delete(place);
    }
    // One that was written in the last moment.
    const next = this.#entries().find((one) => one.place === place);
    if (next && next.refused === undefined && !isSignedOut) void this.#send(place);
  }

  /** Sends the messages of a place in order. Returns whether it stopped because no user is signed in. */
  async #sendInOrder(place: string): Promise<boolean> {
    for (let failures = 0; ; ) {
      const entry = this.#entries().find((one) => one.place === place);
      if (!entry || entry.refused !== undefined) return false;
      if (Date.now() - entry.since > SENT_BY_ITSELF_MS) {
        this.#put({ ...entry, refused: message('It is more than a day old. Select “Retry” to send it anyway.') });
        return false;
      }
      if (entry.along === null) {
        const age = Date.now() - entry.at;
        // Its own page still looks for what goes along; without that page it goes alone.
        if (age < PREPARE_LIMIT_MS) await this.#pause(entry.page === this.#page ? 50 : PREPARE_LIMIT_MS - age);
        else this.#put({ ...entry, along: {} });
        continue;
      }
      const request = new AbortController();
      this.#requests.set(entry.key, request);
      try {
        const accepted = await client.send({
          message: entry.message,
          ...(!isNewPlace(place) && { conversationId: place }),
          ...(entry.agentDefinitionId !== undefined && { agentDefinitionId: entry.agentDefinitionId }),
          ...(entry.model !== undefined && { model: entry.model }),
          ...(entry.attachments && { attachments: entry.attachments.map(({ fileId }) => ({ fileId })) }),
          ...entry.along,
          idempotencyKey: entry.key,
          retryLimitMs: 0,
          signal: request.signal,
        });
        failures = 0;
        this.#take(entry, accepted);
        if (isNewPlace(place)) {
          void this.#send(accepted.conversationId);
          return false;
        }
      } catch (error) {
        if (!this.#entry(entry.key)) continue;
        const reason =
          error instanceof RejoinError && error.status > 0 ? error.detail : message("Can't reach the server.");
        if (error instanceof RejoinError && error.status === 401) {
          // Sent after the next sign-in.
          this.#trouble.set(entry.key, message('You are signed out. Sign in to send it.'));
          this.#changed();
          return true;
        }
        if (!(error instanceof RejoinError) || !error.temporary) {
          this.#refuse(entry, reason);
          return false;
        }
        this.#trouble.set(entry.key, reason);
        this.#changed();
        failures += 1;
        await this.#pause(Math.max(Math.min(PAUSE_MAX_MS, 250 * 2 ** failures), (error.retryAfter ?? 0) * 1_000));
      } finally {
        this.#requests.delete(entry.key);
      }
    }
  }

  #take(entry: Entry, { conversationId, messageId }: { conversationId: string; messageId: string }): void {
    if (isNewPlace(entry.place)) become(entry.place, conversationId, new Set(this.#stored().map(({ place }) => place)));
    const { key, at, message, attachments = [], same } = entry;
    this.#accepted.set(key, {
      key,
      place: conversationId,
      at,
      message,
      attachments,
      same,
      state: 'accepted',
      reason: '',
      messageId,
    });
    setTimeout(() => this.#accepted.delete(key) && this.#changed(), ACCEPTED_MS);
    this.#drop(key);
    this.#settled.get(key)?.();
    this.#settled.delete(key);
    this.#accepts();
  }

  #refuse(entry: Entry, reason: string): void {
    this.#trouble.delete(entry.key);
    const settle = this.#settled.get(entry.key);
    if (!settle) {
      this.#put({ ...entry, refused: reason });
      return;
    }
    // It is still where it was written.
    this.#settled.delete(entry.key);
    this.#drop(entry.key);
    settle(new Error(t(reason)));
  }

  #placeNow(place: string): string {
    return isNewPlace(place) ? (conversationOf(place) ?? place) : place;
  }

  /** All that wait, the oldest first, where they belong by now. */
  #entries(): Entry[] {
    const now = this.#stored().map((entry) => ({ ...entry, place: this.#placeNow(entry.place) }));
    return now.sort((one, other) => one.at - other.at);
  }

  /** All that wait, where they were written. */
  #stored(): Entry[] {
    const kept = localStore.names(KEPT).flatMap((name) => {
      const entry = localStore.read(name) as Entry | null;
      return entry && typeof entry.message === 'string' && typeof entry.place === 'string' ? [entry] : [];
    });
    // Of one that the browser had room for, but not for its newest change, this page knows that.
    const newest = new Map([...kept, ...this.#unkept.values()].map((entry) => [entry.key, entry]));
    return [...newest.values()];
  }

  #entry(key: string): Entry | undefined {
    return this.#unkept.get(key) ?? (localStore.read(KEPT + key) as Entry | null) ?? undefined;
  }

  /** Changes one that is still there. */
  #put(entry: Entry): void {
    if (!this.#entry(entry.key)) return;
    if (this.#unkept.has(entry.key) || !localStore.write(KEPT + entry.key, entry)) this.#unkept.set(entry.key, entry);
    this.#changed();
  }

  #drop(key: string): void {
    this.#unkept.delete(key);
    this.#trouble.delete(key);
    localStore.remove(KEPT + key);
    this.#changed();
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const over = () => {
        clearTimeout(timer);
        this.#waiting.delete(over);
        resolve();
      };
      const timer = setTimeout(over, ms);
      this.#waiting.add(over);
    });
  }

  readonly #changed = (): void => {
    this.#view = undefined;
    for (const listener of [...this.#listeners]) listener();
  };
}

export const outbox = new Outbox();

/** All messages that are not sent. */
export function useOutbox(): readonly Unsent[] {
  return useSyncExternalStore(outbox.subscribe, outbox.get);
}

/** The unsent messages of a place, without those that the conversation shows already. */
export function useUnsent(place: string, messages: readonly Message[] = []): readonly Unsent[] {
  const all = useOutbox();
  return useMemo(
    () =>
      notShown(
        all.filter((one) => one.place === place),
        messages,
      ),
    [all, place, messages],
  );
}

/** The unsent messages that the conversation does not show yet. The response to a request may arrive after the event of its message. */
export function notShown(unsent: readonly Unsent[], messages: readonly Message[]): readonly Unsent[] {
  const ids = new Set(messages.map(({ id }) => id));
  const claimed = new Set<string>();
  return unsent.filter(({ state, message, messageId, same }) => {
    if (messageId !== undefined) return !ids.has(messageId);
    if (state === 'refused') return true;
    const found = messages.find(
      ({ id, role, content }) => role === 'user' && content === message && !same.includes(id) && !claimed.has(id),
    );
    if (found) claimed.add(found.id);
    return !found;
  });
}

async function exclusively(name: string, act: () => Promise<void>): Promise<void> {
  if (navigator.locks) await navigator.locks.request(name, act);
  else await act();
}

/** What was found in time; otherwise, or where that failed, nothing. */
function within(found: Promise<Along>, limitMs: number): Promise<Along> {
  return Promise.race([
    found.catch(() => ({})),
    new Promise<Along>((resolve) => setTimeout(() => resolve({}), limitMs)),
  ]);
}
