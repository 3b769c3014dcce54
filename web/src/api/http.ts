// Sends requests to the API that served this page. The browser's session cookie authenticates them; this module stores no key.
import { forgetEarly, HEADERS, takeEarly } from '../early/requests';
import { t } from '../ui/language';
import type { components } from './schema';

export type Schemas = components['schemas'];
export type Me = Schemas['Me'];

/** A refusal: the problem details of the API (RFC 9457). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    /** All its fields. */
    readonly body: Record<string, unknown> = {},
  ) {
    super(detail);
    this.name = 'Problem';
  }
}

interface Options {
  method?: string;
  /** Sent as JSON; a Blob as what it is. */
  body?: unknown;
  key?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Sends a request; the answer's JSON, or undefined where there is none. */
export async function api<T>(path: string, options: Options = {}): Promise<T> {
  return parsed(await apiText(path, options)) as T;
}

/** Sends a request; the answer as it came. */
export async function apiText(
  path: string,
  { method = 'GET', body, key, signal, headers: more = {} }: Options = {},
): Promise<string> {
  const headers = new Headers({ ...HEADERS, ...more });
  const isFile = body instanceof Blob;
  if (body !== undefined) headers.set('content-type', isFile ? body.type : 'application/json');
  if (key !== undefined) headers.set('authorization', `Bearer ${key}`);
  if (method !== 'GET') forgetEarly();
  const early = method === 'GET' && key === undefined ? takeEarly(path) : undefined;
  const response = await (early ??
    fetch(path, {
      method,
      headers,
      body: body === undefined || isFile ? body : JSON.stringify(body),
      credentials: 'same-origin',
      signal,
    }));
  const text = await response.text();
  if (response.ok) return text;
  const problem = (parsed(text) ?? {}) as { code?: string; detail?: string; title?: string };
  throw new Problem(
    response.status,
    problem.code ?? 'unknown',
    problem.detail ?? problem.title ?? t('the server returned HTTP {status}', { status: String(response.status) }),
    problem as Record<string, unknown>,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Exchanges a key for the browser's session. */
export async function signIn(key: string, replace = false): Promise<void> {
  await api('/api/session', { method: 'POST', key, ...(replace && { body: { replace } }) });
}

/** Uses a sign-in code up for the browser's session. */
export async function signInByCode(code: string, replace = false): Promise<void> {
  await api('/api/session', { method: 'POST', body: { code, replace } });
}

/** Whose key this is. */
export async function whoseKey(key: string): Promise<Me> {
  return api<Me>('/api/me', { key });
}

export async function signOut(): Promise<void> {
  await api('/api/session', { method: 'DELETE' });
}

/** Returns the signed-in user, or null if no user is signed in. */
export async function whoAmI(): Promise<Me | null> {
  try {
    return await api<Me>('/api/me');
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return null;
    throw error;
  }
}

/** The header that says of which version a change was made: another one there is a conflict. */
export function ifMatch(version: number): { 'if-match': string } {
  return { 'if-match': `"${version}"` };
}

/** A query string of what is given. */
export function query(parameters: Record<string, string | number | undefined | null>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? '' : `?${search}`;
}
