// The command palette: finds views, chats and actions by their names, and messages by their words. Arrow keys choose, Enter opens.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  Building2,
  Contrast,
  Keyboard,
  LogOut,
  type LucideIcon,
  MessageSquare,
  MessageSquareText,
  Moon,
  PanelLeft,
  Search,
  Sun,
} from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { api, query, type Schemas, signOut } from '../api/http';
import * as localStore from '../api/localStore';
import { isAdmin, useMe } from '../api/me';
import { reveal } from '../chat/linked';
import { Snippet } from '../chat/list/Snippet';
import { shownTitle } from '../chat/titles';
import { t } from '../ui/language';
import { setLook, useLook } from '../ui/theme';
import { useLater } from '../ui/useLater';
import { useModal } from '../ui/useModal';
import { openDialog, toggleSidebar } from './frame';
import { MODIFIER, placeOf, SHIFT, viewsFor } from './navigation';
import { useSwitch, useWorkspaces } from './workspaces';

/** What the groups of commands are called. */
const GROUPS = { actions: t('Actions'), views: t('Go to'), chats: t('Chats'), messages: t('Messages') };

interface Command {
  key: string;
  group: keyof typeof GROUPS;
  name: string;
  /** Below the name. */
  detail?: ReactNode;
  hint?: string;
  icon: LucideIcon;
  run: () => void;
}

/** Chats that are shown. */
const CHATS = 8;
/** Messages that are shown. */
const MESSAGES = 8;
/** Other workspaces that are shown. */
const WORKSPACES = 8;
/** Pause in typing after which chats and messages are searched, in milliseconds. */
const TYPING_MS = 200;

