/** A time span for people, in the unit that fits it; nothing where it is not known. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '';
  // Rounded first: a value that rounds up to the next unit is shown in that unit.
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(Math.round(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
