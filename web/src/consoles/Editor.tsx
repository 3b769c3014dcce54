// The editor of one console. It stands in a shadow root: the page's policy lets nobody write style elements, and there sheets are adopted instead.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { MSSQL, MySQL, PostgreSQL, SQLite, StandardSQL, sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { diff, unifiedMergeView } from '@codemirror/merge';
import { Annotation, Compartment, EditorState, type Extension, RangeSet, StateEffect, StateField } from '@codemirror/state';
import { Decoration, type DecorationSet, drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { type RefObject, useEffect, useRef } from 'react';
import type { Doc } from './doc';

/** How long lines are marked that came from elsewhere [ms]. */
const MARKED_MS = 8_000;
const DIALECTS = { postgresql: PostgreSQL, mysql: MySQL, sqlite: SQLite, mssql: MSSQL };

/** What others have written: neither typed nor undone here. */
const fromElsewhere = Annotation.define<boolean>();
const unmark = StateEffect.define<null>();
const marked = Decoration.line({ class: 'cm-from-elsewhere' });
const marks = StateField.define<DecorationSet>({
  create: () => RangeSet.empty,
  update(known, transaction) {
    if (transaction.effects.some((effect) => effect.is(unmark))) return RangeSet.empty;
    let next = known.map(transaction.changes);
    if (!transaction.annotation(fromElsewhere)) return next;
    const lines = new Set<number>();
    transaction.changes.iterChangedRanges((_, __, from, to) => {
      const { doc } = transaction.state;
      for (let line = doc.lineAt(from).number; line <= doc.lineAt(to).number; line += 1) lines.add(doc.line(line).from);
    });
    next = next.update({ filter: (from) => !lines.has(from), add: [...lines].sort((a, b) => a - b).map((from) => marked.range(from)) });
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--ink)', backgroundColor: 'var(--ground)', fontSize: '0.9rem' },
  '.cm-scroller': { fontFamily: "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', monospace", overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--quiet)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--accent) 8%, transparent)' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-from-elsewhere': { backgroundColor: 'color-mix(in srgb, var(--good) 20%, transparent)' },
});

/** The page's own colours: they can be read in light and in dark. */
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--busy)' },
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
]);

function languageOf(kind: string | null | undefined): Extension {
  if (kind === 'mongodb') return javascript();
  return sql({ dialect: DIALECTS[kind as keyof typeof DIALECTS] ?? StandardSQL });
}

/** An editor's view in a new shadow root of this element. */
function mount(host: HTMLElement, extensions: Extension, text: string): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const parent = document.createElement('div');
  parent.style.height = '100%';
  root.replaceChildren(parent);
  return new EditorView({ root, parent, state: EditorState.create({ doc: text, extensions: [theme, syntaxHighlighting(colours), lineNumbers(), extensions] }) });
}

interface Props {
  doc: Doc;
  /** What the outer controls reach the editor by. */
  view: RefObject<EditorView | null>;
  onRun: () => void;
}

export function Editor({ doc, view, onRun }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const run = useRef(onRun);
  run.current = onRun;
  const language = useRef(new Compartment());
  const kind = doc.about.kind;
  useEffect(() => {
    if (!host.current) return;
    const editor = mount(
      host.current,
      [
        keymap.of([{ key: 'Mod-Enter', run: () => (run.current(), true) }]),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        marks,
        language.current.of(languageOf(doc.about.kind)),
        // Tab stays the key that leaves the editor: people without a mouse must get out.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': 'Text of the console' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.every((one) => one.annotation(fromElsewhere))) doc.typed(update.state.doc.toString());
        }),
      ],
      doc.text,
    );
    view.current = editor;
    return () => {
      view.current = null;
      editor.destroy();
    };
  }, [doc, view]);
  useEffect(() => view.current?.dispatch({ effects: language.current.reconfigure(languageOf(kind)) }), [kind, view]);
  // What was merged in. The cursor stays where the user has it.
  const { text } = doc;
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const shown = editor.state.doc.toString();
    if (shown === doc.text) return;
    const wanted = doc.text.replaceAll(/\r\n?/g, '\n');
    const changes = diff(shown, wanted).map(({ fromA, toA, fromB, toB }) => ({ from: fromA, to: toA, insert: wanted.slice(fromB, toB) }));
    if (changes.length === 0) return;
    editor.dispatch({ changes, annotations: fromElsewhere.of(true) });
    const timer = setTimeout(() => view.current === editor && editor.dispatch({ effects: unmark.of(null) }), MARKED_MS);
    return () => clearTimeout(timer);
  }, [doc, text, view]);
  return <div ref={host} className="editor" />;
}

/** Before and after, one in the other; nothing can be written here. */
export function Changes({ before, after }: { before: string; after: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return;
    const editor = mount(
      host.current,
      [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        unifiedMergeView({ original: before, mergeControls: false }),
        EditorView.contentAttributes.of({ 'aria-label': 'What the agent has changed', tabindex: '0' }),
      ],
      after,
    );
    return () => editor.destroy();
  }, [before, after]);
  return <div ref={host} className="editor" />;
}
