// Renders the frame of all views: the navigation bar, the theme and the sign-out button.
import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { signOut } from './api/http';
import * as localStore from './api/localStore';
import { outbox } from './chat/outbox';

const THEMES = ['system', 'light', 'dark'] as const;
type Theme = (typeof THEMES)[number];
const THEMES_SHOWN: Record<Theme, string> = { system: 'System', light: 'Light', dark: 'Dark' };

function stored(): Theme {
  const theme = localStore.readTheme();
  return THEMES.find((known) => known === theme) ?? 'system';
}

export function Shell() {
  const isChat = useRouterState({
    select: ({ location }) =>
      location.pathname === '/' || location.pathname.startsWith('/c/') || location.pathname.startsWith('/new/'),
  });
  const queries = useQueryClient();
  // Messages are sent whatever view is shown.
  useEffect(() => outbox.start(() => void queries.invalidateQueries({ queryKey: ['conversations'] })), [queries]);
  const rest = useRef<HTMLDivElement>(null);
  const [theme, setTheme] = useState<Theme>(stored);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStore.writeTheme(theme);
  }, [theme]);
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="bar">
        <Link to="/" className="brand">
          <img src="/icon.svg" alt="" width="22" height="22" /> Rejoin
        </Link>
        {/* On narrow screens alone: there, what follows is a menu. */}
        <button type="button" className="more" popoverTarget="rest">
          More
        </button>
        <div ref={rest} id="rest" className="rest" popover="auto">
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: the clicks bubble up from the links in it, where Enter is a click, too. */}
          <nav aria-label="Views" onClick={() => rest.current?.hidePopover()}>
            <Link to="/" activeOptions={{ exact: true }} aria-current={isChat ? 'page' : undefined}>
              Chat
            </Link>
            <Link to="/runs">Runs</Link>
            <Link to="/tasks">Tasks</Link>
            <Link to="/graph">Graph</Link>
            <Link to="/work">Work</Link>
            <Link to="/calendar">Calendar</Link>
            <Link to="/operations">Operations</Link>
            <Link to="/settings">Settings</Link>
          </nav>
          <label className="theme">
            <span className="hidden">Theme</span>
            <select value={theme} onChange={(event) => setTheme(event.target.value as Theme)}>
              {THEMES.map((name) => (
                <option key={name} value={name}>
                  {THEMES_SHOWN[name]}
                </option>
              ))}
            </select>
          </label>
          <button type="button" className="plain small" onClick={() => void signOut().finally(localStore.leave)}>
            Sign out
          </button>
        </div>
      </header>
      <Outlet />
    </div>
  );
}
