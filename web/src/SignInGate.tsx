// Signs the browser in before it renders the app: by a link with a one-time code (`#code=…`, as `rejoin dev` and `rejoin sign-in` print it), by a
// key in the address (`#key=…`), or by a key that the user types. Both are removed from the address at once. A link never switches users without
// consent: if another user is signed in, and always for a key, the page asks first.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { type Me, Problem, signIn, signInByCode, whoAmI, whoseKey } from './api/http';
import { keepFor } from './api/localStore';
import { MeContext } from './api/me';
import { ErrorNote, Waiting } from './ui/parts';

/** A link that would make the browser another user, and what happens if the user agrees. */
interface Question {
  /** The signed-in user; null if there is none. */
  now: string | null;
  instead: string;
  agree: () => Promise<void>;
}

/** What the address brought. */
function take(name: 'code' | 'key'): string | null {
  const brought = new URLSearchParams(location.hash.slice(1)).get(name);
  if (brought !== null) history.replaceState(history.state, '', location.pathname + location.search);
  return brought;
}

async function byCode(code: string): Promise<Question | null> {
  try {
    await signInByCode(code);
    return null;
  } catch (refusal) {
    if (!(refusal instanceof Problem) || refusal.code !== 'signed_in_as_another') throw refusal;
    const handle = (of: string) => (refusal.body[of] as { handle: string }).handle;
    return { now: handle('signedInAs'), instead: handle('instead'), agree: () => signInByCode(code, true) };
  }
}

async function byKey(key: string): Promise<Question | null> {
  const [now, instead] = await Promise.all([whoAmI(), whoseKey(key)]);
  if (now?.userId === instead.userId && now.projectId === instead.projectId) return null;
  return { now: now?.handle ?? null, instead: instead.handle, agree: () => signIn(key, true) };
}

async function enter(): Promise<Me | Question | null> {
  const [code, key] = [take('code'), take('key')];
  const question = code !== null ? await byCode(code) : key !== null ? await byKey(key) : null;
  if (question) return question;
  const me = await whoAmI();
  keepFor(me);
  return me;
}

export function SignInGate({ children }: { children: ReactNode }) {
  const entered = useQuery({ queryKey: ['me'], queryFn: enter, staleTime: Infinity });
  if (entered.isPending) return <Waiting what="your session" />;
  if (entered.data && 'agree' in entered.data) return <Ask question={entered.data} />;
  if (entered.data) return <MeContext.Provider value={entered.data}>{children}</MeContext.Provider>;
  return <SignIn error={entered.error} />;
}

function Ask({ question: { now, instead, agree } }: { question: Question }) {
  const queries = useQueryClient();
  const [refused, setRefused] = useState<unknown>(null);
  const again = () => queries.invalidateQueries({ queryKey: ['me'] });
  const signInInstead = async () => {
    try {
      await agree();
      await again();
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
        <button type="button" onClick={() => void again()}>
          {now === null ? 'Cancel' : `Stay signed in as ${now}`}
        </button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
    </main>
  );
}

function SignIn({ error }: { error: unknown }) {
  const queries = useQueryClient();
  const [key, setKey] = useState('');
  const [refused, setRefused] = useState<unknown>(error);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await signIn(key.trim());
      await queries.invalidateQueries({ queryKey: ['me'] });
    } catch (refusal) {
      setRefused(refusal);
    }
  };
  return (
    <main className="sign-in">
      <img src="/icon.svg" alt="" width="40" height="40" />
      <h1>Sign in to Rejoin</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label htmlFor="key">API key</label>
        <input
          id="key"
          type="password"
          autoComplete="current-password"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          placeholder="rejoin_…"
          required
        />
        <button type="submit" className="primary">
          Sign in
        </button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
      <p className="quiet">
        Run <code>rejoin sign-in</code> for a one-time sign-in link, or <code>rejoin keys create</code> for a new API
        key.
      </p>
    </main>
  );
}
