// The text editor of a document.
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { drawSelection, EditorView, highlightActiveLine, keymap } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { mount, OWN_DIRECTIONS } from '../../ui/editor';
import { t } from '../../ui/language';

interface TextEditorProps {
  /** What it begins with. */
  text: string;
  onChange: (text: string) => void;
  /** Ctrl+S, or Cmd+S on a Mac. */
  onSave: () => void;
}

export default function TextEditor({ text, onChange, onSave }: TextEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const begin = useRef(text);
  const calls = useRef({ onChange, onSave });
  calls.current = { onChange, onSave };
  useEffect(() => {
    if (!host.current) return;
    const editor = mount(
      host.current,
      [
        keymap.of([
          {
            key: 'Mod-s',
            run: () => {
              calls.current.onSave();
              return true;
            },
          },
        ]),
        history(),
        drawSelection(),
        highlightActiveLine(),
        OWN_DIRECTIONS,
        // Tab stays the key that leaves the editor: people without a mouse must get out.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': t('Document text') }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) calls.current.onChange(update.state.doc.toString());
        }),
      ],
      begin.current,
    );
    return () => editor.destroy();
  }, []);
  return <div ref={host} className="editor" />;
}
