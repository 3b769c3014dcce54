// Maps addresses to views. Every view but the start page is loaded on demand.
import { createRootRoute, createRoute, createRouter, redirect } from '@tanstack/react-router';
import { Begin } from './chat/Begin';
import { SHOWN, type Shown } from './evaluations/compare';
import { filtersOf } from './runs/filters';
import { Shell } from './Shell';
import {
  type AgentPart,
  agentPartOf,
  isToolsPart,
  type MovedName,
  movedOf,
  movedTo,
  type PartName,
  partOf,
  type ToolsPart,
} from './settings/parts';
import { lazyView, ViewFailed } from './ui/lazyView';
import { NotFound } from './ui/NotFound';

/** A parameter of the address, if it is a text. */
function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** A parameter of the address, if it is a whole number. */
function whole(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

const chatViews = () => import('./chat/ChatView');
const ChatView = lazyView(chatViews, 'ChatView');
const NewChatView = lazyView(chatViews, 'NewChatView');

const root = createRootRoute({ component: Shell });

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: () => <Begin preload={ChatView.preload} />,
});

const chat = createRoute({
  getParentRoute: () => root,
  path: '/c/$id',
  validateSearch: (search: Record<string, unknown>): { message?: string | undefined } => ({
    message: text(search.message),
  }),
  component: ChatView,
});

const begun = createRoute({
  getParentRoute: () => root,
  path: '/new/$place',
  component: NewChatView,
});

const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: filtersOf,
  component: lazyView(() => import('./runs/RunList'), 'RunList'),
});

const run = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id',
  component: lazyView(() => import('./runs/RunView'), 'RunView'),
});

const log = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id/log',
  validateSearch: (search: Record<string, unknown>): { at?: number | undefined; without?: string | undefined } => ({
    at: whole(search.at),
    without: text(search.without),
  }),
  component: lazyView(() => import('./runs/LogView'), 'LogView'),
});

const compare = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id/compare/$other',
  component: lazyView(() => import('./runs/CompareView'), 'CompareView'),
});

const tasks = createRoute({
  getParentRoute: () => root,
  path: '/tasks',
  component: lazyView(() => import('./tasks/DagList'), 'DagList'),
});

const dag = createRoute({
  getParentRoute: () => root,
  path: '/tasks/$id',
  component: lazyView(() => import('./tasks/DagView'), 'DagView'),
});

const graph = createRoute({
  getParentRoute: () => root,
  path: '/graph',
  validateSearch: (search: Record<string, unknown>): { q?: string | undefined } => ({ q: text(search.q) }),
  component: lazyView(() => import('./graph/GraphSearch'), 'GraphSearch'),
});

const object = createRoute({
  getParentRoute: () => root,
  path: '/graph/$id',
  component: lazyView(() => import('./graph/ObjectView'), 'ObjectView'),
});

const work = createRoute({
  getParentRoute: () => root,
  path: '/work',
  component: lazyView(() => import('./work/ProjectList'), 'ProjectList'),
});

const project = createRoute({
  getParentRoute: () => root,
  path: '/work/$projectId',
  validateSearch: (search: Record<string, unknown>): { plan?: string | undefined; goal?: string | undefined } => ({
    plan: text(search.plan),
    goal: text(search.goal),
  }),
  component: lazyView(() => import('./work/Board'), 'Board'),
});

const task = createRoute({
  getParentRoute: () => root,
  path: '/work/$projectId/tasks/$taskId',
  component: lazyView(() => import('./work/TaskView'), 'TaskView'),
});

const documents = createRoute({
  getParentRoute: () => root,
  path: '/work/$projectId/documents',
  component: lazyView(() => import('./work/documents/DocumentsView'), 'DocumentsView'),
});

const document = createRoute({
  getParentRoute: () => root,
  path: '/work/$projectId/documents/$documentId',
  validateSearch: (
    search: Record<string, unknown>,
  ): { view?: 'versions' | undefined; before?: number | undefined; after?: number | undefined } => ({
    view: search.view === 'versions' ? 'versions' : undefined,
    before: whole(search.before),
    after: whole(search.after),
  }),
  component: lazyView(() => import('./work/documents/DocumentsView'), 'OneDocument'),
});

