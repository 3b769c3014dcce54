// The page on which a user signs in: at the identity provider, if there is one, or with an API key.
import { type FormEvent, type ReactNode, useState } from 'react';
import { signIn } from '../api/http';
import { rich, t } from '../ui/language';
import { ErrorNote, Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { SsoFailure } from './SsoFailed';
import { beginningAt, useMethods } from './sso';

interface Props {
  /** Why the user is not signed in by what the address contained. */
  error?: unknown;
  /** Why a sign-in at the identity provider failed: its code. */
  failure?: string | null;
  onSignedIn: () => Promise<void>;
  /** What the sign-in is for, and how to leave. */
  children?: ReactNode;
}

export function SignIn({ error = null, failure = null, onSignedIn, children }: Props) {
  const [key, setKey] = useState('');
  const [refused, setRefused] = useState<unknown>(error);
  useTitle(t('Sign in'));
  const methods = useMethods();
  if (methods.isPending) return <Waiting what={t('the ways to sign in')} />;
  const sso = methods.data?.sso;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await signIn(key.trim());
      await onSignedIn();
    } catch (refusal) {
      setRefused(refusal);
    }
  };
  return (
    <main className="sign-in">
      <img src="/icon.svg" alt="" width="40" height="40" />
      <h1>{t('Sign in to Rejoin')}</h1>
      {failure === null ? null : <SsoFailure code={failure} />}
      {children}
      {sso ? (
        <>
          <div className="ways">
            <a className="button primary" href={beginningAt(sso.url)}>
              {t('Sign in with {provider}', { provider: sso.name })}
            </a>
          </div>
          <p className="quiet">{t('Or use an API key:')}</p>
        </>
      ) : null}
      <form onSubmit={(event) => void submit(event)}>
        <label htmlFor="key">{t('API key')}</label>
        <input
          id="key"
          type="password"
          autoComplete="current-password"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          placeholder="rejoin_…"
          required
        />
        <button type="submit" className={sso ? '' : 'primary'}>
          {t('Sign in')}
        </button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
      <p className="quiet">
        {rich('Run {signIn} for a one-time sign-in link, or {createKey} for a new API key.', {
          signIn: <code>rejoin sign-in</code>,
          createKey: <code>rejoin keys create</code>,
        })}
      </p>
    </main>
  );
}
