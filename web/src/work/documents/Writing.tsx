// Edits a document. A save applies to the version that the draft is based on; if a newer version exists, both are shown, and nothing is saved or
// discarded until the user chooses.
import { useMutation } from '@tanstack/react-query';
import { type KeyboardEvent, useState } from 'react';
import { both, merge } from '../../consoles/merge';
import { Dialog } from '../../ui/Dialog';
import { t } from '../../ui/language';
import { lazyPart } from '../../ui/lazyView';
import type { Entity } from '../board';
import { change, isConflict, read, reason, useChanged } from './document';
import { type Draft, draftOf, isSame, textOf, written } from './draft';

const TextEditor = lazyPart(async () => (await import('./TextEditor')).default, t('the editor'));
const Changes = lazyPart(async () => (await import('../../ui/editor')).Changes, t('the changes'));

interface WritingProps {
  id: string;
  draft: Draft;
  /** Null: the draft is saved or discarded. */
  write: (draft: Draft | null) => void;
}

export function Writing({ id, draft, write }: WritingProps) {
  const changed = useChanged();
  /** What is stored, where that is not what the draft was made of. */
  const [stored, setStored] = useState<Entity | null>(null);
  const [asksToLeave, askToLeave] = useState(false);
  /** Counts texts that replaced the draft: each gets a new editor. */
  const [count, setCount] = useState(0);
  const save = useMutation({
    mutationFn: async (draft: Draft) => {
      try {
        return await change(id, draft.version, written(draft));
      } catch (error) {
        if (!isConflict(error)) throw error;
        const now = await read(id);
        // It may be this very text, where the answer of an earlier save was lost.
        if (isSame(textOf(now), draft.text)) return now;
        setStored(now);
        return null;
      }
    },
    onSuccess: async (document) => {
      if (document === null) return;
      const refreshed = changed(document);
      write(null);
      await refreshed;
    },
  });
  const isUnsaved = !isSame(draft.base, draft.text);
  const mayNot = save.isPending || draft.text.title.trim() === '' || !isUnsaved || stored !== null;
  const saveIt = () => {
    if (!mayNot) save.mutate(draft);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 's' || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
    event.preventDefault();
    saveIt();
  };
  const resolve = async (choice: Choice, now: Entity) => {
    setStored(null);
    const theirs = draftOf(now);
    if (choice === 'theirs') {
      const refreshed = changed(now);
      write(null);
      await refreshed;
    } else if (choice === 'mine') {
      const mine = { ...theirs, text: draft.text };
      write(mine);
      save.mutate(mine);
    } else {
      write({ ...theirs, text: together(draft, now) });
      setCount(count + 1);
    }
  };
  return (
    <article aria-label={draft.text.title} onKeyDown={onKeyDown}>
      <form
        className="writing"
        onSubmit={(event) => {
          event.preventDefault();
          saveIt();
        }}
      >
        <div className="title">
          {/* The user has just started to edit: the focus is expected here. */}
          <input
            autoFocus
            required
            className="fill"
            aria-label={t('Document title')}
            value={draft.text.title}
            onChange={(event) => write({ ...draft, text: { ...draft.text, title: event.target.value } })}
          />
          <button type="submit" className="primary" disabled={mayNot}>
            {t('Save')}
          </button>
          <button type="button" onClick={() => (isUnsaved ? askToLeave(true) : write(null))}>
            {t('Stop editing')}
          </button>
        </div>
        <p className="quiet" role="status">
          {save.isPending
            ? t('Saving…')
            : isUnsaved
              ? t('Not saved yet, kept in this browser. Based on version {version}.', {
                  version: String(draft.version),
                })
              : t('No unsaved changes.')}
        </p>
        {save.isError ? (
          <p className="note bad" role="alert">
            {t('Not saved: {reason} Your text is kept in this browser.', { reason: reason(save.error) })}
          </p>
        ) : null}
        {stored ? <Conflict draft={draft} stored={stored} resolve={(choice) => void resolve(choice, stored)} /> : null}
        <TextEditor
          key={count}
          text={draft.text.content}
          onChange={(content) => write({ ...draft, text: { ...draft.text, content } })}
          onSave={saveIt}
        />
      </form>
      {asksToLeave ? (
        <Dialog title={t('Discard your changes?')} onClose={() => askToLeave(false)}>
          <p>{t('They are not saved and can’t be recovered.')}</p>
          <div className="controls">
            <button type="button" onClick={() => write(null)}>
              {t('Discard changes')}
            </button>
            <button type="button" onClick={() => askToLeave(false)}>
              {t('Keep editing')}
            </button>
          </div>
        </Dialog>
      ) : null}
    </article>
  );
}

type Choice = 'mine' | 'theirs' | 'both';

/** Both changes in one text; where they are in the same lines, these stand there twice, between marks. */
function together({ base, text }: Draft, now: Entity): Draft['text'] {
  const theirs = textOf(now);
  return {
    title: text.title === base.title ? theirs.title : text.title,
    content: merge(base.content, text.content, theirs.content) ?? both(base.content, text.content, theirs.content),
  };
}

function Conflict({ draft, stored, resolve }: { draft: Draft; stored: Entity; resolve: (choice: Choice) => void }) {
  const theirs = textOf(stored);
  return (
    <section className="note bad" aria-label={t('Conflict')}>
      <p role="alert">
        {t(
          'Someone else saved version {version} in the meantime. Nothing is lost: your text is kept below. Choose how to continue.',
          { version: String(stored.version) },
        )}
      </p>
      {theirs.title === draft.text.title ? null : (
        <p>{t('Their title: “{theirs}”. Your title: “{yours}”.', { theirs: theirs.title, yours: draft.text.title })}</p>
      )}
      <div className="beside">
        <div>
          <h3>{t('Your changes')}</h3>
          <Changes before={draft.base.content} after={draft.text.content} label={t('Your changes')} />
        </div>
        <div>
          <h3>{t('Their changes')}</h3>
          <Changes before={draft.base.content} after={theirs.content} label={t('Their changes')} />
        </div>
      </div>
      <div className="controls">
        <button type="button" onClick={() => resolve('both')}>
          {t('Merge both')}
        </button>
        <button type="button" onClick={() => resolve('mine')}>
          {t('Save mine')}
        </button>
        <button type="button" onClick={() => resolve('theirs')}>
          {t('Use theirs')}
        </button>
      </div>
    </section>
  );
}
