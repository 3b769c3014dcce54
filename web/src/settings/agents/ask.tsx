// Asks a version of an agent in a new conversation, and shows its answer.
import { Link } from '@tanstack/react-router';
import { api } from '../../api/http';
import { TurnView } from '../../chat/TurnView';
import { client, useTranscript } from '../../stream';
import { t } from '../../ui/language';
import { ErrorNote } from '../../ui/parts';

/** Each question begins a new conversation, so that earlier ones do not affect it. No version: the newest. */
export async function ask(agentDefinitionId: string, message: string, agentVersion?: number): Promise<string> {
  if (agentVersion === undefined) return (await client.send({ message, agentDefinitionId })).conversationId;
  const { id } = await client.conversations.create({ agentDefinitionId });
  await api(`/api/conversations/${id}`, { method: 'PATCH', body: { agentVersion } });
  await client.send({ message, conversationId: id });
  return id;
}

export function OpenInChat({ id }: { id: string }) {
  return (
    <Link to="/c/$id" params={{ id }} className="quiet">
      {t('Open in chat')}
    </Link>
  );
}

export function Answer({ id }: { id: string }) {
  const { view, error, complete } = useTranscript(id);
  return (
    <>
      {error ? <ErrorNote error={error} /> : null}
      {view.turns.map((turn) => (
        <TurnView key={turn.id} turn={turn} onComplete={complete} />
      ))}
    </>
  );
}
