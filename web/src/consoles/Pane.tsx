// The console pane next to a chat: tabs, the editor of the selected console, its data source, and the result.
import type { EditorView } from '@codemirror/view';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { confirmed } from '../ui/Dialog';
import { Changes } from '../ui/editor';
import { t } from '../ui/language';
import { ErrorNote, Payload } from '../ui/parts';
import type { Consoles } from './consoles';
import type { Doc } from './doc';
import { Editor } from './Editor';
import { Grid } from './Grid';
import { Schema } from './Schema';
import type { Answer } from './table';

const STATES: Record<Doc['state'], string> = {
  saved: t('Saved'),
  unsaved: t('Not saved yet'),
  saving: t('Saving…'),
  offline: t('Server unreachable. Changes are kept in this browser and saved later.'),
  conflict: t('Conflicting changes'),
  gone: t('Deleted'),
};

export default function Pane({ consoles, onFold }: { consoles: Consoles; onFold: () => void }) {
  const [error, setError] = useState<unknown>(null);
  const attempt = (act: () => Promise<unknown>) => {
    setError(null);
    act().catch(setError);
  };
  const { open, closed, seen } = consoles;
  return (
    <aside className="consoles" aria-label={t('Consoles')}>
      <div className="tabs">
        <div role="tablist" aria-label={t('Open consoles')}>
          {open.map((doc) => (
            <button
              key={doc.id}
              type="button"
              role="tab"
              id={`tab-${doc.id}`}
              aria-selected={doc === seen}
              aria-controls="console"
              tabIndex={doc === seen ? 0 : -1}
              onClick={() => consoles.show(doc.id)}
              onKeyDown={(event) => {
                const step = { [FORWARD]: 1, [BACKWARD]: -1 }[event.key];
                const next = step === undefined ? undefined : open.at((open.indexOf(doc) + step) % open.length);
                if (!next) return;
                consoles.show(next.id);
                document.getElementById(`tab-${next.id}`)?.focus();
              }}
            >
              {doc.id === consoles.pinned ? <span title={t('Agents use this console')}>◆ </span> : null}
              {consoles.isRestored(doc.id) ? <span title={t('Restored from an earlier visit')}>↺ </span> : null}
              {doc.about.isTemporary ? (
                <i dir="auto" title={t('Temporary')}>
                  {doc.about.title}
                </i>
              ) : (
                <bdi>{doc.about.title}</bdi>
              )}
              {doc.isUnsaved ? ' •' : ''}
            </button>
          ))}
        </div>
        <button
          type="button"
          className="plain small"
          aria-label={t('New console')}
          onClick={() => attempt(() => consoles.make(seen?.about.kind, seen?.about.dataSourceId))}
        >
          +
        </button>
        {closed.length > 0 ? (
          <select aria-label={t('Reopen a console')} value="" onChange={(event) => consoles.show(event.target.value)}>
            <option value="">{t('Reopen…')}</option>
            {closed.map((doc) => (
              <option key={doc.id} value={doc.id}>
                {doc.about.title}
              </option>
            ))}
          </select>
        ) : null}
        <span className="fill" />
        <button type="button" className="plain small" aria-label={t('Hide consoles')} onClick={onFold}>
          ✕
        </button>
      </div>
      {error ? <ErrorNote error={error} /> : null}
      {consoles.error ? <ErrorNote error={consoles.error} /> : null}
      {seen ? (
        <One key={seen.id} doc={seen} consoles={consoles} attempt={attempt} />
      ) : (
        <p className="note quiet">{t('No console is open. Create one with +.')}</p>
      )}
    </aside>
  );
}

interface OneProps {
  doc: Doc;
  consoles: Consoles;
  attempt: (act: () => Promise<unknown>) => void;
}

