// How a browser enters the app: signed in or not, and what the address contained: a one-time code (`#code=…`, as `rejoin dev` and `rejoin sign-in`
// print it), a key (`#key=…`), an invitation (`#invitation=…`), or why a sign-in at the identity provider failed (`#sign-in-error=…`).
//
// Invariant: what the address contained is removed from it at once, and never switches users without consent: if another user is signed in, and
// always for a key, the page asks first.
import { type Me, Problem, signIn, signInByCode, whoAmI, whoseKey } from '../api/http';
import { keepFor, lastUser } from '../api/localStore';
import { getOffline, setOffline } from '../api/offline';
import { roleName } from '../settings/roles';
import { t } from '../ui/language';
import { toast } from '../ui/toasts';
import { type Invited, invitation, keepInvitation } from './invited';

export type Entry =
  | { type: 'signed-in'; me: Me }
  | { type: 'signed-out'; failure: string | null }
  /** A sign-in at the identity provider failed, and the user from before is still signed in. */
  | { type: 'sso-failed'; me: Me; failure: string }
  /** An invitation waits for its answer. `me`: null if no user is signed in. */
  | { type: 'invited'; me: Me | null; invited: Invited; failure: string | null }
  /** A link would make the browser another user. `now`: the signed-in user; null if there is none. */
  | { type: 'question'; now: string | null; instead: string; agree: () => Promise<void> };

type Question = Extract<Entry, { type: 'question' }>;

const NAMES = ['code', 'key', 'invitation', 'sign-in-error'] as const;

/** Takes what the address contains out of it. */
function taken(): Record<(typeof NAMES)[number], string | null> {
  const brought = new URLSearchParams(location.hash.slice(1));
  if (NAMES.some((name) => brought.has(name)))
    history.replaceState(history.state, '', location.pathname + location.search);
  return {
    code: brought.get('code'),
    key: brought.get('key'),
    invitation: brought.get('invitation'),
    'sign-in-error': brought.get('sign-in-error'),
  };
}

async function byCode(code: string): Promise<Question | null> {
  try {
    await signInByCode(code);
    return null;
  } catch (refusal) {
    if (!(refusal instanceof Problem) || refusal.code !== 'signed_in_as_another') throw refusal;
    const handle = (of: string) => (refusal.body[of] as { handle: string }).handle;
    return {
      type: 'question',
      now: handle('signedInAs'),
      instead: handle('instead'),
      agree: () => signInByCode(code, true),
    };
  }
}

async function byKey(key: string): Promise<Question | null> {
  const [now, instead] = await Promise.all([whoAmI(), whoseKey(key)]);
  if (now?.userId === instead.userId && now.projectId === instead.projectId) return null;
  return { type: 'question', now: now?.handle ?? null, instead: instead.handle, agree: () => signIn(key, true) };
}

export async function enter(): Promise<Entry> {
  const { code, key, invitation: opened, 'sign-in-error': failure } = taken();
  if (opened) keepInvitation({ token: opened });
  else if (failure === 'invitation_invalid') keepInvitation(null);
  const question = code !== null ? await byCode(code) : key !== null ? await byKey(key) : null;
  if (question) return question;
  const last = lastUser();
  let me: Me | null;
  try {
    me = await whoAmI();
  } catch (error) {
    if (last === null || (error instanceof Problem && error.status < 500)) throw error;
    setOffline(true);
    keepFor(last);
    return { type: 'signed-in', me: last };
  }
  // Signed out, or another user by now: a page belongs to one user until it is reloaded.
  if (last && getOffline() && (me?.userId !== last.userId || me.projectId !== last.projectId)) {
    location.reload();
    return { type: 'signed-in', me: last };
  }
  setOffline(false);
  const invited = invitation();
  // Accepted: the sign-in at the identity provider did it.
  if (me && invited?.to?.projectId === me.projectId) {
    keepInvitation(null);
    toast(
      t('You are in the workspace {workspace} as {role}.', { workspace: invited.to.project, role: roleName(me.role) }),
    );
  } else if (invited) return { type: 'invited', me, invited, failure };
  if (me && failure !== null) return { type: 'sso-failed', me, failure };
  keepFor(me);
  return me ? { type: 'signed-in', me } : { type: 'signed-out', failure };
}
