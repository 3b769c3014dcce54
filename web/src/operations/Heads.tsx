// The head of a table with names and numbers, and with actions in its last column.
import { t } from '../ui/language';

export function Heads({ names, counts, hasActions }: { names: string[]; counts: string[]; hasActions?: boolean }) {
  return (
    <tr>
      {names.map((name) => (
        <th key={name} scope="col">
          {name}
        </th>
      ))}
      {counts.map((name) => (
        <th key={name} scope="col" className="number">
          {name}
        </th>
      ))}
      {hasActions ? (
        <th scope="col">
          <span className="hidden">{t('Actions')}</span>
        </th>
      ) : null}
    </tr>
  );
}
