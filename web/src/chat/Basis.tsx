// Shows above a branch which chat it was made of.
import { Link } from '@tanstack/react-router';
import { useOrigin } from './branches';

export function Basis({ metadata }: { metadata: unknown }) {
  const origin = useOrigin(metadata);
  if (origin === undefined) return null;
  if (origin === null) return <p className="notice">This chat is a branch. The original chat was deleted.</p>;
  return (
    <p className="notice">
      This chat is a branch of{' '}
      <Link to="/c/$id" params={{ id: origin.id }}>
        {origin.title}
      </Link>
      . It begins with a copy of the messages before.
    </p>
  );
}
