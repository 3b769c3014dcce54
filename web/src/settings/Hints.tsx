// What a tool's annotations state about its effects.
import { t } from '../ui/language';
import type { Annotations } from './agents/tools';

export function Hints({ annotations }: { annotations: Annotations | null | undefined }) {
  if (!annotations) return null;
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = annotations;
  const hints = [
    readOnlyHint && t('read-only'),
    // It means something for tools that change data alone.
    !readOnlyHint && destructiveHint && t('destructive'),
    !readOnlyHint && idempotentHint && t('idempotent'),
    openWorldHint && t('open world'),
  ].filter(Boolean);
  return hints.map((hint) => (
    <span key={String(hint)} className="badge">
      {hint}
    </span>
  ));
}
