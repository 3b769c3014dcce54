// A block of code: its language, what can be done with it, and its text. Finished blocks are highlighted, and diagrams drawn on request.
import { type ReactNode, useEffect, useState } from 'react';
import { inTurn } from '../ui/inTurn';
import { t } from '../ui/language';
import { lazyPart } from '../ui/lazyView';
import { CopyButton } from '../ui/parts';

const Diagram = lazyPart(async () => (await import('./Diagram')).Diagram, t('the diagram'));

interface Props {
  /** As its fence names it. */
  language: string;
  code: string;
  /** The text of a block that still grows. Such a block is not highlighted. */
  children?: ReactNode;
}

export function CodeBlock({ language, code, children }: Props) {
  const isGrowing = children !== undefined;
  const highlighted = useHighlighted(language, code, isGrowing);
  const [diagram, setDiagram] = useState<'none' | 'wanted' | 'drawn'>('none');
  const source = <pre tabIndex={0}>{children ?? <code>{highlighted ?? code}</code>}</pre>;
  return (
    <div className="code">
      <div className="code-head">
        <span className="quiet">{language}</span>
        <span className="code-tools">
          {language === 'mermaid' && !isGrowing ? (
            <button
              type="button"
              className="plain small"
              onClick={() => setDiagram(diagram === 'none' ? 'wanted' : 'none')}
            >
              {diagram === 'none' ? t('Draw diagram') : t('Show source')}
            </button>
          ) : null}
          <CopyButton text={() => code} of={t('the code')} />
        </span>
      </div>
      {diagram === 'none' ? null : <Diagram source={code} onDrawn={() => setDiagram('drawn')} />}
      {diagram === 'drawn' ? null : source}
    </div>
  );
}

/** The code with its words in spans, once that is there. */
function useHighlighted(language: string, code: string, isGrowing: boolean): ReactNode[] | null {
  const [shown, setShown] = useState<{ code: string; nodes: ReactNode[] | null }>();
  useEffect(() => {
    if (isGrowing || language === '') return;
    let withdraw: (() => void) | undefined;
    let isShown = true;
    const begin = async () => {
      const { highlight } = await import('./highlight');
      if (isShown) withdraw = inTurn(() => setShown({ code, nodes: highlight(code, language) }));
    };
    // Where it can't be loaded, the code stays plain.
    begin().catch(() => {});
    return () => {
      isShown = false;
      withdraw?.();
    };
  }, [language, code, isGrowing]);
  return shown?.code === code ? shown.nodes : null;
}