const calendar = createRoute({
  getParentRoute: () => root,
  path: '/calendar',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    calendar?: string | undefined;
    view?: 'week' | undefined;
    date?: string | undefined;
    dialog?: 'google' | undefined;
  } => ({
    calendar: text(search.calendar),
    view: search.view === 'week' ? 'week' : undefined,
    date: text(search.date),
    dialog: search.dialog === 'google' ? 'google' : undefined,
  }),
  component: lazyView(() => import('./calendar/CalendarView'), 'CalendarView'),
});

const googleBack = createRoute({
  getParentRoute: () => root,
  path: '/calendar/google',
  component: lazyView(() => import('./calendar/GoogleBack'), 'GoogleBack'),
});

const accounts = createRoute({
  getParentRoute: () => root,
  path: '/mcp/connect',
  validateSearch: (search: Record<string, unknown>): { server?: string | undefined } => ({
    server: text(search.server),
  }),
  component: lazyView(() => import('./accounts/AccountsView'), 'AccountsView'),
});

const operations = createRoute({
  getParentRoute: () => root,
  path: '/operations',
  component: lazyView(() => import('./operations/OperationsView'), 'OperationsView'),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  validateSearch: (search: Record<string, unknown>): { part?: PartName | MovedName | undefined } => ({
    part: partOf(search.part) ?? movedOf(search.part),
  }),
  // Sections that are views by now: addresses that were kept lead there.
  beforeLoad: ({ search }) => {
    const to = movedTo(search.part);
    if (to) throw redirect({ ...to, replace: true });
  },
  component: lazyView(() => import('./settings/SettingsView'), 'SettingsView'),
});

const agents = createRoute({
  getParentRoute: () => root,
  path: '/agents',
  validateSearch: (
    search: Record<string, unknown>,
  ): {
    agent?: string | undefined;
    view?: AgentPart | undefined;
    before?: number | undefined;
    after?: number | undefined;
  } => ({
    agent: text(search.agent),
    view: agentPartOf(search.view),
    before: whole(search.before),
    after: whole(search.after),
  }),
  component: lazyView(() => import('./settings/BuildViews'), 'AgentsView'),
});

const tools = createRoute({
  getParentRoute: () => root,
  path: '/tools',
  validateSearch: (search: Record<string, unknown>): { part?: ToolsPart | undefined } => ({
    part: isToolsPart(search.part) ? search.part : undefined,
  }),
  component: lazyView(() => import('./settings/BuildViews'), 'ToolsView'),
});

const sources = createRoute({
  getParentRoute: () => root,
  path: '/sources',
  component: lazyView(() => import('./settings/BuildViews'), 'SourcesView'),
});

const evaluationSets = createRoute({
  getParentRoute: () => root,
  path: '/evaluations',
  component: lazyView(() => import('./evaluations/SetList'), 'SetList'),
});

const evaluationSet = createRoute({
  getParentRoute: () => root,
  path: '/evaluations/$id',
  validateSearch: (search: Record<string, unknown>): { part?: 'evaluations' | undefined } => ({
    part: search.part === 'evaluations' ? 'evaluations' : undefined,
  }),
  component: lazyView(() => import('./evaluations/SetView'), 'SetView'),
});

const evaluation = createRoute({
  getParentRoute: () => root,
  path: '/evaluations/$id/$evaluation',
  validateSearch: (search: Record<string, unknown>): { compare?: string | undefined; show?: Shown | undefined } => ({
    compare: text(search.compare),
    show: SHOWN.find((name) => name === search.show && (name !== 'changed' || text(search.compare) !== undefined)),
  }),
  component: lazyView(() => import('./evaluations/EvaluationView'), 'EvaluationView'),
});

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    chat,
    begun,
    runs,
    run,
    log,
    compare,
    tasks,
    dag,
    graph,
    object,
    work,
    project,
    task,
    documents,
    document,
    calendar,
    googleBack,
    accounts,
    operations,
    settings,
    agents,
    evaluationSets,
    evaluationSet,
    evaluation,
    tools,
    sources,
  ]),
  defaultPreload: 'intent',
  defaultErrorComponent: ViewFailed,
  defaultNotFoundComponent: () => <NotFound />,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
