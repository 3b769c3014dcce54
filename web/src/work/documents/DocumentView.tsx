// Shows one document: the reader, the editor if it has unsaved changes, or the version history.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import { useRef, useState } from 'react';
import { Problem } from '../../api/http';
import { useMe } from '../../api/me';
import { Markdown } from '../../chat/Markdown';
import { Failed } from '../../ui/Failed';
import { rich, t } from '../../ui/language';
import { Ago, ReadOnlyKey, State, Waiting } from '../../ui/parts';
import type { Entity } from '../board';
import { change, documentKey, type Node, read, reason, STATES, useChanged } from './document';
import { type Draft, draftOf, forget, keep, kept, textOf } from './draft';
import { Delete, Move } from './Place';
import { Versions } from './Versions';
import { Writing } from './Writing';

interface DocumentViewProps {
  projectId: string;
  id: string;
  /** The tree that it is in. */
  documents: readonly Node[];
}

export function DocumentView({ projectId, id, documents }: DocumentViewProps) {
  const mayWrite = useMe().scopes.includes('write');
  const { view } = useSearch({ from: '/work/$projectId/documents/$documentId' });
  const document = useQuery({ queryKey: documentKey(id), queryFn: ({ signal }) => read(id, signal) });
  const [draft, setDraft] = useState<Draft | null>(() => (mayWrite ? kept(id) : null));
  const hasWritten = useRef(false);
  const write = (next: Draft | null) => {
    hasWritten.current = true;
    if (next) keep(id, next);
    else forget(id);
    setDraft(next);
  };
  if (document.isPending) return <Waiting what={t('the document')} />;
  const isGone =
    (document.error instanceof Problem && document.error.status === 404) ||
    (document.data && document.data.projectId !== projectId);
  if (isGone && draft === null) {
    return (
      <article>
        <h2>{t('Document not found')}</h2>
        <p>
          {t('It may have been deleted, or it belongs to another project.')}{' '}
          <Link to="/work/$projectId/documents" params={{ projectId }}>
            {t('All documents')}
          </Link>
        </p>
      </article>
    );
  }
  if (document.isError && draft === null) return <Failed reading={document} />;
  if (view === 'versions' && document.data) return <Versions document={document.data} />;
  if (draft) return <Writing id={id} draft={draft} write={write} />;
  if (!document.data) return null;
  return (
    <Reader
      document={document.data}
      documents={documents}
      edit={mayWrite ? () => setDraft(draftOf(document.data)) : null}
      hasWritten={hasWritten.current}
    />
  );
}

interface ReaderProps {
  document: Entity;
  documents: readonly Node[];
  /** Null: the caller may only read. */
  edit: (() => void) | null;
  /** Who comes from writing has the focus where writing began. */
  hasWritten: boolean;
}

function Reader({ document, documents, edit, hasWritten }: ReaderProps) {
  const { description } = document.properties as { description?: string | null };
  const { title, content } = textOf(document);
  const [asked, ask] = useState<'move' | 'delete' | null>(null);
  const about = { version: String(document.version), when: <Ago at={document.updatedAt} /> };
  return (
    <article aria-label={title}>
      <div className="title">
        <h2 dir="auto">{title}</h2>
        {edit ? <StateOf document={document} /> : <State state={document.stateKey} />}
        <div className="actions">
          {edit ? (
            <button type="button" autoFocus={hasWritten} onClick={edit}>
              {t('Edit')}
            </button>
          ) : null}
          <Link from="/work/$projectId/documents/$documentId" to="." search={{ view: 'versions' }} className="button">
            {t('Versions')}
          </Link>
          {edit ? (
            <>
              <button type="button" onClick={() => ask('move')}>
                {t('Move')}
              </button>
              <button type="button" onClick={() => ask('delete')}>
                {t('Delete')}
              </button>
            </>
          ) : null}
        </div>
      </div>
      {asked === 'move' ? <Move document={document} documents={documents} onClose={() => ask(null)} /> : null}
      {asked === 'delete' ? <Delete document={document} onClose={() => ask(null)} /> : null}
      <p className="quiet">
        {edit
          ? rich('Version {version}, {when}', about)
          : rich('Version {version}, {when}. {note}', {
              ...about,
              note: <ReadOnlyKey action={t('Changing documents')} />,
            })}
      </p>
      {description ? (
        <p dir="auto" className="quiet">
          {description}
        </p>
      ) : null}
      {content.trim() === '' ? (
        <p className="note quiet">{t(edit ? 'No text yet. Click “Edit” to write it.' : 'No text yet.')}</p>
      ) : (
        <Markdown text={content} isLive={false} />
      )}
    </article>
  );
}

/** How it stands: another state is shown at once, and undone with the reason where the server refuses. */
function StateOf({ document }: { document: Entity }) {
  const queries = useQueryClient();
  const changed = useChanged();
  const key = documentKey(document.id);
  const show = (stateKey: string) => queries.setQueryData<Entity>(key, (now) => now && { ...now, stateKey });
  const move = useMutation({
    mutationFn: ({ to }: { to: string; from: string }) => change(document.id, document.version, { stateKey: to }),
    onMutate: async ({ to }) => {
      // What was read before would show it as it was.
      await queries.cancelQueries({ queryKey: key, exact: true });
      show(to);
    },
    onSuccess: changed,
    onError: async (_, { from }) => {
      show(from);
      await queries.invalidateQueries({ queryKey: key });
    },
  });
  return (
    <>
      <select
        className="small"
        aria-label={t('Document state')}
        value={document.stateKey}
        disabled={move.isPending}
        onChange={(event) => move.mutate({ to: event.target.value, from: document.stateKey })}
      >
        {Object.entries(STATES).map(([state, words]) => (
          <option key={state} value={state}>
            {words}
          </option>
        ))}
      </select>
      {move.isError ? (
        <p className="note bad" role="alert">
          {t('The state was not changed: {reason}', { reason: reason(move.error) })}
        </p>
      ) : null}
    </>
  );
}
