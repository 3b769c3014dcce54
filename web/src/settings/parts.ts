// The sections of settings and of tools, by their names in addresses.
const NAMES = ['appearance', 'prompts', 'members', 'keys', 'usage', 'prices'] as const;
export type PartName = (typeof NAMES)[number];

export function partOf(value: unknown): PartName | undefined {
  return NAMES.find((name) => name === value);
}

export type ToolsPart = 'programs';

export function isToolsPart(value: unknown): value is ToolsPart {
  return value === 'programs';
}

/** Sections that became views. */
export const MOVED: Record<
  string,
  { to: '/agents' | '/sources' } | { to: '/tools'; search: { part?: ToolsPart } } | undefined
> = {
  agents: { to: '/agents' },
  servers: { to: '/tools', search: {} },
  programs: { to: '/tools', search: { part: 'programs' } },
  sources: { to: '/sources' },
};
