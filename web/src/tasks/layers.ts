// Where tasks are drawn: each in the layer behind all that it waits for, near what it waits for.

export interface Placed<T> {
  task: T;
  x: number;
  y: number;
}

interface Waits {
  id: string;
  after: string[];
}

/** Layer by layer, from left to right. The tasks are a DAG: the server has checked it. */
export function placed<T extends Waits>(tasks: T[]): Placed<T>[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const layers = new Map<string, number>();
  const layerOf = (task: T): number => {
    const known = layers.get(task.id);
    if (known !== undefined) return known;
    const before = task.after.map((id) => byId.get(id)).filter((other) => other !== undefined);
    const layer = before.length === 0 ? 0 : 1 + Math.max(...before.map(layerOf));
    layers.set(task.id, layer);
    return layer;
  };
  // In the order of what they wait for, so that no call goes deeper than one layer.
  const rows = new Map<number, number>();
  const heights = new Map<string, number>();
  return [...tasks]
    .sort((a, b) => layerOf(a) - layerOf(b))
    .map((task) => {
      const x = layerOf(task);
      const wanted = task.after.map((id) => heights.get(id) ?? 0);
      const y = Math.max(rows.get(x) ?? 0, wanted.length === 0 ? 0 : Math.floor(wanted.reduce((sum, row) => sum + row, 0) / wanted.length));
      rows.set(x, y + 1);
      heights.set(task.id, y);
      return { task, x, y };
    });
}
