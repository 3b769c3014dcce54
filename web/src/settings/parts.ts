// The settings sections, by their names in addresses.
const NAMES = ['agents', 'prompts', 'servers', 'programs', 'sources', 'members', 'keys', 'usage', 'prices'] as const;
export type PartName = (typeof NAMES)[number];

export function partOf(value: unknown): PartName | undefined {
  return NAMES.find((name) => name === value);
}
