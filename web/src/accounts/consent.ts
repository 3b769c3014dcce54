// Takes the answer of an MCP server's authorization server out of the address before anything is rendered, and sends it once. It stays secret
// for a few minutes.
import { api, type Schemas } from '../api/http';

/** The address that authorization servers send the browser back to. */
const BACK = '/mcp/connect';

type Account = Schemas['McpAccount'];

let brought: Schemas['McpConsentAnswer'] | null = null;
let sent: Promise<Account> | undefined;

/** Takes it out of the address and the history, if this is where it is. */
export function takeAccountConsent(): void {
  if (location.pathname !== BACK) return;
  const search = new URLSearchParams(location.search);
  const [state, code, error, iss] = ['state', 'code', 'error', 'iss'].map((name) => search.get(name));
  if (!state) return;
  history.replaceState(history.state, '', BACK);
  const issuer = iss ? { iss } : {};
  if (error) brought = { state, error, ...issuer };
  else if (code) brought = { state, code, ...issuer };
}

/** Sends it, once for all who ask; null: there is none, or it was sent before a reload. */
export function sendAccountConsent(): Promise<Account> | null {
  const body = brought;
  brought = null;
  if (body) sent = api<Account>('/api/mcp-consents', { method: 'POST', body });
  return sent ?? null;
}