function One({ doc, consoles, attempt }: OneProps) {
  const editor = useRef<EditorView | null>(null);
  const me = useMe();
  const [showsChanges, setShowsChanges] = useState(false);
  const [showsSchema, setShowsSchema] = useState(false);
  const run = useRun(doc, `/api/projects/${me.projectId}/data-sources`, editor);
  return (
    <div className="console" role="tabpanel" id="console" aria-labelledby={`tab-${doc.id}`}>
      <div className="controls">
        <Title key={doc.about.title} doc={doc} attempt={attempt} />
        {consoles.isRestored(doc.id) ? <span className="quiet">{t('Restored')}</span> : null}
        {doc.about.isTemporary ? <span className="quiet">{t('Temporary')}</span> : null}
        <span role="status" className="quiet">
          {STATES[doc.state]}
        </span>
        {doc.about.isTemporary ? (
          <button
            type="button"
            className="plain small"
            title={t('Temporary: deleted after 30 days without use')}
            onClick={() => attempt(() => doc.describe({ isTemporary: false }))}
          >
            {t('Keep')}
          </button>
        ) : null}
        <span className="fill" />
        {doc.id === consoles.pinned ? (
          <span className="quiet">{t('Used by agents')}</span>
        ) : (
          <button type="button" className="small" onClick={() => attempt(() => consoles.pin(doc.id))}>
            {t('Attach')}
          </button>
        )}
        <button type="button" className="plain small" onClick={() => consoles.close(doc.id)}>
          {t('Close')}
        </button>
        <button
          type="button"
          className="plain small"
          onClick={() =>
            void confirmed({
              title: t('Delete the console “{title}”?', { title: doc.about.title }),
              detail: t('Its text and its versions are deleted.'),
              action: t('Delete console'),
            }).then((isAgreed) => isAgreed && attempt(() => consoles.remove(doc)))
          }
        >
          {t('Delete')}
        </button>
      </div>
      <div className="controls">
        <Place doc={doc} attempt={attempt} />
        <button
          type="button"
          className="primary small"
          disabled={run.isBusy}
          title={t('Run the selection, or everything (Ctrl+Enter)')}
          onClick={() => run.start('query')}
        >
          {t('{kind, select, verb {Run} other {Run}}', { kind: 'verb' })}
        </button>
        <button type="button" className="small" disabled={run.isBusy} onClick={() => run.start('explain')}>
          {t('Explain')}
        </button>
        {run.isBusy ? (
          <button type="button" className="small" onClick={run.cancel}>
            {t('Cancel')}
          </button>
        ) : null}
        <span className="fill" />
        <button
          type="button"
          className="plain small"
          aria-expanded={showsSchema}
          onClick={() => setShowsSchema(!showsSchema)}
        >
          {t('Schema')}
        </button>
      </div>
      {doc.agentEdit ? (
        <div className="controls note">
          <span>{t('An agent changed this console.')}</span>
          <button
            type="button"
            className="plain small"
            aria-expanded={showsChanges}
            onClick={() => setShowsChanges(!showsChanges)}
          >
            {t('Show changes')}
          </button>
          <button type="button" className="plain small" onClick={() => attempt(() => doc.undoAgent())}>
            {t("Undo the agent's change")}
          </button>
        </div>
      ) : null}
      {doc.refused ? <ErrorNote error={doc.refused} /> : null}
      {doc.conflict ? <Conflict doc={doc} /> : null}
      {showsSchema && doc.about.dataSourceId ? (
        <Schema
          sourceId={doc.about.dataSourceId}
          database={doc.about.database ?? undefined}
          onName={(name) => {
            const view = editor.current;
            if (!view) return;
            view.dispatch(view.state.replaceSelection(name));
            view.focus();
          }}
        />
      ) : null}
      {showsChanges && doc.agentEdit ? <Changes {...doc.agentEdit} label={t('Changes by the agent')} /> : null}
      <Editor doc={doc} view={editor} onRun={() => run.start('query')} />
      {run.isBusy ? (
        <p className="note quiet" role="status">
          {t('Running…')}
        </p>
      ) : null}
      {run.error ? <ErrorNote error={run.error} /> : null}
      {run.plan === undefined ? null : (
        <section aria-label={t('Plan')} className="answer">
          <Payload value={run.plan} />
        </section>
      )}
      {run.answer ? <Grid key={run.count} answer={run.answer} title={doc.about.title} /> : null}
    </div>
  );
}

function Title({ doc, attempt }: { doc: Doc; attempt: OneProps['attempt'] }) {
  const [title, setTitle] = useState(doc.about.title);
  const rename = () => {
    const wanted = title.trim();
    if (wanted === '') setTitle(doc.about.title);
    else if (wanted !== doc.about.title) attempt(() => doc.describe({ title: wanted, isTemporary: false }));
  };
  return (
    <input
      aria-label={t('Console title')}
      value={title}
      maxLength={200}
      onChange={(event) => setTitle(event.target.value)}
      onBlur={rename}
      onKeyDown={(event) => event.key === 'Enter' && rename()}
    />
  );
}

