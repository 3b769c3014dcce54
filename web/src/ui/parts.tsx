// Small components that all views share.
import { Check, Copy } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { Problem } from '../api/http';
import { IconButton } from './Button';
import { LOCALE, rich, t } from './language';
import { once } from './once';
import { stateInWords } from './states';

export { duration } from './duration';

const GOOD = ['completed', 'resolved', 'answered', 'approved', 'alive', 'active', 'passed'];
const BAD = ['failed', 'error', 'outcome_unknown', 'dead', 'lost', 'not_passed', 'ended_with_errors'];
const BUSY = [
  ...['running', 'queued', 'pending', 'in_progress', 'started', 'waiting', 'executing', 'pending_review'],
  ...['answering', 'judging'],
];

/** What a state is called in the style sheet: good, bad, busy or quiet. */
function tone(state: string): string {
  if (GOOD.includes(state)) return 'good';
  if (BAD.includes(state)) return 'bad';
  return BUSY.includes(state) ? 'busy' : 'quiet';
}

export function State({ state }: { state: string }) {
  return <span className={`state ${tone(state)}`}>{stateInWords(state)}</span>;
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];
const RELATIVE = once(() => new Intl.RelativeTimeFormat(LOCALE, { numeric: 'auto' }));

/** How long ago, with the moment itself as its title. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span className="quiet">{t('never')}</span>;
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  const words = unit ? RELATIVE().format(Math.trunc(seconds / unit[1]), unit[0]) : t('just now');
  return (
    <time dateTime={at} title={new Date(at).toLocaleString(LOCALE)}>
      {words}
    </time>
  );
}

export function ErrorNote({ error }: { error: unknown }) {
  const words = error instanceof Error ? error.message : t('Something went wrong.');
  const code = error instanceof Problem ? ` (${error.code})` : '';
  return (
    <p className="note bad" role="alert">
      {words}
      {code}
    </p>
  );
}

/** Keeps the place of what is loading. */
export function Waiting({ what }: { what: string }) {
  // Shown only where it takes a while: what flashes, disturbs.
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 300);
    return () => clearTimeout(timer);
  }, []);
  return late ? (
    <div className="skeleton" role="status">
      <p className="hidden">{t('Loading {what}…', { what })}</p>
      <span />
      <span />
      <span />
    </div>
  ) : null;
}

/** Explains that the key is read-only, and which action needs more. */
export function ReadOnlyKey({ action }: { action: string }) {
  return rich('Your key is read-only. {action} needs the {scope} scope.', { action, scope: <code>write</code> });
}

/** JSON as people read it; text as text. */
export function Payload({ value }: { value: unknown }) {
  if (value === undefined || value === null) return <p className="quiet">{t('None')}</p>;
  return (
    <pre className="payload" dir={typeof value === 'string' ? 'auto' : 'ltr'}>
      {typeof value === 'string' ? value : JSON.stringify(value, null, 2)}
    </pre>
  );
}

/** A disclosure that is closed at first; its content is rendered when it is opened. */
export function Folded({
  label,
  className = '',
  open = false,
  children,
}: {
  label: ReactNode;
  className?: string;
  open?: boolean;
  children: () => ReactNode;
}) {
  const [isOpen, setOpen] = useState(open);
  return (
    <details className={`folded ${className}`} open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {isOpen ? <div className="inside">{children()}</div> : null}
    </details>
  );
}

/** `of`: what is copied, for people who hear the button without what is around it. */
export function CopyButton({ text, label = t('Copy'), of }: { text: () => string; label?: string; of?: string }) {
  const [done, setDone] = useState(false);
  const shown = done ? t('Copied') : label;
  return (
    <IconButton
      icon={done ? Check : Copy}
      label={shown}
      name={of === undefined ? undefined : t('{action}: {what}', { action: shown, what: of })}
      onClick={() => {
        void navigator.clipboard?.writeText(text()).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1_500);
        });
      }}
    />
  );
}
