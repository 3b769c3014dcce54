// Signs the browser in before it renders the app.
import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef } from 'react';
import { MeContext } from './api/me';
import { useOffline } from './api/offline';
import { enter } from './sign-in/entry';
import { t } from './ui/language';
import { lazyPart } from './ui/lazyView';
import { Waiting } from './ui/parts';

/** How often the server is asked whether it can be reached again, in milliseconds. */
const RECONNECT_MS = 5_000;

const SignIn = lazyPart(async () => (await import('./sign-in/SignIn')).SignIn, t('the sign-in'));
const SsoFailed = lazyPart(async () => (await import('./sign-in/SsoFailed')).SsoFailed, t('the sign-in'));
const Question = lazyPart(async () => (await import('./sign-in/Question')).Question, t('the question'));
const Invitation = lazyPart(async () => (await import('./sign-in/Invitation')).default, t('the invitation'));

/** Who uses the app. */
export const ENTRY = queryOptions({
  queryKey: ['me'],
  queryFn: enter,
  staleTime: Infinity,
  // It is asked before there is a gate, which shows an error of then: what was in the address is used up.
  retryOnMount: false,
  // Also where the browser has no network: then the last user's copies are shown.
  networkMode: 'always',
});

export function SignInGate({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const isOffline = useOffline();
  const wasOffline = useRef(isOffline);
  const entered = useQuery({
    ...ENTRY,
    refetchInterval: isOffline ? RECONNECT_MS : false,
  });
  useEffect(() => {
    // What could not be read is read now.
    if (wasOffline.current && !isOffline)
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' });
    wasOffline.current = isOffline;
  }, [isOffline, queries]);
  const again = () => queries.invalidateQueries({ queryKey: ENTRY.queryKey });
  if (entered.isPending) return <Waiting what={t('your session')} />;
  const entry = entered.data;
  switch (entry?.type) {
    case 'signed-in':
      return <MeContext.Provider value={entry.me}>{children}</MeContext.Provider>;
    case 'question':
      return <Question question={entry} onAnswered={again} />;
    case 'invited':
      return <Invitation invited={entry.invited} me={entry.me} failure={entry.failure} onAnswered={again} />;
    case 'sso-failed':
      return <SsoFailed code={entry.failure} me={entry.me} onContinue={() => void again()} />;
    case 'signed-out':
      return <SignIn failure={entry.failure} onSignedIn={again} />;
    case undefined:
      return <SignIn error={entered.error} onSignedIn={again} />;
  }
}
