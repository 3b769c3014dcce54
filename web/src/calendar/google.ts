// Reads a calendar's Google link from the API, and opens Google's consent page.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { api, Problem, type Schemas } from '../api/http';
import { t } from '../ui/language';
import type { Calendar } from './CalendarView';

export type GoogleLink = Schemas['GoogleLinkBody'];

/** While something is on its way, it is asked for again after [ms]. */
const AGAIN_MS = 2_000;

export const linkKey = (calendarId: string) => ['google', calendarId] as const;
export const linkPath = (calendarId: string) => `/api/calendars/${calendarId}/google`;

/** The calendar's link; null: it has none. */
async function read(calendarId: string, signal: AbortSignal): Promise<GoogleLink | null> {
  try {
    return await api<GoogleLink>(linkPath(calendarId), { signal });
  } catch (error) {
    if (error instanceof Problem && error.code === 'google_link_not_found') return null;
    throw error;
  }
}

function isMoving(link: GoogleLink): boolean {
  return link.state === 'linked' && (link.isSyncing || link.waiting > 0);
}

/** The calendar's link, asked for again while something is on its way; what a synchronisation brings is shown when it ends. */
export function useLink(calendar: Calendar, isWanted: boolean) {
  const queries = useQueryClient();
  const link = useQuery({
    queryKey: linkKey(calendar.id),
    queryFn: ({ signal }) => read(calendar.id, signal),
    enabled: isWanted,
    refetchInterval: ({ state }) => (state.data && isMoving(state.data) ? AGAIN_MS : false),
  });
  const { data } = link;
  const before = useRef(data);
  useEffect(() => {
    const [was, is] = [before.current, data];
    before.current = data;
    if (!was || !is) return;
    const hasEnded = (was.isSyncing && !is.isSyncing) || was.syncedAt !== is.syncedAt;
    if (hasEnded) void queries.invalidateQueries({ queryKey: ['happening', calendar.id] });
    if (was.state !== is.state) void queries.invalidateQueries({ queryKey: ['calendars'] });
  }, [data, queries, calendar.id]);
  return link;
}

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]'];

/** Leaves for Google's page. Never for another scheme: an address such as `javascript:` would run here. */
export function leaveFor(address: string): void {
  const { protocol, hostname } = new URL(address);
  const isSafe = protocol === 'https:' || (protocol === 'http:' && LOOPBACK.includes(hostname));
  if (!isSafe)
    throw new Error(
      t("The server returned “{origin}” as Google's sign-in page, but only HTTPS pages are opened.", {
        origin: `${protocol}//${hostname}`,
      }),
    );
  location.assign(address);
}
