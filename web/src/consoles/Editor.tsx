// The text editor of one console.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { javascript } from '@codemirror/lang-javascript';
import { MSSQL, MySQL, PostgreSQL, SQLite, StandardSQL, sql } from '@codemirror/lang-sql';
import { bracketMatching } from '@codemirror/language';
import { diff } from '@codemirror/merge';
import { Annotation, Compartment, type Extension, RangeSet, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
} from '@codemirror/view';
import { type RefObject, useEffect, useRef } from 'react';
import { mount } from '../ui/editor';
import { t } from '../ui/language';
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
    next = next.update({
      filter: (from) => !lines.has(from),
      add: [...lines].sort((a, b) => a - b).map((from) => marked.range(from)),
    });
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const theme = EditorView.theme({
  '.cm-from-elsewhere': { backgroundColor: 'color-mix(in srgb, var(--good) 20%, transparent)' },
});

function languageOf(kind: string | null | undefined): Extension {
  if (kind === 'mongodb') return javascript();
  return sql({ dialect: DIALECTS[kind as keyof typeof DIALECTS] ?? StandardSQL });
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
        keymap.of([
          {
            key: 'Mod-Enter',
            run: () => {
              run.current();
              return true;
            },
          },
        ]),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        marks,
        theme,
        language.current.of(languageOf(doc.about.kind)),
        // Tab stays the key that leaves the editor: people without a mouse must get out.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': t('Console text') }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.every((one) => one.annotation(fromElsewhere)))
            doc.typed(update.state.doc.toString());
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: a change of `text` starts the effect, which reads `doc.text`: the user may have typed since this rendering.
  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const shown = editor.state.doc.toString();
    if (shown === doc.text) return;
    const wanted = doc.text.replaceAll(/\r\n?/g, '\n');
    const changes = diff(shown, wanted).map(({ fromA, toA, fromB, toB }) => ({
      from: fromA,
      to: toA,
      insert: wanted.slice(fromB, toB),
    }));
    if (changes.length === 0) return;
    editor.dispatch({ changes, annotations: fromElsewhere.of(true) });
    const timer = setTimeout(() => view.current === editor && editor.dispatch({ effects: unmark.of(null) }), MARKED_MS);
    return () => clearTimeout(timer);
  }, [doc, text, view]);
  return <div ref={host} className="editor" />;
}