export default function Palette({ onClose }: { onClose: () => void }) {
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const modal = useModal(onClose);
  const list = useRef<HTMLDivElement>(null);
  const commands = useCommands(words.trim());
  const chosen = commands[Math.min(at, commands.length - 1)];
  const groups = [...new Set(commands.map(({ group }) => group))];
  const run = (command: Command | undefined) => {
    if (!command) return;
    onClose();
    command.run();
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen option is scrolled into view when another one is chosen.
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen?.key]);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: a click beside the dialog closes it; keys have Escape.
    <dialog
      {...modal}
      className="palette"
      aria-label={t('Search and commands')}
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      <div className="field">
        <Search className="icon" />
        <input
          role="combobox"
          aria-label={t('Search views, chats, messages and actions')}
          aria-expanded="true"
          aria-controls="commands"
          aria-activedescendant={chosen ? `command-${chosen.key}` : undefined}
          placeholder={t('Search views, chats, messages and actions')}
          autoComplete="off"
          spellCheck={false}
          autoFocus
          value={words}
          onChange={(event) => {
            setWords(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            if (event.nativeEvent.isComposing) return;
            const last = commands.length - 1;
            const to = { ArrowDown: at >= last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1 }[event.key];
            if (to !== undefined) setAt(to);
            else if (event.key === 'Enter') run(chosen);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <div ref={list} id="commands" className="found" role="listbox" aria-label={t('Results')}>
        {groups.map((group) => (
          <div key={group} role="group" aria-label={GROUPS[group]}>
            <span className="menu-label" aria-hidden="true">
              {GROUPS[group]}
            </span>
            {commands
              .filter((command) => command.group === group)
              .map((command) => (
                // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/useFocusableInteractive: the keys are the field's, which has the focus.
                <div
                  key={command.key}
                  id={`command-${command.key}`}
                  className="menu-item"
                  role="option"
                  aria-selected={command === chosen}
                  onClick={() => run(command)}
                  onPointerMove={() => setAt(commands.indexOf(command))}
                >
                  <command.icon className="icon" />
                  <span className="command">
                    <span dir="auto" className="name">
                      {command.name}
                    </span>
                    {command.detail}
                  </span>
                  {command.hint ? <span className="quiet">{command.hint}</span> : null}
                </div>
              ))}
          </div>
        ))}
      </div>
      {commands.length === 0 ? (
        <p className="none quiet" role="status">
          {t('No results for “{words}”.', { words: words.trim() })}
        </p>
      ) : null}
    </dialog>
  );
}

function useCommands(words: string): Command[] {
  const me = useMe();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const look = useLook();
  const workspaces = useWorkspaces();
  const switchTo = useSwitch();
  const searched = useLater(words, TYPING_MS);
  const chats = useQuery({
    queryKey: ['conversations', 'palette', searched],
    queryFn: ({ signal }) =>
      api<Schemas['ConversationPage']>(`/api/conversations${query({ q: searched, limit: CHATS })}`, { signal }),
    placeholderData: (before) => before,
  });
  const messages = useQuery({
    queryKey: ['messages', 'palette', searched],
    queryFn: ({ signal }) =>
      api<Schemas['MessageHits']>(`/api/messages/search${query({ q: searched, limit: MESSAGES })}`, { signal }),
    enabled: searched !== '',
    placeholderData: (before) => before,
  });
  const fits = (name: string) => name.toLowerCase().includes(words.toLowerCase());
  const action = (key: string, name: string, icon: LucideIcon, run: () => void, hint?: string): Command => ({
    key,
    group: 'actions',
    name,
    icon,
    run,
    hint,
  });
  const isDark = look.theme === 'dark';
  const isMore = look.contrast === 'more';
  const actions = [
    action('theme', t(isDark ? 'Use light theme' : 'Use dark theme'), isDark ? Sun : Moon, () =>
      setLook({ theme: isDark ? 'light' : 'dark' }),
    ),
    action('contrast', t(isMore ? 'Use normal contrast' : 'Use high contrast'), Contrast, () =>
      setLook({ contrast: isMore ? 'less' : 'more' }),
    ),
    action('sidebar', t('Show or hide the sidebar'), PanelLeft, toggleSidebar, `${MODIFIER}+${SHIFT}+S`),
    action('keys', t('Keyboard shortcuts'), Keyboard, () => openDialog('keys'), '?'),
    action('sign-out', t('Sign out'), LogOut, () => void signOut().finally(localStore.leave)),
  ];
  const switches = workspaces
    .filter(({ isCurrent }) => !isCurrent)
    .map((workspace) =>
      action(
        `workspace-${workspace.id}`,
        t('Switch to {name}', { name: workspace.name }),
        Building2,
        () => void switchTo(workspace),
      ),
    )
    .filter(({ name }) => fits(name))
    .slice(0, WORKSPACES);
  const views = viewsFor(isAdmin(me)).map(
    ({ to, name, icon, key }): Command => ({
      key: `go-${key}`,
      group: 'views',
      name,
      icon,
      hint: to === '/' ? `${MODIFIER}+${SHIFT}+O` : (placeOf(to)?.group ?? undefined),
      run: () => void navigate({ to }),
    }),
  );
  const found = (chats.data?.items ?? []).map(
    (chat): Command => ({
      key: chat.id,
      group: 'chats',
      name: shownTitle(chat),
      icon: MessageSquare,
      run: () => {
        void navigate({ to: '/c/$id', params: { id: chat.id } });
        void queries.invalidateQueries({ queryKey: ['conversations'] });
      },
    }),
  );
  const said = (messages.data?.items ?? []).map(
    ({ messageId, conversationId, title, snippet }): Command => ({
      key: messageId,
      group: 'messages',
      name: shownTitle({ title, metadata: null }),
      detail: <Snippet of={snippet} />,
      icon: MessageSquareText,
      run: () => {
        reveal(messageId);
        void navigate({ to: '/c/$id', params: { id: conversationId }, search: { message: messageId } });
      },
    }),
  );
  return words === ''
    ? [...views, ...found, ...actions, ...switches]
    : [
        ...views.filter(({ name }) => fits(name)),
        ...actions.filter(({ name }) => fits(name)),
        ...switches,
        ...found,
        ...said,
      ];
}
