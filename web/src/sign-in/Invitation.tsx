// Shows what an invitation offers, and joins the workspace: as the signed-in user, as a user of the identity provider, or as a new user.
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { api, type Me, Problem, type Schemas, signOut } from '../api/http';
import * as localStore from '../api/localStore';
import { ROLES, type Role } from '../settings/roles';
import { Failed } from '../ui/Failed';
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
  useTitle(isSigningIn && me === null ? 'Sign in' : 'Invitation');
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
      toast(`You are in the workspace ${offer.data?.project ?? ''} as ${role}.`);
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
        <h1>This invitation can&apos;t be used</h1>
        <p>It was used up, has expired or was revoked, or it belongs to another server.</p>
        <p>Ask the person who invited you for a new link.</p>
        <div className="ways">
          <button type="button" className="primary" onClick={decline}>
            Continue without it
          </button>
        </div>
      </main>
    );
  if (offer.isPending) return <Waiting what="the invitation" />;
  if (offer.isError)
    return (
      <main className="sign-in">
        <h1>The invitation can&apos;t be shown</h1>
        <Failed reading={offer} />
        <div className="ways">
          <button type="button" onClick={decline}>
            Continue without it
          </button>
        </div>
      </main>
    );
  if (join.data?.key)
    return (
      <main className="sign-in">
        <h1>You joined {offer.data.project}</h1>
        <ShownOnce secret={join.data.key} copy="Copy key" done="Continue" onDone={() => void onAnswered()}>
          You are signed in. To sign in again later, you need this API key.
        </ShownOnce>
      </main>
    );
  if (isSigningIn && me === null)
    return (
      <SignIn onSignedIn={onAnswered}>
        <p>Then you can join the workspace {offer.data.project}.</p>
        <button type="button" onClick={() => setSigningIn(false)}>
          Back to the invitation
        </button>
      </SignIn>
    );
  return (
    <main className="sign-in">
      <h1>Join {offer.data.project}?</h1>
      <About offer={offer.data} />
      {failure === null ? null : <SsoFailure code={failure} />}
      <Join offer={offer.data} me={me} isBusy={join.isPending} onJoin={join.mutate} onDecline={decline} />
      {join.error && !has(join.error, 'sign_in_needed') ? <ErrorNote error={join.error} /> : null}
      <div className="ways">
        {me ? (
          <button type="button" onClick={() => void signOut().finally(localStore.leave)}>
            Sign in as another user
          </button>
        ) : (
          <button type="button" onClick={() => setSigningIn(true)}>
            {offer.data.joinsAs === 'sso' ? 'Sign in with an API key' : 'Sign in as an existing user'}
          </button>
        )}
        <button type="button" onClick={decline}>
          Not now
        </button>
      </div>
    </main>
  );
}

function About({ offer }: { offer: Offer }) {
  return (
    <>
      <p>
        {offer.invitedBy} invites you to the workspace <b>{offer.project}</b> as <b>{offer.role}</b>.
      </p>
      <p className="quiet">
        {ROLES[offer.role as Role]}. The invitation expires <Ago at={offer.expiresAt} />.
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
        <p>You are signed in as {me.handle}, and are already a member of this workspace.</p>
        <div className="ways">
          <button type="button" className="primary" onClick={onDecline}>
            Open the workspace
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
          <label htmlFor="handle">Handle</label>
          <input
            id="handle"
            name="handle"
            autoComplete="username"
            maxLength={255}
            required
            aria-describedby="handle-use"
          />
          <p id="handle-use" className="quiet">
            The name that other members see. It can&apos;t be changed later.
          </p>
        </>
      ) : null}
      <button type="submit" className="primary" disabled={isBusy}>
        {offer.joinsAs === 'sso' ? 'Sign in and join' : me ? `Join as ${me.handle}` : 'Join'}
      </button>
    </form>
  );
}
