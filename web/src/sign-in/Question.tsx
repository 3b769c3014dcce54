// Asks before a link makes the browser another user.
import { useState } from 'react';
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
  return (
    <main className="sign-in">
      <h1>{now === null ? `Sign in as ${instead}?` : `Sign in as ${instead} instead?`}</h1>
      <p>
        {now === null ? 'You are not signed in.' : `You are signed in as ${now}.`} The link you opened signs this
        browser in as {instead}. Anything you write will belong to {instead}. Continue only if you expected this.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void signInInstead();
        }}
      >
        <button type="submit" className="primary">
          Sign in as {instead}
        </button>
        <button type="button" onClick={() => void onAnswered()}>
          {now === null ? 'Cancel' : `Stay signed in as ${now}`}
        </button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
    </main>
  );
}
