// Asks before a link makes the browser another user.
import { useState } from 'react';
import { t } from '../ui/language';
import { ErrorNote } from '../ui/parts';
import type { Entry } from './entry';

interface Props {
  question: Extract<Entry, { type: 'question' }>;
  onAnswered: () => Promise<void>;
}

export function Question({ question: { now, instead, agree }, onAnswered }: Props) {
  const [refused, setRefused] = useState<unknown>(null);
  const signInInstead = async () => {
    try {
      await agree();
      await onAnswered();
    } catch (refusal) {
      setRefused(refusal);
    }
  };
  const other = { user: instead };
  return (
    <main className="sign-in">
      <h1>{now === null ? t('Sign in as {user}?', other) : t('Sign in as {user} instead?', other)}</h1>
      <p>
        {now === null ? t('You are not signed in.') : t('You are signed in as {user}.', { user: now })}{' '}
        {t('The link you opened signs this browser in as {user}. Anything you write will belong to {user}.', other)}{' '}
        {t('Continue only if you expected this.')}
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void signInInstead();
        }}
      >
        <button type="submit" className="primary">
          {t('Sign in as {user}', other)}
        </button>
        <button type="button" onClick={() => void onAnswered()}>
          {now === null ? t('Cancel') : t('Stay signed in as {user}', { user: now })}
        </button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
    </main>
  );
}
