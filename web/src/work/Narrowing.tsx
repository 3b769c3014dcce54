// Narrows a board to words, a plan or a goal. The address contains the plan and the goal.
import { useNavigate } from '@tanstack/react-router';
import { t } from '../ui/language';
import { type Graph, type Narrowed, ofType } from './board';

interface NarrowingProps {
  graph: Graph;
  narrowed: Narrowed;
  words: string;
  onWords: (words: string) => void;
  /** Tasks that are shown, of all. */
  shown: number;
  of: number;
}

export function Narrowing({ graph, narrowed, words, onWords, shown, of }: NarrowingProps) {
  const navigate = useNavigate({ from: '/work/$projectId' });
  const choices = [
    ['plan', t('Plan'), ofType(graph, 'plan')],
    ['goal', t('Goal'), ofType(graph, 'goal')],
  ] as const;
  if (of === 0) return null;
  return (
    <div className="controls">
      <input
        type="search"
        aria-label={t('Filter tasks')}
        placeholder={t('Filter tasks')}
        value={words}
        onChange={(event) => onWords(event.target.value)}
      />
      {choices.map(([name, label, entities]) =>
        entities.length === 0 ? null : (
          <label key={name}>
            {label}{' '}
            <select
              value={narrowed[name] ?? ''}
              onChange={(event) =>
                void navigate({
                  search: (before) => ({ ...before, [name]: event.target.value || undefined }),
                  replace: true,
                })
              }
            >
              <option value="">{t('All')}</option>
              {entities.map(({ id, name: called }) => (
                <option key={id} value={id}>
                  {called}
                </option>
              ))}
            </select>
          </label>
        ),
      )}
      {shown < of ? (
        <span className="quiet">{t('{shown} of {of, plural, other {# tasks}}', { shown, of })}</span>
      ) : null}
    </div>
  );
}
