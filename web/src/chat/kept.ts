// Keeps copies of the chats that were shown last, to be read while the server can't be reached. Turns that are not over are left out.
import { useEffect, useMemo, useRef } from 'react';
import type { Schemas } from '../api/http';
import * as localStore from '../api/localStore';
import { useOffline } from '../api/offline';
import type { Item, TranscriptView, Turn } from '../stream';

type Conversation = Schemas['ConversationDetail'];

const LIST = `${localStore.COPY}list`;
const CHAT = `${localStore.COPY}chat.`;
/** All copies together take less than half of a browser's storage, so that drafts and unsent messages have room. */
const MAX_CHATS = 15;
/** Of a longer chat, the end is kept, in characters of JSON. */
const MAX_CHARACTERS = 160_000;
/** Of a longer turn, the text is kept without its calls, in characters of JSON. */
const MAX_TURN_CHARACTERS = 40_000;
/** A chat is copied when it has not changed for this long, in milliseconds. */
const QUIET_MS = 500;
const OVER = ['completed', 'failed', 'cancelled', 'paused'];

/** Chats with a copy, the one that was shown last first. */
export function keptChats(): Conversation[] {
  const list = localStore.read(LIST);
  return Array.isArray(list) ? list.filter((one) => typeof one?.id === 'string' && typeof one.title === 'string') : [];
}

export function forgetChat(id: string): void {
  localStore.remove(CHAT + id);
  localStore.write(
    LIST,
    keptChats().filter((one) => one.id !== id),
  );
}

function keep(conversation: Conversation, items: readonly Item[]): void {
  const { id } = conversation;
  const others = keptChats().filter((one) => one.id !== id);
  for (const old of others.splice(MAX_CHATS - 1)) localStore.remove(CHAT + old.id);
  // Where there is no room, older copies make it.
  while (!localStore.write(CHAT + id, ends(items))) {
    const oldest = others.pop();
    if (!oldest) return void forgetChat(id);
    localStore.remove(CHAT + oldest.id);
  }
  localStore.write(LIST, [conversation, ...others]);
}

/** The last items that a copy has room for. */
function ends(items: readonly Item[]): Item[] {
  const kept: Item[] = [];
  let room = MAX_CHARACTERS;
  for (const item of items.toReversed()) {
    if (item.type === 'turn' && !OVER.includes(item.turn.status)) continue;
    const copy = item.type === 'turn' ? { ...item, turn: copyOf(item.turn) } : item;
    room -= JSON.stringify(copy).length;
    if (room < 0) break;
    kept.unshift(copy);
  }
  return kept;
}

function copyOf(turn: Turn): Turn {
  // What it lacks can't be fetched without the server.
  const { details: _, events: __, ...whole } = { ...turn, partial: false };
  if (JSON.stringify(whole).length <= MAX_TURN_CHARACTERS) return whole;
  return {
    ...whole,
    parts: [{ type: 'text', text: turn.text }],
    reasoning: '',
    toolCalls: [],
    agents: [],
    operations: [],
  };
}

function keptView(id: string): TranscriptView | null {
  const items = localStore.read(CHAT + id) as Item[] | null;
  if (!Array.isArray(items)) return null;
  return {
    items,
    messages: items.flatMap((item) => (item.type === 'message' ? [item.message] : (item.turn.message ?? []))),
    turns: items.flatMap((item) => (item.type === 'turn' ? [item.turn] : [])),
    questions: [],
    notices: [],
    cursor: 0,
  };
}

/** Copies a chat whenever it has changed. */
export function useKeeping(conversation: Conversation | undefined, view: TranscriptView): void {
  const isOffline = useOffline();
  const newest = useRef(view.items);
  newest.current = view.items;
  const { active, items } = view;
  const change = `${items.length} ${active?.id ?? ''}`;
  useEffect(() => {
    if (!conversation || isOffline || change.startsWith('0 ')) return;
    const timer = setTimeout(() => keep(conversation, newest.current), QUIET_MS);
    return () => clearTimeout(timer);
  }, [conversation, isOffline, change]);
}

/** What a chat shows: its live view or, where that can't be had, the copy. */
export function useKept(id: string, live: TranscriptView, status: string): TranscriptView {
  const isOffline = useOffline() || status === 'offline';
  const isMissing = isOffline && live.items.length === 0;
  const kept = useMemo(() => (isMissing ? keptView(id) : null), [id, isMissing]);
  return kept ?? live;
}
