// Groups conversations by when they changed: those at work first, then by day.
import { LOCALE, t } from '../ui/language';
import { once } from '../ui/once';
import type { Mark } from './activity';

interface Dated {
  id: string;
  updatedAt: string;
}

const DAY_MS = 86_400_000;
const MONTH = once(() => new Intl.DateTimeFormat(LOCALE, { month: 'long', year: 'numeric' }));

/** In the order of the list, which is the newest first. */
export function byDays<Item extends Dated>(
  items: readonly Item[],
  marks: ReadonlyMap<string, Mark>,
  now = new Date(),
): { name: string; items: Item[] }[] {
  const today = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const groups = new Map<string, Item[]>();
  const isAtWork = ({ id }: Item) => marks.get(id) === 'running' || marks.get(id) === 'waiting';
  const put = (name: string, item: Item) => groups.set(name, [...(groups.get(name) ?? []), item]);
  for (const item of items) if (isAtWork(item)) put(t('Running'), item);
  for (const item of items) if (!isAtWork(item)) put(nameOf(Date.parse(item.updatedAt), today), item);
  return [...groups].map(([name, items]) => ({ name, items }));
}

function nameOf(at: number, today: number): string {
  if (at >= today) return t('Today');
  if (at >= today - DAY_MS) return t('Yesterday');
  if (at >= today - 7 * DAY_MS) return t('Previous 7 days');
  if (at >= today - 30 * DAY_MS) return t('Previous 30 days');
  return MONTH().format(at);
}
