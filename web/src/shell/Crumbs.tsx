// The bar above a page: its place among the views. A chat has its own.
import { Link, useRouterState } from '@tanstack/react-router';
import { t } from '../ui/language';
import { useShownTitle } from '../ui/title';
import { isChat, placeOf } from './navigation';

export function Crumbs() {
  const pathname = useRouterState({ select: ({ location }) => location.pathname });
  const title = useShownTitle();
  if (isChat(pathname)) return null;
  const place = placeOf(pathname);
  const isList = place?.view.to === pathname;
  return (
    <nav className="topbar" aria-label={t('Breadcrumbs')}>
      <ol>
        {place?.group ? <li>{place.group}</li> : null}
        {place ? (
          <li>
            {isList ? (
              <span aria-current="page">{place.view.name}</span>
            ) : (
              <Link to={place.view.to}>{place.view.name}</Link>
            )}
          </li>
        ) : null}
        {isList ? null : (
          <li>
            <span aria-current="page" dir="auto">
              {title}
            </span>
          </li>
        )}
      </ol>
    </nav>
  );
}
