// Synchronizes one open console between the editor and the server.
//
// Invariants: `text` is what the user sees, and only merges and the user change it; `base` is the stored text of `version`, on which `text` is based;
// there is one request at a time; text that is typed and not yet stored is kept in this browser until it is.
import { api, Problem, type Schemas } from '../api/http';
import * as localStore from '../api/localStore';
import { t } from '../ui/language';
import { both, merge } from './merge';

export type Console = Schemas['ConsoleBody'];
type Version = Schemas['VersionBody'];

/** Quiet after the last key before a save [ms]. */
const SAVE_AFTER_MS = 400;
/** Pause before a save that did not reach the server is retried, in milliseconds. */
const RETRY_MS = 2_000;
const KEPT = 'console.';

export type DocState = 'saved' | 'unsaved' | 'saving' | 'offline' | 'conflict' | 'gone';

/** What this browser keeps of what is not stored yet. `sent`: a save that may have arrived, or not. */
interface Kept {
  version: number;
  base: string;
  text: string;
  sent?: string | undefined;
}

export class Doc {
  readonly id: string;
  text: string;
  base: string;
  version: number;
  /** The stored console, where it and `text` can't be merged. */
  conflict: Console | null = null;
  /** Why the last save was refused, in words. */
  refused: unknown = null;
  state: DocState = 'saved';
  /** The text before and after what an agent changed last, as far as it came while the console was open. */
  agentEdit: { before: string; after: string } | null = null;
  #stored: Console;
  /** What was asked of `describe` and is not answered yet. */
  #asked: Schemas['ConsolePatch'][] = [];
  #sent: string | undefined;
  #isStale = false;
  #pumping: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    console: Console,
    private readonly changed: () => void,
  ) {
    this.id = console.id;
    this.#stored = console;
    this.text = this.base = console.content;
    this.version = console.version;
    const kept = read(this.id);
    if (!kept) return;
    ({ version: this.version, base: this.base, text: this.text } = kept);
    this.#sent = kept.sent;
    this.state = 'unsaved';
    this.#isStale = true;
    this.#later(0);
  }

  /** Its description: title, where it runs, … The user's changes are included at once, before they are stored. */
  get about(): Console {
    return Object.assign({}, this.#stored, ...this.#asked);
  }
  set about(console: Console) {
    // Answers may overtake each other.
    if (console.version >= this.#stored.version) this.#stored = console;
  }

  get isUnsaved(): boolean {
    return this.text !== this.base;
  }

  /** The user has changed the text. */
  typed(text: string): void {
    if (text === this.text || this.state === 'gone') return;
    this.text = text;
    this.refused = null;
    this.#keep();
    if (this.state !== 'conflict') {
      this.state = 'unsaved';
      this.#later(SAVE_AFTER_MS);
    }
    this.changed();
  }

  /** Another user may have stored this version; null: the number is unknown. */
  versionStored(version: number | null): void {
    if (this.state === 'gone' || (version !== null && version <= this.version)) return;
    this.#isStale = true;
    void this.flush();
  }

  /** Stores what is typed, as far as that can be done now. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#pumping ??= this.#pump().finally(() => {
      this.#pumping = undefined;
      // What came in the last moment.
      if (this.#isStale && this.state === 'saved') void this.flush();
    });
    return this.#pumping;
  }

  /** Of a conflict: the user's text takes the place of the stored one, or gives way to it, or both stand in the editor. */
  resolve(choice: 'mine' | 'theirs' | 'both'): void {
    const current = this.conflict;
    if (!current) return;
    if (choice === 'theirs') this.text = current.content;
    if (choice === 'both') this.text = both(this.base, this.text, current.content);
    this.base = current.content;
    this.version = current.version;
    this.conflict = null;
    this.#sent = undefined;
    this.#settle();
    this.#later(0);
    this.changed();
  }

  /** Takes back what an agent has changed last; what came after it stays. */
  async undoAgent(): Promise<void> {
    await this.flush();
    const { items } = await api<Schemas['VersionPage']>(`/api/consoles/${this.id}/versions?limit=100`);
    const nth = items.findIndex((one: Version) => one.modifiedBy === 'agent');
    const [made, before] = [items[nth], items[nth + 1]];
    if (!made || !before) throw new Error(t('The stored versions of this console contain no change by an agent.'));
    const text = merge(made.content, this.text, before.content);
    if (text === null) throw new Error(t('The same lines have changed since. Undo the change manually.'));
    this.agentEdit = null;
    this.typed(text);
    await this.flush();
  }

  /** Changes its description. */
  async describe(patch: Schemas['ConsolePatch']): Promise<void> {
    this.#asked.push(patch);
    this.changed();
    try {
      const console = await api<Console>(`/api/consoles/${this.id}`, { method: 'PATCH', body: patch });
      this.about = console;
      this.versionStored(console.version);
    } finally {
      this.#asked = this.#asked.filter((one) => one !== patch);
      this.changed();
    }
  }

  /** The console is deleted: stops saving, and removes what this browser kept. */
  leave(): void {
    clearTimeout(this.#timer);
    this.state = 'gone';
    localStore.remove(KEPT + this.id);
  }

  async #pump(): Promise<void> {
    try {
      while (this.state !== 'gone' && this.state !== 'conflict' && (this.#isStale || this.isUnsaved)) {
        if (this.#isStale) {
          this.#isStale = false;
          await this.#take(await api<Console>(`/api/consoles/${this.id}`));
        } else {
          await this.#save();
        }
        this.changed();
      }
    } catch (error) {
      this.#failed(error);
    }
    this.changed();
  }

  async #save(): Promise<void> {
    this.state = 'saving';
    this.changed();
    const { text: sent, version } = this;
    const unsure = this.#sent;
    this.#sent = sent;
    this.#keep();
    try {
      const saved = await api<Console>(`/api/consoles/${this.id}`, {
        method: 'PATCH',
        body: { content: sent, version },
      });
      this.#sent = undefined;
      // What was typed meanwhile was made of what was sent.
      this.#fold(sent, saved);
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'console_conflict') throw error;
      this.#sent = unsure;
      await this.#take(error.body.current as Console);
    }
  }

  /** Takes the stored console in. */
  async #take(console: Console): Promise<void> {
    if (console.version < this.version) return this.#settle();
    const base = await this.#baseOf(console);
    this.#sent = undefined;
    this.#fold(base, console);
  }

  /** What `text` was made of, of what is stored. A save whose answer was lost may have arrived: then it is the one. */
  async #baseOf(console: Console): Promise<string> {
    const sent = this.#sent;
    if (sent === undefined || console.version === this.version) return this.base;
    if (console.content === sent) return sent;
    const { items } = await api<Schemas['VersionPage']>(`/api/consoles/${this.id}/versions?limit=100`);
    const hasArrived = items.some(
      (one: Version) => one.version > this.version && one.modifiedBy === 'user' && one.content === sent,
    );
    return hasArrived ? sent : this.base;
  }

  #fold(base: string, console: Console): void {
    const merged = merge(base, this.text, console.content);
    this.about = console;
    if (merged === null) {
      this.conflict = console;
      this.state = 'conflict';
      this.#keep();
      return;
    }
    this.conflict = null;
    if (console.lastModifiedBy === 'agent' && console.version > this.version)
      this.agentEdit = { before: base, after: console.content };
    this.text = merged;
    this.base = console.content;
    this.version = console.version;
    this.#settle();
  }

  #settle(): void {
    this.state = this.isUnsaved ? 'unsaved' : 'saved';
    this.#keep();
  }

  #failed(error: unknown): void {
    if (error instanceof Problem && error.status === 404) {
      this.leave();
      return;
    }
    if (error instanceof Problem && error.status < 500 && error.status !== 429) {
      // Kept here until it is changed: the same request would be refused again.
      this.refused = error;
      this.state = 'unsaved';
      return;
    }
    this.#isStale = true;
    this.state = 'offline';
    this.#later(RETRY_MS);
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.flush(), ms);
  }

  #keep(): void {
    if (this.state === 'gone') return;
    const kept: Kept = { version: this.version, base: this.base, text: this.text, sent: this.#sent };
    if (this.isUnsaved) localStore.write(KEPT + this.id, kept);
    else localStore.remove(KEPT + this.id);
  }
}

function read(id: string): Kept | null {
  const kept = localStore.read(KEPT + id) as Kept | null;
  return kept && typeof kept.text === 'string' && typeof kept.base === 'string' && Number.isInteger(kept.version)
    ? kept
    : null;
}
