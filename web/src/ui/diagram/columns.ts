// Places nodes in columns in linear time: for graphs that are too large for dagre, whose time grows faster than their size.
import type { Line, Place, Sizes } from './layout';

/** Each node behind all that lead to it, near their middle. Lines that close a circle are left out of account. */
export function inColumns(ids: readonly string[], lines: readonly Line[], sizes: Sizes): Map<string, Place> {
  const next = new Map<string, string[]>(ids.map((id) => [id, []]));
  const before = new Map<string, string[]>(ids.map((id) => [id, []]));
  const open = new Map(ids.map((id) => [id, 0]));
  for (const { from, to } of lines) {
    if (from === to || !next.has(from) || !next.has(to)) continue;
    next.get(from)?.push(to);
    before.get(to)?.push(from);
    open.set(to, (open.get(to) ?? 0) + 1);
  }
  const ranks = new Map<string, number>();
  const ready = ids.filter((id) => open.get(id) === 0);
  // Those of a circle are taken when nothing else is ready.
  const rest = [...ids];
  for (let nth = 0; nth < ids.length; nth += 1) {
    while (ready[nth] === undefined) {
      const id = rest.shift();
      if (id === undefined) break;
      if ((open.get(id) ?? 0) > 0) {
        open.set(id, 0);
        ready.push(id);
      }
    }
    const id = ready[nth];
    if (id === undefined) break;
    const known = (before.get(id) ?? []).flatMap((other) => ranks.get(other) ?? []);
    ranks.set(
      id,
      known.reduce((most, rank) => Math.max(most, rank + 1), 0),
    );
    for (const other of next.get(id) ?? []) {
      const left = open.get(other) ?? 0;
      if (left === 0) continue;
      open.set(other, left - 1);
      if (left === 1) ready.push(other);
    }
  }
  const columns: string[][] = [];
  for (const id of ready) {
    const rank = ranks.get(id) ?? 0;
    columns[rank] ??= [];
    columns[rank].push(id);
  }
  const rows = new Map<string, number>();
  const places = new Map<string, Place>();
  for (const [nth, column] of columns.entries()) {
    const middle = new Map(
      column.map((id, row) => {
        const others = (before.get(id) ?? []).flatMap((other) => rows.get(other) ?? []);
        return [id, others.length === 0 ? row : others.reduce((sum, one) => sum + one, 0) / others.length];
      }),
    );
    column.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
    for (const [row, id] of column.entries()) {
      rows.set(id, row);
      places.set(id, { x: nth * (sizes.width + sizes.gapX), y: row * (sizes.height + sizes.gapY) });
    }
  }
  return places;
}
