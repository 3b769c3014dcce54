// Places the events of a day on a grid of hours: those at the same time are side by side.
import type { Day } from './days';
import type { Placed } from './layoutEvents';

export const DAY_MIN = 24 * 60;
/** What is shorter is shown as long as this, in minutes: it has to hold its title. */
const LEAST_MIN = 30;

export interface Slot {
  placed: Placed;
  /** In minutes after midnight. */
  from: number;
  to: number;
  lane: number;
  /** Side by side with it, and itself. */
  lanes: number;
}

/** The minutes after midnight of a time such as `09:30`. */
export function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3, 5));
}

/** Those with a time on this day, in its order. */
export function slotsOf(all: readonly Placed[], day: Day): Slot[] {
  const timed = all
    .filter(({ from }) => from !== undefined)
    .map((placed) => {
      // Late ones begin earlier, so that they can be read.
      const from = Math.min(placed.first < day ? 0 : minutesOf(placed.from ?? ''), DAY_MIN - LEAST_MIN);
      const end = placed.last > day || placed.to === '00:00' ? DAY_MIN : minutesOf(placed.to ?? '');
      return { placed, from, to: Math.max(end, from + LEAST_MIN) };
    })
    .sort((a, b) => a.from - b.from || b.to - a.to);
  const slots: Slot[] = [];
  let cluster: Slot[] = [];
  let clusterEnd = 0;
  for (const one of timed) {
    if (one.from >= clusterEnd) {
      for (const slot of cluster) slot.lanes = Math.max(...cluster.map(({ lane }) => lane)) + 1;
      cluster = [];
    }
    const taken = new Set(cluster.filter(({ to }) => to > one.from).map(({ lane }) => lane));
    let lane = 0;
    while (taken.has(lane)) lane += 1;
    const slot = { ...one, lane, lanes: 1 };
    cluster.push(slot);
    slots.push(slot);
    clusterEnd = Math.max(clusterEnd, one.to);
  }
  for (const slot of cluster) slot.lanes = Math.max(...cluster.map(({ lane }) => lane)) + 1;
  return slots;
}
