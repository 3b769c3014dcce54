// Lists what a turn's tool calls did to which entities, one line each.
import type { ReactNode } from 'react';
import type { Turn } from '../stream';
import { message, rich, t } from '../ui/language';

type Status = Turn['operations'][number]['status'];

/** Each action in words: while it goes on, when it is done, and if it failed. */
const SENTENCES: Record<string, Record<Status, string>> = {
  list: {
    start: message('listing {type} {name}'),
    success: message('listed {type} {name}'),
    error: message('could not list {type} {name}'),
  },
  search: {
    start: message('searching {type} {name}'),
    success: message('searched {type} {name}'),
    error: message('could not search {type} {name}'),
  },
  read: {
    start: message('reading {type} {name}'),
    success: message('read {type} {name}'),
    error: message('could not read {type} {name}'),
  },
  create: {
    start: message('creating {type} {name}'),
    success: message('created {type} {name}'),
    error: message('could not create {type} {name}'),
  },
  update: {
    start: message('updating {type} {name}'),
    success: message('updated {type} {name}'),
    error: message('could not update {type} {name}'),
  },
  delete: {
    start: message('deleting {type} {name}'),
    success: message('deleted {type} {name}'),
    error: message('could not delete {type} {name}'),
  },
};

function sentence({ action, entity_type, entity_name, status }: Turn['operations'][number]): ReactNode {
  const known = SENTENCES[action]?.[status];
  const values = { action, type: entity_type, name: <b dir="auto">{entity_name}</b> };
  if (known) return rich(known, values);
  if (status === 'error') return rich('could not {action} {type} {name}', values);
  return (
    <>
      {action} {entity_type} {values.name}
    </>
  );
}

export function Operations({ operations }: { operations: Turn['operations'] }) {
  if (operations.length === 0) return null;
  return (
    // Not the operation of the server, which has another translation.
    <ul
      className="operations"
      aria-label={t('{kind, select, calls {Operations} other {Operations}}', { kind: 'calls' })}
    >
      {operations.map((operation, nth) => (
        <li key={nth} className={operation.status === 'error' ? 'notice bad' : 'notice'}>
          {sentence(operation)}
        </li>
      ))}
    </ul>
  );
}
