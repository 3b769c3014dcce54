// Identifies where a message is written: in a conversation, or in a place for a new one, which becomes a conversation with its first message. Any
// tab may send that message, so the mapping is kept in the browser, where all tabs find it.
import * as localStore from '../api/localStore';

/** Begins the name of a place that is no conversation yet. */
const NEW = 'new-';
/** Before a place: the conversation that it became. A key for each, since several tabs write at the same time. */
export const BECAME = 'moved.';
/** Places that became conversations and are remembered. */
const BECAME_MAX = 50;

interface Became {
  conversationId: string;
  /** [ms since 1970]. */
  at: number;
}

/** Those of this page, also where the browser has no room for them. */
const here = new Map<string, string>();

/** A place for a new conversation. */
export function newPlace(): string {
  return NEW + randomName();
}

/** Whether a place is no conversation yet. */
export function isNewPlace(place: string): boolean {
  return place.startsWith(NEW);
}

/** The conversation that a place has become. */
export function conversationOf(place: string): string | undefined {
  return here.get(place) ?? kept(BECAME + place)?.conversationId;
}

/** Remembers what a place became, and forgets the oldest of the others, except those that messages were written in. */
export function become(place: string, conversationId: string, written: ReadonlySet<string>): void {
  here.set(place, conversationId);
  localStore.write(BECAME + place, { conversationId, at: Date.now() } satisfies Became);
  const age = (name: string) => kept(name)?.at ?? 0;
  const newestFirst = localStore.names(BECAME).sort((one, other) => age(other) - age(one));
  for (const name of newestFirst.slice(BECAME_MAX)) {
    if (!written.has(name.slice(BECAME.length))) localStore.remove(name);
  }
}

/** Removes what older versions kept: all places in one key, and what was read. */
export function forgetOlder(): void {
  localStore.remove('moved');
  localStore.remove('seen');
}

function kept(name: string): Became | null {
  return localStore.read(name) as Became | null;
}

/** 128 random bits. Also where the page is not served securely, and has no `randomUUID`. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
