// Moves a document within its project's tree, or deletes it.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { api, ifMatch } from '../../api/http';
import { Dialog } from '../../ui/Dialog';
import { t } from '../../ui/language';
import type { Entity } from '../board';
import { FROM_HERE } from '../moves';
import { documentKey, flat, INDENT, type Node, reason, treeKey, useChanged } from './document';

interface MoveProps {
  document: Entity;
  /** The tree that it is in. */
  documents: readonly Node[];
  onClose: () => void;
}

export function Move({ document, documents, onClose }: MoveProps) {
  const changed = useChanged();
  const all = flat(documents).map(({ node }) => node);
  const now = all.find(({ children }) => children.some(({ id }) => id === document.id));
  const own = all.find(({ id }) => id === document.id);
  // Never below itself.
  const below = new Set([document.id, ...flat(own?.children ?? []).map(({ node }) => node.id)]);
  const [parent, setParent] = useState(now?.id ?? '');
  const siblings = (all.find(({ id }) => id === parent)?.children ?? (parent === '' ? documents : [])).filter(
    ({ id }) => id !== document.id,
  );
  const [position, setPosition] = useState<number | null>(null);
  const move = useMutation({
    mutationFn: () =>
      api<Entity>(`/api/onto/documents/${document.id}/move`, {
        method: 'POST',
        body: { parentId: parent || null, position },
        headers: FROM_HERE,
      }),
    onSuccess: async (document) => {
      await changed(document);
      onClose();
    },
  });
  return (
    <Dialog title={t('Move {name}', { name: document.name })} onClose={onClose}>
      <form
        className="editor"
        onSubmit={(event) => {
          event.preventDefault();
          move.mutate();
        }}
      >
        <label>
          {t('New location')}
          <select
            value={parent}
            onChange={(event) => {
              setParent(event.target.value);
              setPosition(null);
            }}
          >
            <option value="">{t('Top level')}</option>
            {flat(documents).map(({ node, depth }) =>
              below.has(node.id) ? null : (
                <option key={node.id} value={node.id}>
                  {INDENT.repeat(depth)}
                  {t('Under {title}', { title: node.title })}
                </option>
              ),
            )}
          </select>
        </label>
        <label>
          {t('Position')}
          <select
            value={position ?? ''}
            onChange={(event) => setPosition(event.target.value === '' ? null : Number(event.target.value))}
          >
            <option value="">{t('Last')}</option>
            {siblings.map((sibling, nth) => (
              <option key={sibling.id} value={nth}>
                {t('Before {title}', { title: sibling.title })}
              </option>
            ))}
          </select>
        </label>
        {move.isError ? (
          <p className="note bad" role="alert">
            {t('The document was not moved: {reason}', { reason: reason(move.error) })}
          </p>
        ) : null}
        <div className="controls">
          <button type="submit" className="primary" disabled={move.isPending}>
            {t('Move document')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function Delete({ document, onClose }: { document: Entity; onClose: () => void }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { id, projectId, version } = document;
  const remove = useMutation({
    mutationFn: () =>
      api(`/api/onto/documents/${id}`, { method: 'DELETE', headers: { ...ifMatch(version), ...FROM_HERE } }),
    onSuccess: async () => {
      await navigate({ to: '/work/$projectId/documents', params: { projectId } });
      queries.removeQueries({ queryKey: documentKey(id) });
      await queries.invalidateQueries({ queryKey: treeKey(projectId) });
    },
    onError: () => queries.invalidateQueries({ queryKey: documentKey(id) }),
  });
  return (
    <Dialog title={t('Delete {name}?', { name: document.name })} onClose={onClose}>
      <p>{t('Its links are deleted too. Child documents move up one level.')}</p>
      {remove.isError ? (
        <p className="note bad" role="alert">
          {t('The document was not deleted: {reason}', { reason: reason(remove.error) })}
        </p>
      ) : null}
      <div className="controls">
        <button type="button" disabled={remove.isPending} onClick={() => remove.mutate()}>
          {t('Delete document')}
        </button>
        <button type="button" onClick={onClose}>
          {t('Cancel')}
        </button>
      </div>
    </Dialog>
  );
}
