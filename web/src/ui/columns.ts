// Where things are drawn that are connected from column to column: near what they are connected with, so that few lines cross.

/** How often all columns are gone through; more changes little. */
const SWEEPS = 6;

export interface Place {
  /** The column. */
  x: number;
  /** The row, from the top of the picture; columns are centred, so that it may lie between two. */
  y: number;
}

/** The place of each, in the columns that they are given in. `lines` are pairs of them. */
export function placesOf(columns: string[][], lines: readonly (readonly [string, string])[]): Map<string, Place> {
  const connected = new Map<string, string[]>();
  for (const [a, b] of lines) {
    connected.set(a, [...(connected.get(a) ?? []), b]);
    connected.set(b, [...(connected.get(b) ?? []), a]);
  }
  const rows = Math.max(0, ...columns.map((column) => column.length));
  const places = new Map<string, Place>();
  const place = (column: string[], x: number) => {
    for (const [nth, id] of column.entries()) places.set(id, { x, y: nth + (rows - column.length) / 2 });
  };
  const ordered = columns.map((column) => [...column]);
  ordered.forEach(place);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    // There and back, looking at what has just been placed.
    const forward = sweep % 2 === 0;
    for (let step = 0; step < ordered.length; step++) {
      const x = forward ? step : ordered.length - 1 - step;
      const column = ordered[x] ?? [];
      const middle = new Map(
        column.map((id) => {
          const at = places.get(id) ?? { x, y: 0 };
          const others = (connected.get(id) ?? []).flatMap((other) => {
            const there = places.get(other);
            return there && (forward ? there.x < x : there.x > x) ? [there.y] : [];
          });
          return [id, others.length === 0 ? at.y : others.reduce((sum, y) => sum + y, 0) / others.length];
        }),
      );
      column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      place(column, x);
    }
  }
  return places;
}
