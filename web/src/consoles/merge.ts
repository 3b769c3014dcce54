// Merges two concurrent edits of a text line by line, by the same rule as the server. Edits of the same lines are a conflict.
import { diff3Merge } from 'node-diff3';

/** The text with both changes; null: both changed the same lines. */
export function merge(base: string, ours: string, theirs: string): string | null {
  if (ours === theirs || base === theirs) return ours;
  if (base === ours) return theirs;
  const pieces = diff3Merge(ours.split('\n'), base.split('\n'), theirs.split('\n'), { excludeFalseConflicts: true });
  const lines: string[] = [];
  for (const piece of pieces) {
    if (!piece.ok) return null;
    lines.push(...piece.ok);
  }
  return lines.join('\n');
}

/** Both texts in one, for merging by hand: what differs stands between marks, as version control writes them. */
export function both(base: string, ours: string, theirs: string): string {
  const pieces = diff3Merge(ours.split('\n'), base.split('\n'), theirs.split('\n'), { excludeFalseConflicts: true });
  const lines = pieces.flatMap((piece) =>
    piece.conflict
      ? ['<<<<<<< yours', ...piece.conflict.a, '=======', ...piece.conflict.b, '>>>>>>> theirs']
      : (piece.ok ?? []),
  );
  return lines.join('\n');
}
