// The agent that answers: of a new chat, or of an open one from its next message on.
import type { Schemas } from '../api/http';
import { t } from '../ui/language';

/** The choice that asks no agent. */
export const PLAIN = 'plain';

interface Props {
  agents: readonly Schemas['AgentItem'][];
  chosen: string;
  /** Whether no agent can be chosen, too: a chat that has an agent keeps having one. */
  isPlainOffered: boolean;
  onChoose: (id: string) => void;
}

export function AgentPicker({ agents, chosen, isPlainOffered, onChoose }: Props) {
  const known = agents.find(({ id }) => id === chosen);
  return (
    <select
      aria-label={t('Agent')}
      className="small agent"
      title={known?.description}
      value={chosen}
      onChange={(event) => onChoose(event.target.value)}
    >
      {isPlainOffered ? <option value={PLAIN}>{t('No agent (plain chat)')}</option> : null}
      {known || chosen === PLAIN ? null : <option value={chosen}>{t('Unlisted agent')}</option>}
      {agents.map((one) => (
        <option key={one.id} value={one.id} title={one.description}>
          {one.name}
        </option>
      ))}
    </select>
  );
}
