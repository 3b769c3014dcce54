// Finds the chain of tasks before and after one in a dependency graph.

interface Waits {
  id: string;
  after: string[];
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
