// The page for an address whose object does not exist.
import { Link } from '@tanstack/react-router';
import { useTitle } from './title';

export function NotFound({
  what = 'This page',
  hint,
  children,
}: {
  what?: string;
  hint?: string | undefined;
  children?: React.ReactNode;
}) {
  useTitle(`${what} was not found`);
  return (
    <main id="main" className="page">
      <h1>{what} was not found</h1>
      <p>It may have been deleted, or the address is wrong.{hint ? ` ${hint}` : ''}</p>
      <p>{children ?? <Link to="/">Go to your chats</Link>}</p>
    </main>
  );
}
