// Signing in at the identity provider: whether it is possible, where it begins, and why it has failed.
import { useQuery } from '@tanstack/react-query';
import { api, query, type Schemas } from '../api/http';

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

const ASK_OPERATOR = 'If it fails again, ask the operator of this server: the server’s log has the reason.';
const ASK_OWNER = 'Ask an owner of a workspace for an invitation.';

/** By the codes of the API, as docs/operations/sign-in.md lists them. */
const FAILURES: Record<string, Failure> = {
  sign_in_unknown: {
    reason: 'The sign-in took longer than ten minutes, or was started in another browser.',
    remedy: 'Sign in again.',
  },
  cross_site: {
    reason: 'A link on another website started the sign-in.',
    remedy: 'Start it on this page.',
  },
  provider_refused: {
    reason: 'The identity provider refused the sign-in.',
    remedy: `Sign in again. ${ASK_OPERATOR}`,
  },
  code_refused: {
    reason:
      'The identity provider did not confirm the sign-in: it was used already, has expired, or your account was disabled.',
    remedy: `Sign in again. ${ASK_OPERATOR}`,
  },
  client_refused: {
    reason: 'The identity provider does not accept this server.',
    remedy: 'Ask the operator of this server to check its client id, secret and redirect URI.',
  },
  token_invalid: {
    reason: 'The identity provider’s response is not valid for this server.',
    remedy: `Sign in again. ${ASK_OPERATOR}`,
  },
  issuer_unavailable: {
    reason: 'The identity provider does not respond.',
    remedy: 'Try again in a few minutes.',
  },
  overloaded: {
    reason: 'The server is overloaded.',
    remedy: 'Try again in a minute.',
  },
  too_many_requests: {
    reason: 'You signed in too often.',
    remedy: 'Try again in a minute.',
  },
  user_unknown: {
    reason: 'Your account at the identity provider has no user on this server.',
    remedy: ASK_OWNER,
  },
  no_project: {
    reason: 'Your account has no access to a workspace on this server.',
    remedy: `${ASK_OWNER} If your access comes from a group, ask your administrator to add you to it.`,
  },
  email_not_allowed: {
    reason: 'Your email address is not verified, or does not belong to an organization that this server accepts.',
    remedy: 'Sign in with another account, or ask the operator of this server.',
  },
  signed_in_as_another: {
    reason: 'At the identity provider you are another user than in this browser.',
    remedy: 'Stay signed in as you are, or sign in as the other user.',
  },
  invitation_invalid: {
    reason: 'The invitation was used up, has expired or was revoked.',
    remedy: 'Ask the person who invited you for a new link.',
  },
  role_missing: {
    reason: 'A service account can’t sign in with a browser.',
    remedy: 'Sign in with another account.',
  },
};

/** Why a sign-in failed, and what to do about it. */
export function failureOf(code: string): Failure {
  return FAILURES[code] ?? { reason: 'The sign-in failed.', remedy: `Try again. ${ASK_OPERATOR}` };
}
