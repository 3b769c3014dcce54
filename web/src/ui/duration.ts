import { LOCALE, t } from './language';
import { once } from './once';

// Made once: lists have thousands of time spans. A small negative one, of clocks that differ, is shown without its sign.
const WHOLE = once(() => new Intl.NumberFormat(LOCALE, { useGrouping: false, signDisplay: 'negative' }));
const TENTHS = once(() => new Intl.NumberFormat(LOCALE, { minimumFractionDigits: 1, maximumFractionDigits: 1 }));

/** A time span for people, in the unit that fits it; nothing where it is not known. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '';
  // Rounded first: a value that rounds up to the next unit is shown in that unit.
  if (Math.round(ms) < 1_000) return t('{count} ms', { count: WHOLE().format(Math.round(ms)) });
  if (Math.round(ms / 100) < 600) return t('{count} s', { count: TENTHS().format(Math.round(ms / 100) / 10) });
  const seconds = Math.round(ms / 1_000);
  return t('{minutes} min {seconds} s', {
    minutes: WHOLE().format(Math.floor(seconds / 60)),
    seconds: WHOLE().format(seconds % 60),
  });
}
