// The consoles of a conversation: which are open, which is selected, and which is attached to the agents.
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { api, type Schemas } from '../api/http';
import * as localStore from '../api/localStore';
import { client } from '../stream';
import { t } from '../ui/language';
import type { Console, Doc } from './doc';

/** What a message brings along of each console. */
export interface Attached {
  id: string;
  title: string;
  content: string;
  version: number;
  databaseType?: string;
  databaseId?: string;
  database?: string;
}
/** As many as a message may bring. */
const ATTACHED_MAX = 20;
const CLOSED = 'consoles.closed.';
const FOLDED = 'consoles.folded';

/** What keeps an open console the same as the stored one. Loaded with the first console: most conversations have none. */
let docs: typeof import('./doc') | undefined;

export class Consoles {
  readonly #docs = new Map<string, Doc>();
  #closed: Set<string>;
  /** Those that were there when the conversation was opened. */
  #restored: Set<string> | undefined;
  #listeners = new Set<() => void>();
  #seen: string | null = null;
  #count = 0;
  pinned: string | null = null;
  isFolded = localStore.read(FOLDED) === true;
  isLoaded = false;
  error: unknown = null;

  constructor(readonly conversationId: string) {
    const closed = localStore.read(CLOSED + conversationId);
    this.#closed = new Set(Array.isArray(closed) ? closed.filter((id) => typeof id === 'string') : []);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  /** Another number after each change. */
  readonly count = (): number => this.#count;
  readonly #changed = (): void => {
    this.#count += 1;
    for (const [id, doc] of this.#docs) if (doc.state === 'gone') this.#docs.delete(id);
    for (const listener of [...this.#listeners]) listener();
  };

  get open(): Doc[] {
    return [...this.#docs.values()].filter((doc) => !this.#closed.has(doc.id));
  }
  get closed(): Doc[] {
    return [...this.#docs.values()].filter((doc) => this.#closed.has(doc.id));
  }
  get seen(): Doc | undefined {
    const open = this.open;
    return open.find((doc) => doc.id === this.#seen) ?? open.find((doc) => doc.id === this.pinned) ?? open[0];
  }

  /** Follows the conversation until the returned function is called. */
  follow(): () => void {
    void this.load();
    const follower = client.follow(this.conversationId, {
      onEvent: (event) => {
        const notice = event as { type: string; consoleId?: string; version?: number; tool?: string; status?: string };
        if (notice.type === 'console_modification' && notice.consoleId)
          this.#versionStored(notice.consoleId, notice.version ?? null);
        else if (notice.type === 'console_creation' && notice.consoleId) this.#versionStored(notice.consoleId, null);
        else if (
          notice.type === 'snapshot' ||
          notice.type === 'done' ||
          (notice.tool === 'switch_console' && notice.status !== 'started')
        )
          void this.load(notice.tool !== undefined);
      },
    });
    const again = () => void this.load();
    window.addEventListener('online', again);
    return () => {
      window.removeEventListener('online', again);
      follower.close();
      for (const doc of this.#docs.values()) void doc.flush();
    };
  }

  /** Reads which consoles there are. `shows`: the one that agents work on comes to the front. */
  async load(shows = false): Promise<void> {
    try {
      const [conversation, page] = await Promise.all([
        api<Schemas['ConversationDetail']>(`/api/conversations/${this.conversationId}`),
        api<Schemas['ConsolePage']>(`/api/consoles?limit=100&conversationId=${this.conversationId}`),
      ]);
      const { attachedConsole } = conversation;
      if (page.items.length > 0 || attachedConsole) docs ??= await import('./doc');
      // The newest change is first there; tabs stand in the order in which they were made.
      for (const console of page.items.toSorted((one, other) => one.createdAt.localeCompare(other.createdAt)))
        this.#put(console);
      if (attachedConsole && !this.#docs.has(attachedConsole.id))
        this.#put(await api<Console>(`/api/consoles/${attachedConsole.id}`));
      // What was there when the conversation was opened is of an earlier visit.
      this.#restored ??= new Set(this.#docs.keys());
      this.pinned = attachedConsole?.id ?? null;
      if (shows && this.pinned) this.show(this.pinned);
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.isLoaded = true;
    this.#changed();
  }

  /** Whether a console is of an earlier visit. */
  isRestored(id: string): boolean {
    return this.#restored?.has(id) ?? false;
  }

  async make(kind?: string | null, dataSourceId?: string | null): Promise<void> {
    const body: Schemas['NewConsoleBody'] = {
      title: t('Console {number}', { number: this.#docs.size + 1 }),
      content: '',
      isTemporary: true,
      conversationId: this.conversationId,
      kind: kind ?? null,
      dataSourceId: dataSourceId ?? null,
    };
    docs ??= await import('./doc');
    const console = await api<Console>('/api/consoles', { method: 'POST', body });
    this.#put(console);
    this.show(console.id);
    if (this.pinned === null) await this.pin(console.id);
  }

  async pin(id: string | null): Promise<void> {
    await api(`/api/conversations/${this.conversationId}/console`, { method: 'PUT', body: { consoleId: id } });
    this.pinned = id;
    this.#changed();
  }

  async remove(doc: Doc): Promise<void> {
    await api(`/api/consoles/${doc.id}`, { method: 'DELETE' });
    doc.leave();
    if (this.pinned === doc.id) this.pinned = null;
    this.#changed();
  }

  show(id: string): void {
    this.#seen = id;
    if (this.#closed.delete(id)) this.#keepClosed();
    this.#changed();
  }

  close(id: string): void {
    this.#closed.add(id);
    this.#keepClosed();
    this.#changed();
  }

  fold(isFolded: boolean): void {
    this.isFolded = isFolded;
    localStore.write(FOLDED, isFolded);
    this.#changed();
  }

  /** What goes along with a message: all that is open, as it is stored. What is typed is stored first. */
  readonly attached = async (): Promise<{ consoles?: Attached[]; consoleId?: string }> => {
    const open = this.open;
    const { seen } = this;
    if (open.length === 0) return {};
    await Promise.all(open.map((doc) => doc.flush()));
    const pinnedFirst = open.toSorted(
      (one, other) => Number(other.id === this.pinned) - Number(one.id === this.pinned),
    );
    const consoles = pinnedFirst.slice(0, ATTACHED_MAX).map((doc) => ({
      id: doc.id,
      title: doc.about.title,
      content: doc.base,
      version: doc.version,
      ...(doc.about.kind && { databaseType: doc.about.kind }),
      ...(doc.about.dataSourceId && { databaseId: doc.about.dataSourceId }),
      ...(doc.about.database && { database: doc.about.database }),
    }));
    return { consoles, ...(seen && { consoleId: seen.id }) };
  };

  #keepClosed(): void {
    localStore.write(CLOSED + this.conversationId, [...this.#closed]);
  }

  #put(console: Console): void {
    const doc = this.#docs.get(console.id);
    if (!doc && docs) this.#docs.set(console.id, new docs.Doc(console, this.#changed));
    else if (!doc) return;
    else if (console.version > doc.version) doc.versionStored(console.version);
    else if (console.version === doc.version) doc.about = console;
  }

  /** Another version of a console may be stored; null: its number is unknown. */
  #versionStored(id: string, version: number | null): void {
    const doc = this.#docs.get(id);
    if (doc) doc.versionStored(version);
    else void this.load();
  }
}

/** The consoles of a conversation, live. */
export function useConsoles(conversationId: string): Consoles {
  const consoles = useMemo(() => new Consoles(conversationId), [conversationId]);
  useEffect(() => consoles.follow(), [consoles]);
  useSyncExternalStore(consoles.subscribe, consoles.count);
  return consoles;
}
