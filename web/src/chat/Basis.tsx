// Shows above a branch which chat it was made of.
import { Link } from '@tanstack/react-router';
import { rich, t } from '../ui/language';
import { useOrigin } from './branches';

export function Basis({ metadata }: { metadata: unknown }) {
  const origin = useOrigin(metadata);
  if (origin === undefined) return null;
  if (origin === null) return <p className="notice">{t('This chat is a branch. The original chat was deleted.')}</p>;
  const chat = (
    <Link dir="auto" to="/c/$id" params={{ id: origin.id }}>
      {origin.title}
    </Link>
  );
  return (
    <p className="notice">
      {rich('This chat is a branch of {chat}. It begins with a copy of the messages before.', { chat })}
    </p>
  );
}
