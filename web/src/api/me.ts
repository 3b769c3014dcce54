// Provides the signed-in user to all views.
import { createContext, useContext } from 'react';
import type { Me } from './http';

export const MeContext = createContext<Me | null>(null);

/** The caller. Only below the sign-in. */
export function useMe(): Me {
  const me = useContext(MeContext);
  if (me === null) throw new Error('no user is signed in');
  return me;
}

export function isAdmin(me: Me): boolean {
  return me.scopes.includes('admin');
}
