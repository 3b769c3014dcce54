// Signing in at the identity provider: whether it is possible, where it begins, and why it has failed.
import { useQuery } from '@tanstack/react-query';
import { api, query, type Schemas } from '../api/http';
import { t } from '../ui/language';

/** Maximum length of the path to return to, as the server has it. */
const PATH_MAX_CHARS = 1_000;

/** The ways to sign in. Without an answer, those that always work. */
export function useMethods() {
  return useQuery({
    queryKey: ['sign-in'],
    queryFn: () => api<Schemas['SignInMethods']>('/api/sign-in'),
    staleTime: Infinity,
    retry: false,
  });
}

/** Where a sign-in begins that returns to this page. `replace`: of another user than the one who is signed in. */
export function beginningAt(url: string, replace = false): string {
  const here = location.pathname + location.search;
  const isUsable = here !== '/' && here.length <= PATH_MAX_CHARS && !here.startsWith('//');
  return url + query({ returnTo: isUsable ? here : undefined, replace: replace ? 'true' : undefined });
}

interface Failure {
  /** What happened. */
  reason: string;
  /** What to do. */
  remedy: string;
}

const ASK_OPERATOR = t('If it fails again, ask the operator of this server: the server’s log has the reason.');
const ASK_OWNER = t('Ask an owner of a workspace for an invitation.');

/** By the codes of the API, as docs/operations/sign-in.md lists them. */
const FAILURES: Record<string, Failure> = {
  sign_in_unknown: {
    reason: t('The sign-in took longer than ten minutes, or was started in another browser.'),
    remedy: t('Sign in again.'),
  },
  cross_site: {
    reason: t('A link on another website started the sign-in.'),
    remedy: t('Start it on this page.'),
  },
  provider_refused: {
    reason: t('The identity provider refused the sign-in.'),
    remedy: `${t('Sign in again.')} ${ASK_OPERATOR}`,
  },
  code_refused: {
    reason: t(
      'The identity provider did not confirm the sign-in: it was used already, has expired, or your account was disabled.',
    ),
    remedy: `${t('Sign in again.')} ${ASK_OPERATOR}`,
  },
  client_refused: {
    reason: t('The identity provider does not accept this server.'),
    remedy: t('Ask the operator of this server to check its client id, secret and redirect URI.'),
  },
  token_invalid: {
    reason: t('The identity provider’s response is not valid for this server.'),
    remedy: `${t('Sign in again.')} ${ASK_OPERATOR}`,
  },
  issuer_unavailable: {
    reason: t('The identity provider does not respond.'),
    remedy: t('Try again in a few minutes.'),
  },
  overloaded: {
    reason: t('The server is overloaded.'),
    remedy: t('Try again in a minute.'),
  },
  too_many_requests: {
    reason: t('You signed in too often.'),
    remedy: t('Try again in a minute.'),
  },
  user_unknown: {
    reason: t('Your account at the identity provider has no user on this server.'),
    remedy: ASK_OWNER,
  },
  no_project: {
    reason: t('Your account has no access to a workspace on this server.'),
    remedy: `${ASK_OWNER} ${t('If your access comes from a group, ask your administrator to add you to it.')}`,
  },
  email_not_allowed: {
    reason: t('Your email address is not verified, or does not belong to an organization that this server accepts.'),
    remedy: t('Sign in with another account, or ask the operator of this server.'),
  },
  signed_in_as_another: {
    reason: t('At the identity provider you are another user than in this browser.'),
    remedy: t('Stay signed in as you are, or sign in as the other user.'),
  },
  invitation_invalid: {
    reason: t('The invitation was used up, has expired or was revoked.'),
    remedy: t('Ask the person who invited you for a new link.'),
  },
  role_missing: {
    reason: t('A service account can’t sign in with a browser.'),
    remedy: t('Sign in with another account.'),
  },
};

/** Why a sign-in failed, and what to do about it. */
export function failureOf(code: string): Failure {
  return FAILURES[code] ?? { reason: t('The sign-in failed.'), remedy: `${t('Try again.')} ${ASK_OPERATOR}` };
}
