// Signing in: by a key in the address (`#key=…`, as `rejoin dev` prints it; it is taken out at once), or one that is typed.
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useState } from 'react';
import { signIn, whoAmI } from './api/http';
import { keepFor } from './api/keeping';
import { MeContext } from './api/me';
import { ErrorNote, Waiting } from './ui/parts';

/** The key that the address brought. */
function takeKey(): string | null {
  const key = new URLSearchParams(location.hash.slice(1)).get('key');
  if (key !== null) history.replaceState(history.state, '', location.pathname + location.search);
  return key;
}

async function enter() {
  const key = takeKey();
  if (key !== null) await signIn(key);
  const me = await whoAmI();
  keepFor(me);
  return me;
}

export function Door({ children }: { children: ReactNode }) {
  const me = useQuery({ queryKey: ['me'], queryFn: enter, staleTime: Infinity });
  if (me.isPending) return <Waiting what="your session" />;
  if (me.data) return <MeContext.Provider value={me.data}>{children}</MeContext.Provider>;
  return <SignIn error={me.error} />;
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
    <main className="door">
      <h1>Rejoin</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label htmlFor="key">API key</label>
        <input
          id="key"
          type="password"
          autoComplete="current-password"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          placeholder="rj_…"
          required
        />
        <button type="submit">Sign in</button>
      </form>
      {refused ? <ErrorNote error={refused} /> : null}
      <p className="quiet">
        <code>rejoin dev</code> prints an address that signs you in; <code>rejoin keys create</code> makes a key.
      </p>
    </main>
  );
}
