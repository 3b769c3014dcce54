// Text editors. Each lives in a shadow root with adopted style sheets, since the content security policy forbids style elements.
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { unifiedMergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, lineNumbers, ViewPlugin, type ViewUpdate } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'react';
import { t } from './language';

const theme = EditorView.theme({
  '&': { height: '100%', color: 'var(--ink)', backgroundColor: 'var(--ground)', fontSize: '0.9rem' },
  '.cm-scroller': { fontFamily: "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', monospace", overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--raised)', color: 'var(--quiet)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--accent) 8%, transparent)' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
});

/** The page's own colours: they can be read in light and in dark. */
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--busy)' },
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
]);

/** What editors say to people who hear them. */
const PHRASES = EditorState.phrases.of({
  'Selection deleted': t('Selection deleted'),
});

const line = Decoration.line({ attributes: { dir: 'auto' } });

/** For prose: each line has the direction of its words. */
export const OWN_DIRECTIONS: Extension = [
  EditorView.perLineTextDirection.of(true),
  ViewPlugin.define(
    (view) => ({
      lines: linesOf(view),
      update({ docChanged, viewportChanged, view }: ViewUpdate) {
        if (docChanged || viewportChanged) this.lines = linesOf(view);
      },
    }),
    { decorations: ({ lines }) => lines },
  ),
];

/** Those that are in sight. */
function linesOf({ state: { doc }, visibleRanges }: EditorView): DecorationSet {
  const starts = new Set<number>();
  for (const { from, to } of visibleRanges)
    for (let { number } = doc.lineAt(from); number <= doc.lineAt(to).number; number += 1)
      starts.add(doc.line(number).from);
  return Decoration.set([...starts].map((start) => line.range(start)));
}

/** An editor's view in a new shadow root of this element. */
export function mount(host: HTMLElement, extensions: Extension, text: string): EditorView {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const parent = document.createElement('div');
  parent.style.height = '100%';
  root.replaceChildren(parent);
  return new EditorView({
    root,
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [theme, syntaxHighlighting(colours), lineNumbers(), PHRASES, extensions],
    }),
  });
}

/** With an end to its last line: otherwise what is added behind that would change it, too. */
function ended(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

/** Before and after, one in the other; nothing can be written here. */
export function Changes({ before, after, label }: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return;
    const editor = mount(
      host.current,
      [
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        OWN_DIRECTIONS,
        unifiedMergeView({ original: ended(before), mergeControls: false }),
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
      ],
      ended(after),
    );
    return () => editor.destroy();
  }, [before, after, label]);
  return <div ref={host} className="editor" />;
}
