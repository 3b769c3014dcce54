// A formula of an answer. Until what draws it is loaded, and where it is not valid, its source is shown.
import { useEffect, useRef, useState } from 'react';
import { inTurn } from '../ui/inTurn';
import { t } from '../ui/language';
import type { Source } from './formulas';

export function Formula({ tex, isDisplay, source }: Source) {
  const place = useRef<HTMLSpanElement>(null);
  /** What is wrong with it; empty: it is drawn; null: not yet. */
  const [fault, setFault] = useState<string | null>(null);
  useEffect(() => {
    let withdraw: (() => void) | undefined;
    let isShown = true;
    const begin = async () => {
      const { drawFormula } = await import('./drawFormula');
      if (isShown) withdraw = inTurn(() => place.current && setFault(drawFormula(place.current, tex, isDisplay)));
    };
    begin().catch(() => {});
    return () => {
      isShown = false;
      withdraw?.();
    };
  }, [tex, isDisplay]);
  const drawn = <span ref={place} hidden={fault !== ''} />;
  const isScrolled = isDisplay && fault === '';
  return (
    // What scrolls can be scrolled by keys.
    <span
      className={isDisplay ? 'formula display' : 'formula'}
      {...(isScrolled && { role: 'group', 'aria-label': t('Formula'), tabIndex: 0 })}
    >
      {drawn}
      {fault === '' ? null : <code title={fault ?? undefined}>{source}</code>}
    </span>
  );
}
