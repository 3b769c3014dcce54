/** The texts by which people and other agents choose an agent. Pure. */

/** Maximum length of an agent's name and description, in characters. */
const TEXT_MAX = 200;

/** Throws a `TypeError` if an agent can't have this name. */
export function checkName(name: unknown): void {
  if (typeof name !== 'string' || name.trim() === '' || [...name].length > TEXT_MAX)
    throw new TypeError(`agent ${JSON.stringify(name)}: a name has 1 to ${TEXT_MAX} characters`);
}

/** Returns the part of a description that is shown: its first line. Throws a `TypeError` if there is none. */
export function shownOf(description: unknown, agent: string): string {
  if (typeof description !== 'string' || description.trim() === '')
    throw new TypeError(`agent ${agent}: people and agents choose an agent by its description; write one`);
  const [line = ''] = description.trim().split(/\r?\n/, 1);
  return [...line].slice(0, TEXT_MAX).join('');
}
