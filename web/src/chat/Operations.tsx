// Lists what a turn's tool calls did to which entities, one line each.
import type { Turn } from '../stream';

/** While it goes on, and when it is done. */
const WORDS: Record<string, [string, string]> = {
  list: ['listing', 'listed'],
  search: ['searching', 'searched'],
  read: ['reading', 'read'],
  create: ['creating', 'created'],
  update: ['updating', 'updated'],
  delete: ['deleting', 'deleted'],
};

export function Operations({ operations }: { operations: Turn['operations'] }) {
  if (operations.length === 0) return null;
  return (
    <ul className="operations" aria-label="Operations">
      {operations.map(({ action, entity_type, entity_name, status }, nth) => {
        const [now, then] = WORDS[action] ?? [action, action];
        const verb = status === 'error' ? `could not ${action}` : status === 'start' ? now : then;
        return (
          <li key={nth} className={status === 'error' ? 'notice bad' : 'notice'}>
            {verb} {entity_type} <b>{entity_name}</b>
          </li>
        );
      })}
    </ul>
  );
}
