// What a new chat can begin with: questions that show what the agents here are for.
import { useQuery } from '@tanstack/react-query';
import { CornerDownLeft } from 'lucide-react';
import { api, type Schemas } from '../api/http';
import { useMe } from '../api/me';
import { t } from '../ui/language';

/** Object types that are looked at for examples, and what is asked of one. */
const EXAMPLES: readonly [type: string, question: (name: string) => string][] = [
  ['Package', (name) => t('Which packages need {name}, and why?', { name })],
  ['Package', (name) => t('What does {name} depend on?', { name })],
  ['Service', (name) => t('What depends on {name}?', { name })],
  ['project', (name) => t('What is the state of {name}?', { name })],
];
const GENERAL: readonly string[] = [
  t('What can you do, and with which tools?'),
  t('Summarize what is in the knowledge graph.'),
];
const SHOWN = 4;

export function Starters({ onChoose }: { onChoose: (question: string) => void }) {
  const me = useMe();
  const graph = `/api/projects/${me.projectId}/graph`;
  const examples = useQuery({
    queryKey: ['starters'],
    queryFn: async () => {
      const { types } = await api<Schemas['GraphTypes']>(`${graph}/types`);
      const known = new Map(types.map(({ name, count }) => [name, count]));
      const found = EXAMPLES.filter(([type]) => known.get(type));
      const names = await Promise.all(
        [...new Set(found.map(([type]) => type))].map(async (type) => {
          const { items } = await api<Schemas['GraphObjectPage']>(`${graph}/objects?type=${type}&limit=20`);
          return [type, items.map(({ name, key }) => name ?? key)] as const;
        }),
      );
      const byType = new Map(names);
      return found.flatMap(([type, question], nth) => {
        const all = byType.get(type) ?? [];
        const name = all[Math.min(nth * 3, all.length - 1)];
        return name === undefined ? [] : [question(name)];
      });
    },
    staleTime: Infinity,
    retry: false,
  });
  const questions = [...(examples.data ?? []), ...GENERAL].slice(0, SHOWN);
  if (examples.isPending) return <div className="starters" aria-hidden="true" />;
  return (
    <ul className="starters" aria-label={t('Suggestions')}>
      {questions.map((question) => (
        <li key={question}>
          <button type="button" onClick={() => onChoose(question)}>
            <span dir="auto">{question}</span>
            <CornerDownLeft className="icon" />
          </button>
        </li>
      ))}
    </ul>
  );
}
