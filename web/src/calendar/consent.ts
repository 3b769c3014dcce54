// Takes the OAuth response out of the address before anything is rendered, and sends it once. It stays secret for a few minutes.
import { api, type Schemas } from '../api/http';

/** The address that Google sends the browser back to. */
const BACK = '/calendar/google';

export type Consent = { state: string; code: string } | { state: string; error: string };
type Entered = Schemas['GoogleEntered'];

let brought: Consent | null = null;
let sent: Promise<Entered> | undefined;

/** Takes it out of the address and the history, if this is where it is. */
export function takeConsent(): void {
  if (location.pathname !== BACK) return;
  const search = new URLSearchParams(location.search);
  const [state, code, error] = ['state', 'code', 'error'].map((name) => search.get(name));
  history.replaceState(history.state, '', BACK);
  if (state && error) brought = { state, error };
  else if (state && code) brought = { state, code };
}

/** Sends it, once for all who ask; null: Google has sent nothing along, or it was sent before a reload. */
export function sendConsent(): Promise<Entered> | null {
  const body = brought;
  brought = null;
  if (body) sent = api<Entered>('/api/google/consents', { method: 'POST', body });
  return sent ?? null;
}
