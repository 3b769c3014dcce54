// Shows what an invitation offers, and joins the workspace: as the signed-in user, as a user of the identity provider, or as a new user.
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, type Me, Problem, type Schemas, signOut } from '../api/http';
import * as localStore from '../api/localStore';
import { ROLES, type Role, roleName } from '../settings/roles';
import { Failed } from '../ui/Failed';
import { rich, t } from '../ui/language';
import { Ago, ErrorNote, Waiting } from '../ui/parts';
import { ShownOnce } from '../ui/ShownOnce';
import { useTitle } from '../ui/title';
import { toast } from '../ui/toasts';
import { type Invited, keepInvitation } from './invited';
import { SignIn } from './SignIn';
import { SsoFailure } from './SsoFailed';
import { beginningAt } from './sso';

type Offer = Schemas['InvitationOffer'];

interface Props {
  invited: Invited;
  me: Me | null;
  /** Why a sign-in at the identity provider failed: its code. */
  failure: string | null;
  onAnswered: () => Promise<void>;
}

const has = (error: unknown, code: string) => error instanceof Problem && error.code === code;

export default function Invitation({ invited, me, failure, onAnswered }: Props) {
  const { token } = invited;
  const [isSigningIn, setSigningIn] = useState(false);
  useTitle(isSigningIn && me === null ? t('Sign in') : t('Invitation'));
  const offer = useQuery({
    queryKey: ['invitation', token, me?.userId ?? null],
    queryFn: async () => {
      const offer = await api<Offer>('/api/invitations/preview', { method: 'POST', body: { invitation: token } });
      const { projectId, project } = offer;
      keepInvitation({ token, to: { projectId, project } });
      return offer;
    },
    staleTime: Infinity,
  });
  const join = useMutation({
    mutationFn: (handle?: string) =>
      api<Schemas['JoinedProject']>('/api/invitations/accept', { method: 'POST', body: { invitation: token, handle } }),
    onSuccess: async ({ key, role }) => {
      keepInvitation(null);
      if (key) return;
      toast(
        t('You are in the workspace {workspace} as {role}.', {
          workspace: offer.data?.project ?? '',
          role: roleName(role),
        }),
      );
      await onAnswered();
    },
    onError: (error) => {
      // The server keeps the invitation for ten minutes, and accepts it when the user has signed in.
      if (error instanceof Problem && typeof error.body.signInUrl === 'string')
        location.assign(beginningAt(error.body.signInUrl));
    },
  });
  const decline = () => {
    keepInvitation(null);
    void onAnswered();
  };
  if (has(offer.error, 'invitation_invalid') || has(join.error, 'invitation_invalid'))
    return (
      <main className="sign-in">
        <h1>{t("This invitation can't be used")}</h1>
        <p>{t('It was used up, has expired or was revoked, or it belongs to another server.')}</p>
        <p>{t('Ask the person who invited you for a new link.')}</p>
        <div className="ways">
          <button type="button" className="primary" onClick={decline}>
            {t('Continue without it')}
          </button>
        </div>
      </main>
    );
  if (offer.isPending) return <Waiting what={t('the invitation')} />;
  if (offer.isError)
    return (
      <main className="sign-in">
        <h1>{t("The invitation can't be shown")}</h1>
        <Failed reading={offer} />
        <div className="ways">
          <button type="button" onClick={decline}>
            {t('Continue without it')}
          </button>
        </div>
      </main>
    );
  if (join.data?.key)
    return (
      <main className="sign-in">
        <h1>{t('You joined {workspace}', { workspace: offer.data.project })}</h1>
        <ShownOnce secret={join.data.key} copy={t('Copy key')} done={t('Continue')} onDone={() => void onAnswered()}>
          {t('You are signed in. To sign in again later, you need this API key.')}
        </ShownOnce>
      </main>
    );
  if (isSigningIn && me === null)
    return (
      <SignIn onSignedIn={onAnswered}>
        <p>{t('Then you can join the workspace {workspace}.', { workspace: offer.data.project })}</p>
        <button type="button" onClick={() => setSigningIn(false)}>
          {t('Back to the invitation')}
        </button>
      </SignIn>
    );
  return (
    <main className="sign-in">
      <h1>{t('Join {workspace}?', { workspace: offer.data.project })}</h1>
      <About offer={offer.data} />
      {failure === null ? null : <SsoFailure code={failure} />}
      <Join offer={offer.data} me={me} isBusy={join.isPending} onJoin={join.mutate} onDecline={decline} />
      {join.error && !has(join.error, 'sign_in_needed') ? <ErrorNote error={join.error} /> : null}
      <div className="ways">
        {me ? (
          <button type="button" onClick={() => void signOut().finally(localStore.leave)}>
            {t('Sign in as another user')}
          </button>
        ) : (
          <button type="button" onClick={() => setSigningIn(true)}>
            {offer.data.joinsAs === 'sso' ? t('Sign in with an API key') : t('Sign in as an existing user')}
          </button>
        )}
        <button type="button" onClick={decline}>
          {t('Not now')}
        </button>
      </div>
    </main>
  );
}

function About({ offer }: { offer: Offer }) {
  return (
    <>
      <p>
        {rich('{user} invites you to the workspace {workspace} as {role}.', {
          user: offer.invitedBy,
          workspace: <b>{offer.project}</b>,
          role: <b>{roleName(offer.role)}</b>,
        })}
      </p>
      <p className="quiet">
        {rich('{permissions}. The invitation expires {when}.', {
          permissions: ROLES[offer.role as Role],
          when: <Ago at={offer.expiresAt} />,
        })}
      </p>
    </>
  );
}

interface JoinProps {
  offer: Offer;
  me: Me | null;
  isBusy: boolean;
  /** `handle`: of a new user. */
  onJoin: (handle?: string) => void;
  onDecline: () => void;
}

function Join({ offer, me, isBusy, onJoin, onDecline }: JoinProps) {
  if (me?.projectId === offer.projectId)
    return (
      <>
        <p>{t('You are signed in as {user}, and are already a member of this workspace.', { user: me.handle })}</p>
        <div className="ways">
          <button type="button" className="primary" onClick={onDecline}>
            {t('Open the workspace')}
          </button>
        </div>
      </>
    );
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const handle = new FormData(event.currentTarget).get('handle');
    onJoin(handle === null ? undefined : String(handle).trim());
  };
  return (
    <form onSubmit={submit}>
      {offer.joinsAs === 'handle' ? (
        <>
          <label htmlFor="handle">{t('Handle')}</label>
          <input
            id="handle"
            name="handle"
            autoComplete="username"
            maxLength={255}
            required
            aria-describedby="handle-use"
          />
          <p id="handle-use" className="quiet">
            {t("The name that other members see. It can't be changed later.")}
          </p>
        </>
      ) : null}
      <button type="submit" className="primary" disabled={isBusy}>
        {offer.joinsAs === 'sso' ? t('Sign in and join') : me ? t('Join as {user}', { user: me.handle }) : t('Join')}
      </button>
    </form>
  );
}
