// Reads and changes a project's documents.
import { useQueryClient } from '@tanstack/react-query';
import { api, ifMatch, Problem, type Schemas } from '../../api/http';
import { t } from '../../ui/language';
import type { Entity } from '../board';
import { FROM_HERE } from '../moves';

/** The states of documents, in the order in which they are gone through, and what they are called. */
export const STATES = {
  draft: t('Draft'),
  in_review: t('In review'),
  ready: t('Ready'),
  published: t('Published'),
  archived: t('Archived'),
};

export type Node = Schemas['DocumentNode'];

/** All of a tree in its order, with how many are above each. */
export function flat(documents: readonly Node[], depth = 0): { node: Node; depth: number }[] {
  return documents.flatMap((node) => [{ node, depth }, ...flat(node.children, depth + 1)]);
}

/** How far a title is moved to the right for each level above it. */
export const INDENT = '\u2003';

export const treeKey = (projectId: string) => ['documents', projectId] as const;
export const documentKey = (id: string) => ['document', id] as const;
export const historyKey = (id: string) => ['document', id, 'history'] as const;

export function read(id: string, signal?: AbortSignal): Promise<Entity> {
  return api<Entity>(`/api/onto/documents/${id}`, { ...(signal && { signal }) });
}

/** Changes the document, if it still is at this version; how it is then. */
export function change(id: string, version: number, fields: Record<string, string | null>): Promise<Entity> {
  return api<Entity>(`/api/onto/documents/${id}`, {
    method: 'PATCH',
    body: fields,
    headers: { ...ifMatch(version), ...FROM_HERE },
  });
}

/** Takes in what a change has made of a document, for all that shows it. */
export function useChanged(): (document: Entity) => Promise<void> {
  const queries = useQueryClient();
  return async (document) => {
    queries.setQueryData(documentKey(document.id), document);
    await Promise.all([
      queries.invalidateQueries({ queryKey: treeKey(document.projectId) }),
      queries.invalidateQueries({ queryKey: historyKey(document.id) }),
    ]);
  };
}

export function isConflict(error: unknown): boolean {
  return error instanceof Problem && error.code === 'version_conflict';
}

/** Why a change was not made, in words for people. */
export function reason(error: Error): string {
  if (!(error instanceof Problem)) return t('the server did not respond. Try again.');
  if (isConflict(error))
    return t('someone else changed it in the meantime. The current version is shown. Try again if needed.');
  return error.status === 404 ? t('it was deleted in the meantime.') : `${error.message} (${error.code}).`;
}
