// The sidebar: the workspace, a new chat, the chats, the views by audience, and the user's menu. A drawer on narrow screens.
import { Link, useRouterState } from '@tanstack/react-router';
import { Command, Keyboard, LogOut, PanelLeft } from 'lucide-react';
import { useState } from 'react';
import { signOut } from '../api/http';
import * as localStore from '../api/localStore';
import { isAdmin, useMe } from '../api/me';
import { Conversations } from '../chat/Conversations';
import { roleName } from '../settings/roles';
import { IconButton } from '../ui/Button';
import { t } from '../ui/language';
import { Menu, MenuChoice, MenuItem, MenuLine } from '../ui/Menu';
import { CONTRASTS, setLook, THEMES, useLook } from '../ui/theme';
import { closeDrawer, openDialog, toggleSidebar } from './frame';
import { type Group, groupsFor, MODIFIER, placeOf, SETTINGS, SHIFT, type View } from './navigation';
import { WorkspaceMenu } from './WorkspaceMenu';

/** Keeps the place of the sidebar until it is drawn. */
export const SidebarPlace = () => <aside id="sidebar" className="sidebar" aria-label={t('Sidebar')} aria-busy="true" />;

export function Sidebar() {
  const me = useMe();
  const pathname = useRouterState({ select: ({ location }) => location.pathname });
  const place = placeOf(pathname);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the clicks bubble up from links, where Enter is a click, too.
    <aside
      id="sidebar"
      className="sidebar"
      aria-label={t('Sidebar')}
      onClick={(event) => {
        if (event.target instanceof Element && event.target.closest('a')) closeDrawer();
      }}
    >
      <div className="top">
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width="24" height="24" /> Rejoin
        </Link>
        <IconButton
          icon={Command}
          label={t('Search and commands')}
          keys={`${MODIFIER}+K`}
          onClick={() => openDialog('palette')}
        />
        <IconButton
          icon={PanelLeft}
          label={t('Hide sidebar')}
          keys={`${MODIFIER}+${SHIFT}+S`}
          onClick={toggleSidebar}
        />
      </div>
      <WorkspaceMenu />
      <Conversations current={/^\/c\/([^/]+)$/.exec(pathname)?.[1] ?? null} />
      <nav className="views" aria-label={t('Views')}>
        {groupsFor(isAdmin(me)).map((group) => (
          <Views key={group.key} group={group} current={place?.view} />
        ))}
      </nav>
      <div className="bottom">
        <User />
        <Link
          to="/settings"
          className="button icon-button"
          aria-label={SETTINGS.name}
          data-tip={SETTINGS.name}
          aria-current={place?.view === SETTINGS ? 'page' : undefined}
        >
          <SETTINGS.icon className="icon" />
        </Link>
      </div>
    </aside>
  );
}

function Views({ group, current }: { group: Group; current: View | undefined }) {
  const kept = `group.${group.key}`;
  const [isOpen, setOpen] = useState(() => localStore.read(kept) !== false);
  return (
    <details
      open={isOpen || group.views.some((view) => view === current)}
      onToggle={({ currentTarget: { open } }) => {
        // Also said when it is shown for the first time.
        if (open === isOpen) return;
        setOpen(open);
        localStore.write(kept, open);
      }}
    >
      <summary>{group.name}</summary>
      <ul>
        {group.views.map((view) => (
          <li key={view.to}>
            <SideLink view={view} isCurrent={view === current} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function SideLink({ view: { to, name, icon: Icon }, isCurrent }: { view: View; isCurrent: boolean }) {
  return (
    <Link to={to} className="side-link" aria-current={isCurrent ? 'page' : undefined}>
      <Icon className="icon" /> {name}
    </Link>
  );
}

function User() {
  const me = useMe();
  const { theme, contrast } = useLook();
  return (
    <Menu
      align="start"
      side="top"
      trigger={
        <button type="button" className="side-link user">
          <span className="hidden">{t('User menu:')}</span>
          <span className="avatar" aria-hidden="true">
            {me.handle.slice(0, 1)}
          </span>
          <span dir="auto">{me.handle}</span>
          <span className="quiet">{roleName(me.role)}</span>
        </button>
      }
    >
      <MenuChoice label={t('Theme')} value={theme} options={THEMES} onChange={(theme) => setLook({ theme })} />
      <MenuLine />
      <MenuChoice
        label={t('Contrast')}
        value={contrast}
        options={CONTRASTS}
        onChange={(contrast) => setLook({ contrast })}
      />
      <MenuLine />
      <MenuItem icon={Keyboard} onSelect={() => openDialog('keys')}>
        {t('Keyboard shortcuts')}
      </MenuItem>
      <MenuItem icon={LogOut} onSelect={() => void signOut().finally(localStore.leave)}>
        {t('Sign out')}
      </MenuItem>
    </Menu>
  );
}
