// Renders the frame of all views: the sidebar, the bar above the page, and what lies above both.
import { useQueryClient } from '@tanstack/react-query';
import { Outlet } from '@tanstack/react-router';
import { PanelLeft } from 'lucide-react';
import { useDeferredValue, useEffect, useRef } from 'react';
import { isAdmin, useMe } from './api/me';
import { outbox } from './chat/outbox';
import { Banners } from './shell/Banners';
import { Crumbs } from './shell/Crumbs';
import { closeDrawer, openDialog, toggleSidebar, useFrame } from './shell/frame';
import { MODIFIER, SHIFT } from './shell/navigation';
import { Sidebar, SidebarPlace } from './shell/Sidebar';
import { useKeys } from './shell/useKeys';
import { IconButton } from './ui/Button';
import { Confirmations } from './ui/Dialog';
import { t } from './ui/language';
import { lazyPart } from './ui/lazyView';
import { Tooltips } from './ui/Tooltips';
import { Toasts } from './ui/toasts';

const Palette = lazyPart(async () => (await import('./shell/Palette')).default, t('the commands'));
const Keys = lazyPart(async () => (await import('./shell/Keys')).default, t('the shortcuts'));

export function Shell() {
  const me = useMe();
  const queries = useQueryClient();
  const { isNarrow, isFolded, isDrawn, dialog } = useFrame();
  const opener = useRef<HTMLButtonElement>(null);
  const wasDrawn = useRef(false);
  useKeys(isAdmin(me));
  // Messages are sent whatever view is shown.
  useEffect(() => outbox.start(() => void queries.invalidateQueries({ queryKey: ['conversations'] })), [queries]);
  useEffect(() => {
    if (isDrawn) document.querySelector<HTMLElement>('#sidebar a')?.focus();
    // What had the focus in it is out of sight.
    else if (wasDrawn.current && !opener.current?.parentElement?.contains(document.activeElement))
      opener.current?.focus();
    wasDrawn.current = isDrawn;
  }, [isDrawn]);
  // What the page is about is drawn first.
  const hasSidebar = useDeferredValue(true, false);
  const isHidden = isNarrow ? !isDrawn : isFolded;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes the drawer, wherever the focus is in it.
    <div
      className={`shell${isFolded ? ' folded' : ''}${isDrawn ? ' drawer' : ''}`}
      onKeyDown={(event) => {
        if (event.key === 'Escape' && isDrawn && !event.defaultPrevented) closeDrawer();
      }}
    >
      <a className="skip" href="#main">
        {t('Skip to content')}
      </a>
      {hasSidebar ? <Sidebar /> : <SidebarPlace />}
      {/* Closed by the click, not by its beginning: the rest of it would act on what is beneath. */}
      <div className="veil" aria-hidden="true" onClick={closeDrawer} />
      <div className="stage" inert={isDrawn}>
        <IconButton
          ref={opener}
          icon={PanelLeft}
          label={t('Show sidebar')}
          keys={`${MODIFIER}+${SHIFT}+S`}
          className="sidebar-toggle"
          aria-expanded={!isHidden}
          aria-controls="sidebar"
          onClick={toggleSidebar}
        />
        <Crumbs />
        <Outlet />
        <Banners />
      </div>
      {dialog === 'palette' ? <Palette onClose={() => openDialog(null)} /> : null}
      {dialog === 'keys' ? <Keys isAdmin={isAdmin(me)} onClose={() => openDialog(null)} /> : null}
      <Confirmations />
      <Toasts />
      <Tooltips />
    </div>
  );
}
