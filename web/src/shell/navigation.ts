// Where the app leads: its views by audience, as the sidebar, the palette, the shortcuts and the bar above pages name them.
import {
  Activity,
  Bot,
  CalendarDays,
  ClipboardCheck,
  Database,
  FolderKanban,
  ListTree,
  type LucideIcon,
  MessageSquare,
  Plug,
  Settings,
  Waypoints,
  Workflow,
} from 'lucide-react';
import { t } from '../ui/language';

export type Target =
  | '/'
  | '/work'
  | '/calendar'
  | '/graph'
  | '/agents'
  | '/evaluations'
  | '/tools'
  | '/sources'
  | '/runs'
  | '/tasks'
  | '/operations'
  | '/settings';

export interface View {
  to: Target;
  name: string;
  icon: LucideIcon;
  /** The key after G that leads there. */
  key: string;
}

export interface Group {
  /** By which browsers remember whether it is open. */
  key: string;
  name: string;
  isForAdmins: boolean;
  views: readonly View[];
}

export const CHAT: View = { to: '/', name: t('New chat'), icon: MessageSquare, key: 'c' };
export const SETTINGS: View = { to: '/settings', name: t('Settings'), icon: Settings, key: 's' };

export const GROUPS: readonly Group[] = [
  {
    key: 'Workspace',
    name: t('Workspace'),
    isForAdmins: false,
    views: [
      { to: '/work', name: t('Projects'), icon: FolderKanban, key: 'p' },
      { to: '/calendar', name: t('Calendar'), icon: CalendarDays, key: 'd' },
      { to: '/graph', name: t('Knowledge graph'), icon: Waypoints, key: 'k' },
    ],
  },
  {
    key: 'Build',
    name: t('Build'),
    isForAdmins: true,
    views: [
      { to: '/agents', name: t('Agents'), icon: Bot, key: 'a' },
      { to: '/evaluations', name: t('Evaluations'), icon: ClipboardCheck, key: 'e' },
      { to: '/tools', name: t('Tools and MCP'), icon: Plug, key: 't' },
      { to: '/sources', name: t('Data sources'), icon: Database, key: 'b' },
    ],
  },
  {
    key: 'Observe',
    name: t('Observe'),
    isForAdmins: true,
    views: [
      { to: '/runs', name: t('Runs'), icon: ListTree, key: 'r' },
      { to: '/tasks', name: t('Workflows'), icon: Workflow, key: 'w' },
      { to: '/operations', name: t('Operations'), icon: Activity, key: 'o' },
    ],
  },
];

/** The groups that a user sees. */
export function groupsFor(isAdmin: boolean): readonly Group[] {
  return GROUPS.filter((group) => isAdmin || !group.isForAdmins);
}

/** The views that a user sees, in order. */
export function viewsFor(isAdmin: boolean): readonly View[] {
  return [CHAT, ...groupsFor(isAdmin).flatMap(({ views }) => views), SETTINGS];
}

/** The view that an address belongs to, with its group; undefined for the chat. */
export function placeOf(pathname: string): { group: string | null; view: View } | undefined {
  const belongs = ({ to }: View) => pathname === to || pathname.startsWith(`${to}/`);
  for (const { name, views } of GROUPS) {
    const view = views.find(belongs);
    if (view) return { group: name, view };
  }
  return belongs(SETTINGS) ? { group: null, view: SETTINGS } : undefined;
}

export function isChat(pathname: string): boolean {
  return pathname === '/' || pathname.startsWith('/c/') || pathname.startsWith('/new/');
}

/** How the shortcuts' modifiers are called here. */
export const MODIFIER = /Mac|iPhone|iPad/.test(navigator.userAgent) ? '⌘' : t('Ctrl');
export const SHIFT = t('Shift');
