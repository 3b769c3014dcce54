// Switches between the versions of a message. Each is in another chat, where the focus and the view go to the same place.
import { useNavigate } from '@tanstack/react-router';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef } from 'react';
import { BACKWARD, FORWARD } from '../ui/arrows';
import { IconButton } from '../ui/Button';
import { number, t } from '../ui/language';
import type { BranchPoint } from './branches';

type Step = -1 | 1;

/** The version that the user has chosen, and is not shown yet. */
let chosen: { messageId: string; step: Step } | undefined;

export function Versions({ point: { messageId, versions } }: { point: BranchPoint }) {
  const navigate = useNavigate();
  const previous = useRef<HTMLButtonElement>(null);
  const next = useRef<HTMLButtonElement>(null);
  const at = versions.findIndex(({ isCurrent }) => isCurrent);
  useEffect(() => {
    if (chosen?.messageId !== messageId) return;
    const [wanted, other] = chosen.step === 1 ? [next.current, previous.current] : [previous.current, next.current];
    chosen = undefined;
    wanted?.closest('li')?.scrollIntoView({ block: 'center' });
    // At the last version there is no further one.
    (wanted?.disabled ? other : wanted)?.focus();
  }, [messageId]);
  const go = (step: Step) => {
    const version = versions[at + step];
    if (!version) return;
    chosen = { messageId: version.messageId, step };
    void navigate({ to: '/c/$id', params: { id: version.conversationId } });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== BACKWARD && event.key !== FORWARD) return;
    event.preventDefault();
    go(event.key === BACKWARD ? -1 : 1);
  };
  return (
    <span
      className="version-switch"
      role="group"
      aria-label={t('Version {version} of {count}', { version: at + 1, count: versions.length })}
    >
      <IconButton
        ref={previous}
        icon={ChevronLeft}
        label={t('Previous version')}
        disabled={at <= 0}
        onClick={() => go(-1)}
        onKeyDown={onKeyDown}
      />
      {number(at + 1)}/{number(versions.length)}
      <IconButton
        ref={next}
        icon={ChevronRight}
        label={t('Next version')}
        disabled={at >= versions.length - 1}
        onClick={() => go(1)}
        onKeyDown={onKeyDown}
      />
    </span>
  );
}
