// Shows the tree of a project's documents, and creates documents in it.
import { useMutation } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import type { FormEvent } from 'react';
import { api } from '../../api/http';
import { useMe } from '../../api/me';
import { t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';
import type { Entity } from '../board';
import { FROM_HERE } from '../moves';
import { flat, INDENT, type Node, useChanged } from './document';

interface TreeProps {
  projectId: string;
  /** Those at the top, with those below them. */
  documents: readonly Node[];
}

export function Tree({ projectId, documents }: TreeProps) {
  const mayWrite = useMe().scopes.includes('write');
  return (
    <div>
      {documents.length > 0 ? (
        <nav className="tree" aria-label={t('Documents')}>
          <Level projectId={projectId} documents={documents} />
        </nav>
      ) : null}
      {mayWrite ? <NewDocument projectId={projectId} documents={documents} /> : null}
    </div>
  );
}

function Level({ projectId, documents }: TreeProps) {
  return (
    <ul>
      {documents.map(({ id, title, stateKey, children }) => (
        <li key={id}>
          <Link
            to="/work/$projectId/documents/$documentId"
            params={{ projectId, documentId: id }}
            className={stateKey === 'archived' ? 'quiet' : undefined}
            dir="auto"
          >
            {title}
          </Link>
          {children.length > 0 ? <Level projectId={projectId} documents={children} /> : null}
        </li>
      ))}
    </ul>
  );
}

function NewDocument({ projectId, documents }: TreeProps) {
  const navigate = useNavigate();
  const changed = useChanged();
  const make = useMutation({
    mutationFn: ({ title, parentId }: { title: string; parentId: string | null }) =>
      api<Entity>('/api/onto/documents/create', {
        method: 'POST',
        body: { projectId, title, ...(parentId && { parentId }) },
        headers: FROM_HERE,
      }),
    onSuccess: async (document) => {
      await changed(document);
      await navigate({ to: '/work/$projectId/documents/$documentId', params: { projectId, documentId: document.id } });
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    make.mutate(
      { title: String(given.get('title')).trim(), parentId: String(given.get('below') ?? '') || null },
      { onSuccess: () => form.reset() },
    );
  };
  return (
    <form className="new-document" onSubmit={submit}>
      <input
        name="title"
        required
        pattern=".*\S.*"
        aria-label={t('New document title')}
        placeholder={t('New document title')}
      />
      <div className="controls">
        {documents.length > 0 ? (
          <select name="below" aria-label={t('Parent document')}>
            <option value="">{t('Top level')}</option>
            {flat(documents).map(({ node, depth }) => (
              <option key={node.id} value={node.id}>
                {INDENT.repeat(depth)}
                {t('Under {title}', { title: node.title })}
              </option>
            ))}
          </select>
        ) : null}
        <button type="submit" disabled={make.isPending}>
          {t('Create document')}
        </button>
      </div>
      {make.isError ? <ErrorNote error={make.error} /> : null}
    </form>
  );
}
