// Reports a sign-in at the identity provider that has failed, by its code.
import type { Me } from '../api/http';
import { t } from '../ui/language';
import { Waiting } from '../ui/parts';
import { useTitle } from '../ui/title';
import { beginningAt, failureOf, useMethods } from './sso';

export function SsoFailure({ code }: { code: string }) {
  const { reason, remedy } = failureOf(code);
  return (
    <p className="note bad" role="alert">
      {reason} {remedy} ({code})
    </p>
  );
}

/** The page for a user who is still signed in. */
export function SsoFailed({ code, me, onContinue }: { code: string; me: Me; onContinue: () => void }) {
  useTitle(t('The sign-in failed'));
  const methods = useMethods();
  if (methods.isPending) return <Waiting what={t('the ways to sign in')} />;
  return (
    <main className="sign-in">
      <h1>{t('The sign-in failed')}</h1>
      <SsoFailure code={code} />
      <p>{t('You are still signed in as {user}.', { user: me.handle })}</p>
      <div className="ways">
        <button type="button" className="primary" onClick={onContinue}>
          {t('Stay signed in as {user}', { user: me.handle })}
        </button>
        {methods.data?.sso ? (
          <a className="button" href={beginningAt(methods.data.sso.url, true)}>
            {t('Sign in as another user')}
          </a>
        ) : null}
      </div>
    </main>
  );
}
