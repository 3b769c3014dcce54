// Changes the times of an event that was dragged: shown at once, and undone with the reason if the server refuses.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, ifMatch, Problem, type Schemas } from '../api/http';
import { t } from '../ui/language';
import { HERE, inShort, timeInWords, wallAt } from './days';
import type { EventBody } from './draft';
import { keyOf, type Occurrence } from './layoutEvents';
import { at, type Times } from './reschedule';

interface Change {
  occurrence: Occurrence;
  times: Times;
}

/** The event is no longer as it was shown. */
class Stale extends Error {}

interface Reschedule {
  change: (change: Change) => void;
  /** Why the last change was undone. */
  undone: string | null;
  forget: () => void;
}

/** `onDone`: describes the change. */
export function useReschedule(calendarId: string, onDone: (message: string) => void): Reschedule {
  const queries = useQueryClient();
  const queryKey = ['happening', calendarId];
  const [undone, setUndone] = useState<string | null>(null);
  const show = (before: Occurrence, now: Occurrence) =>
    queries.setQueriesData<Schemas['Occurrences']>(
      { queryKey },
      (shown) => shown && { ...shown, items: shown.items.map((one) => (keyOf(one) === keyOf(before) ? now : one)) },
    );
  const mutation = useMutation({
    mutationFn: async ({ occurrence, times }: Change) => {
      const path = `/api/calendar-events/${occurrence.eventId}`;
      const event = await api<EventBody>(path);
      const isSame = (name: 'start' | 'end') => Date.parse(event[name]) === Date.parse(occurrence[name]);
      if (!isSame('start') || !isSame('end')) throw new Stale();
      const { start, end } = at(occurrence, times);
      await api(path, {
        method: 'PATCH',
        body: { start, end, allDay: false, timeZone: event.timeZone },
        headers: ifMatch(event.version),
      });
    },
    onMutate: async ({ occurrence, times }) => {
      setUndone(null);
      // What was read before would show it where it was.
      await queries.cancelQueries({ queryKey });
      show(occurrence, at(occurrence, times));
    },
    onSuccess: (_, { occurrence, times }) => {
      const start = wallAt(times.start, HERE);
      const end = wallAt(times.end, HERE);
      onDone(
        t('Moved “{title}” to {day}, {from}–{to}.', {
          title: occurrence.title,
          day: inShort(start.slice(0, 10)),
          from: timeInWords(start.slice(11)),
          to: timeInWords(end.slice(11)),
        }),
      );
    },
    onError: (error, { occurrence, times }) => {
      show(at(occurrence, times), occurrence);
      setUndone(notMoved(occurrence.title, error));
    },
    onSettled: () => queries.invalidateQueries({ queryKey }),
  });
  return { change: mutation.mutate, undone, forget: () => setUndone(null) };
}

function notMoved(title: string, error: Error): string {
  if (error instanceof Stale || (error instanceof Problem && error.code === 'version_conflict'))
    return t(
      '“{title}” was not moved: someone else changed it in the meantime. The current version is shown. Move it again if needed.',
      { title },
    );
  if (!(error instanceof Problem))
    return t('“{title}” was not moved: the server did not respond. Try again.', { title });
  if (error.status === 404) return t('“{title}” was not moved: it was deleted in the meantime.', { title });
  return t('“{title}” was not moved: {reason} ({code}).', { title, reason: error.message, code: error.code });
}
