// The sections of settings, of tools and of agents, by their names in addresses.
const NAMES = ['appearance', 'sessions', 'shares', 'prompts', 'members', 'keys', 'usage', 'prices'] as const;
export type PartName = (typeof NAMES)[number];

export function partOf(value: unknown): PartName | undefined {
  return NAMES.find((name) => name === value);
}

/** Whether only admins see it. */
export function isForAdmins(part: PartName): boolean {
  return !['appearance', 'sessions', 'shares'].includes(part);
}

export type ToolsPart = 'programs';

export function isToolsPart(value: unknown): value is ToolsPart {
  return value === 'programs';
}

const AGENT_PARTS = ['versions', 'try', 'feedback'] as const;
/** The sections of an agent; none: its editor. */
export type AgentPart = (typeof AGENT_PARTS)[number];

export function agentPartOf(value: unknown): AgentPart | undefined {
  return AGENT_PARTS.find((name) => name === value);
}

/** Sections that became views. */
const MOVED = {
  agents: { to: '/agents' },
  servers: { to: '/tools', search: {} },
  programs: { to: '/tools', search: { part: 'programs' } },
  sources: { to: '/sources' },
} as const;
export type MovedName = keyof typeof MOVED;

/** Where a section is now. */
export function movedTo(part: PartName | MovedName | undefined): (typeof MOVED)[MovedName] | undefined {
  return part !== undefined && part in MOVED ? MOVED[part as MovedName] : undefined;
}

/** The name of a section that became a view. */
export function movedOf(value: unknown): MovedName | undefined {
  return typeof value === 'string' && value in MOVED ? (value as MovedName) : undefined;
}
