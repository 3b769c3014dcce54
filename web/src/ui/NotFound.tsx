// The page for an address whose object does not exist.
import { Link } from '@tanstack/react-router';
import { t } from './language';
import { useTitle } from './title';

export function NotFound({
  what = t('This page'),
  hint,
  children,
}: {
  what?: string;
  hint?: string | undefined;
  children?: React.ReactNode;
}) {
  const title = t('{what} was not found', { what });
  useTitle(title);
  return (
    <main id="main" className="page">
      <h1>{title}</h1>
      <p>
        {t('It may have been deleted, or the address is wrong.')}
        {hint ? ` ${hint}` : ''}
      </p>
      <p>{children ?? <Link to="/">{t('Go to your chats')}</Link>}</p>
    </main>
  );
}
