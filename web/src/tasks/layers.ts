// Computes the column of each task in a dependency graph, and the chain of tasks before and after one.

interface Waits {
  id: string;
  after: string[];
}

/** The tasks in columns, each behind all that it waits for. They are a DAG: the server has checked it. */
export function columnsOf(tasks: readonly Waits[]): string[][] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const layers = new Map<string, number>();
  const layerOf = (task: Waits): number => {
    const known = layers.get(task.id);
    if (known !== undefined) return known;
    const before = task.after.map((id) => byId.get(id)).filter((other) => other !== undefined);
    const layer = before.length === 0 ? 0 : 1 + Math.max(...before.map(layerOf));
    layers.set(task.id, layer);
    return layer;
  };
  const columns: string[][] = [];
  for (const task of tasks) {
    const layer = layerOf(task);
    columns[layer] ??= [];
    columns[layer].push(task.id);
  }
  return columns;
}

/** All that a task waits for, however far before it; and all that wait for it. */
export function chainOf(tasks: readonly Waits[], id: string): { before: Set<string>; behind: Set<string> } {
  const before = new Map(tasks.map((task) => [task.id, task.after]));
  const behind = new Map<string, string[]>();
  for (const task of tasks) for (const other of task.after) behind.set(other, [...(behind.get(other) ?? []), task.id]);
  return { before: reached(id, before), behind: reached(id, behind) };
}

function reached(from: string, next: ReadonlyMap<string, readonly string[]>): Set<string> {
  const met = new Set<string>();
  const open = [from];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const other of next.get(id) ?? []) {
      if (met.has(other)) continue;
      met.add(other);
      open.push(other);
    }
  }
  return met;
}
