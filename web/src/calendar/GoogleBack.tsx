// The OAuth redirect page: sends Google's response to the server and returns to the calendar.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { Problem } from '../api/http';
import { t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { sendConsent } from './consent';
import { linkKey } from './google';

/** What is to be done about a refusal. */
const ADVICE: Record<string, string> = {
  consent_refused: t('Nothing was linked, and nothing was sent to Google. To try again, start from the calendar.'),
  consent_unknown: t(
    'The response from Google has expired, was already used, or belongs to another user. Start again from the calendar.',
  ),
  google_failed: t('Nothing was linked. Try again later from the calendar.'),
};

export function GoogleBack() {
  useTitle(t('Google Calendar'));
  const queries = useQueryClient();
  const navigate = useNavigate();
  // Never again by itself: what Google sends counts once.
  const consent = useQuery({
    queryKey: ['google consent'],
    queryFn: () => sendConsent(),
    retry: false,
    retryOnMount: false,
    staleTime: Infinity,
    refetchOnReconnect: false,
    refetchOnWindowFocus: false,
  });
  const done = consent.data;
  useEffect(() => {
    if (!done) return;
    queries.setQueryData(linkKey(done.calendarId), done.link);
    void queries.invalidateQueries({ queryKey: ['calendars'] });
    void navigate({ to: '/calendar', search: { calendar: done.calendarId, dialog: 'google' }, replace: true });
  }, [done, queries, navigate]);
  const advice = consent.error instanceof Problem ? ADVICE[consent.error.code] : undefined;
  const isOver = consent.isError || consent.data === null;
  return (
    <main id="main" className="page">
      <h1>{t('Google Calendar')}</h1>
      {consent.isError ? <ErrorNote error={consent.error} /> : null}
      {isOver ? (
        <>
          <p>
            {advice ??
              t(
                'The response from Google can no longer be used. Check the calendar. If it is not linked, start again from there.',
              )}
          </p>
          <Link to="/calendar" className="button">
            {t('Go to calendar')}
          </Link>
        </>
      ) : (
        <Waiting what={t('the response from Google')} />
      )}
    </main>
  );
}
