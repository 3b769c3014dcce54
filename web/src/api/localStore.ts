// Stores data in this browser (drafts, read markers, layout) per user and project, so that users who share a browser never see each other's data.
// Copies of what the server has, for reading offline, are there only while their user is signed in.
//
// Invariant: a page belongs to one user from sign-in until it is reloaded, so its memory never holds another user's data.
import type { Me } from './http';

const ALL = 'rejoin.';
const THEME = `${ALL}theme`;
const LANGUAGE = `${ALL}language`;
const CONTRAST = `${ALL}contrast`;
/** What belongs to the browser and not to a user. */
const OF_BROWSER = [THEME, LANGUAGE, CONTRAST];
/** Before the ids of user and project. */
const OF = `${ALL}of.`;

/** Before the names of copies. */
export const COPY = 'kept.';
const COPIED_ME = `${COPY}me`;
/** The key of a copy of any user. */
const ANY_COPY = /^rejoin\.of\.[^.]+\.[^.]+\.kept\./;

/** The user and project that the page belongs to; null before sign-in. */
let owner: string | null = null;
/** The browser's storage; null: it is blocked. */
const storage = ((): Storage | null => {
  try {
    return localStorage;
  } catch {
    return null;
  }
})();
/** Notifies the other tabs who is signed in: they all have the same session. */
const tabs = new BroadcastChannel(`${ALL}who`);
tabs.onmessage = ({ data }) => {
  if (owner !== null && data !== owner) location.reload();
};

/** The page is this user's from now on. */
export function keepFor(me: Me | null): void {
  owner = me && `${me.userId}.${me.projectId}`;
  if (owner !== null) tabs.postMessage(owner);
  // Older versions stored entries without an owner.
  const isUnowned = (key: string) => key.startsWith(ALL) && !OF_BROWSER.includes(key) && !key.startsWith(OF);
  for (const key of Object.keys(storage ?? {}).filter(isUnowned)) storage?.removeItem(key);
  forgetCopies(owner);
  if (me !== null) write(COPIED_ME, me);
}

/** Returns the user who was signed in last and has not signed out: while the server can't be reached, the page opens as theirs. */
export function lastUser(): Me | null {
  const key = Object.keys(storage ?? {}).find((key) => ANY_COPY.test(key) && key.endsWith(COPIED_ME));
  const me = key === undefined ? null : (parsed(storage?.getItem(key) ?? null) as Me | null);
  return typeof me?.userId === 'string' && Array.isArray(me.scopes) ? me : null;
}

function forgetCopies(except: string | null): void {
  for (const key of Object.keys(storage ?? {}))
    if (ANY_COPY.test(key) && !(except !== null && key.startsWith(`${OF}${except}.`))) storage?.removeItem(key);
}

/** Reloads all tabs after the user has signed out. No copies stay. */
export function leave(): void {
  forgetCopies(null);
  tabs.postMessage(null);
  location.reload();
}

/** Opens the start page of the workspace to which the session has moved, and reloads the other tabs. No copies of the former one stay. */
export function leaveWorkspace(): void {
  forgetCopies(null);
  tabs.postMessage(null);
  location.assign('/');
}

/** The key in the browser's storage, which storage events contain. */
export function keyOf(name: string): string {
  if (owner === null) throw new Error('no user is signed in, so nothing can be stored');
  return `${OF}${owner}.${name}`;
}

/** What is kept by this name; null: nothing, or nothing that can be read. */
export function read(name: string): unknown {
  return parsed(storage?.getItem(keyOf(name)) ?? null);
}

/** Keeps it, as JSON. False: the storage is full or blocked, and only this page remembers. */
export function write(name: string, value: unknown): boolean {
  return set(keyOf(name), JSON.stringify(value));
}

export function remove(name: string): void {
  storage?.removeItem(keyOf(name));
}

/** The names of all that is kept whose name begins with `prefix`. */
export function names(prefix: string): string[] {
  const start = keyOf(prefix);
  return Object.keys(storage ?? {})
    .filter((key) => key.startsWith(start))
    .map((key) => prefix + key.slice(start.length));
}

/** Returns the language, which belongs to the browser and not to a user. */
export function readLanguage(): string | null {
  return storage?.getItem(LANGUAGE) ?? null;
}

export function writeLanguage(language: string): void {
  set(LANGUAGE, language);
}

/** Returns the theme, which belongs to the browser and not to a user. */
export function readTheme(): string | null {
  return storage?.getItem(THEME) ?? null;
}

export function writeTheme(theme: string): void {
  set(THEME, theme);
}

/** Returns the contrast, which belongs to the browser, too. */
export function readContrast(): string | null {
  return storage?.getItem(CONTRAST) ?? null;
}

export function writeContrast(contrast: string): void {
  set(CONTRAST, contrast);
}

function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}

function set(key: string, text: string): boolean {
  try {
    storage?.setItem(key, text);
    return storage !== null;
  } catch {
    // No room.
    return false;
  }
}
