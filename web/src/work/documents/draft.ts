// Stores the unsaved changes of a document in this browser, across reloads, until they are saved or discarded.
import * as localStore from '../../api/localStore';
import type { Entity } from '../board';

/** What people write of a document. */
export interface Text {
  title: string;
  content: string;
}

export interface Draft {
  /** The stored version that it was made of, … */
  version: number;
  /** … and what that says. */
  base: Text;
  text: Text;
}

const KEPT = 'document.';

/** Its text as editors have it, with ends of lines of one sort. */
export function textOf(document: Entity): Text {
  const { content } = document.properties as { content?: string | null };
  return { title: document.name, content: (content ?? '').replaceAll(/\r\n?/g, '\n') };
}

export function draftOf(document: Entity): Draft {
  const base = textOf(document);
  return { version: document.version, base, text: base };
}

/** What is different from what it was made of: nothing else is sent. */
export function written({ base, text }: Draft): Partial<Record<keyof Text, string>> {
  return {
    ...(text.title !== base.title && { title: text.title }),
    ...(text.content !== base.content && { content: text.content }),
  };
}

export function isSame(one: Text, other: Text): boolean {
  return one.title === other.title && one.content === other.content;
}

export function keep(id: string, { version, base, text }: Draft): void {
  if (isSame(base, text)) forget(id);
  else localStore.write(KEPT + id, { version, base, text });
}

export function forget(id: string): void {
  localStore.remove(KEPT + id);
}

/** What was kept of it; null: nothing, or nothing that can be read. */
export function kept(id: string): Draft | null {
  const draft = localStore.read(KEPT + id) as Draft | null;
  return draft && Number.isInteger(draft.version) && isText(draft.base) && isText(draft.text) ? draft : null;
}

function isText(text: Text | undefined): boolean {
  return typeof text?.title === 'string' && typeof text.content === 'string';
}