/** Where a console runs: a data source, and a database of it. */
function Place({ doc, attempt }: { doc: Doc; attempt: OneProps['attempt'] }) {
  const me = useMe();
  const path = `/api/projects/${me.projectId}/data-sources`;
  const sources = useQuery({
    queryKey: ['data-sources'],
    queryFn: () => api<Schemas['DataSources']>(path),
    staleTime: 30_000,
  });
  const { dataSourceId, database } = doc.about;
  const databases = useQuery({
    queryKey: ['databases', dataSourceId],
    queryFn: () => api<Schemas['Databases']>(`${path}/${dataSourceId}/databases`),
    enabled: Boolean(dataSourceId),
    staleTime: 60_000,
  });
  return (
    <>
      <select
        aria-label={t('Data source')}
        value={dataSourceId ?? ''}
        onChange={({ target: { value } }) => {
          const source = sources.data?.items.find((one) => one.id === value);
          attempt(() => doc.describe({ dataSourceId: source?.id ?? null, kind: source?.kind ?? null, database: null }));
        }}
      >
        <option value="">{t('No data source')}</option>
        {sources.data?.items.map((source) => (
          <option key={source.id} value={source.id}>
            {source.name} ({source.kind})
          </option>
        ))}
      </select>
      {dataSourceId && (databases.data?.items.length ?? 0) > 0 ? (
        <select
          aria-label={t('Database')}
          value={database ?? ''}
          onChange={(event) => attempt(() => doc.describe({ database: event.target.value || null }))}
        >
          <option value="">{t('Default database')}</option>
          {databases.data?.items.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : null}
    </>
  );
}

/** Both texts, and the choice between them. */
function Conflict({ doc }: { doc: Doc }) {
  return (
    <section className="note bad" aria-label={t('Conflict')}>
      <p role="alert">{t('Someone else changed the same lines. Your text is kept. Choose which version to save.')}</p>
      <div className="beside">
        <div>
          <h4>{t('Yours')}</h4>
          <Payload value={doc.text} />
        </div>
        <div>
          <h4>{t('Theirs')}</h4>
          <Payload value={doc.conflict?.content} />
        </div>
      </div>
      <div className="controls">
        <button type="button" onClick={() => doc.resolve('mine')}>
          {t('Keep mine')}
        </button>
        <button type="button" onClick={() => doc.resolve('theirs')}>
          {t('Use theirs')}
        </button>
        <button type="button" onClick={() => doc.resolve('both')}>
          {t('Merge manually')}
        </button>
      </div>
    </section>
  );
}

interface Outcome {
  answer?: Answer;
  plan?: unknown;
  error?: unknown;
}

/** Runs what is selected in the editor, or all of it. */
function useRun(doc: Doc, path: string, editor: { current: EditorView | null }) {
  const [outcome, setOutcome] = useState<Outcome>({});
  const [count, setCount] = useState(0);
  const [isBusy, setBusy] = useState(false);
  const request = useRef<AbortController | null>(null);
  useEffect(() => () => request.current?.abort(), []);
  const start = (what: 'query' | 'explain') => {
    const { dataSourceId, database } = doc.about;
    const { from = 0, to = 0 } = editor.current?.state.selection.main ?? {};
    const query = (from === to ? doc.text : (editor.current?.state.sliceDoc(from, to) ?? '')).trim();
    if (!dataSourceId) return setOutcome({ error: new Error(t('Choose a data source for this console first.')) });
    if (query === '') return setOutcome({ error: new Error(t('The console is empty. Write a query first.')) });
    request.current?.abort();
    const own = new AbortController();
    request.current = own;
    setBusy(true);
    setOutcome({});
    void api<unknown>(`${path}/${dataSourceId}/${what}`, {
      method: 'POST',
      body: { query, database: database ?? undefined },
      signal: own.signal,
    })
      .then(
        (answer) =>
          what === 'query' ? { answer: answer as Answer } : { plan: (answer as { plan?: unknown }).plan ?? answer },
        (error: unknown) => ({ error: own.signal.aborted ? new Error(t('Query cancelled.')) : error }),
      )
      .then((outcome: Outcome) => {
        if (request.current !== own) return;
        setBusy(false);
        setCount((known) => known + 1);
        setOutcome(outcome);
      });
  };
  return { ...outcome, count, isBusy, start, cancel: () => request.current?.abort() };
}
