// The stand-in for Google Calendar that stands beside the binary, and the hands of the user who has an account there.
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { BINARY } from './dev.mjs';
import { skipWithout } from './needs.mjs';

const PROGRAM = BINARY && join(dirname(BINARY), 'google-stand-in');
const CLIENT = { client_id: 'stand-in', client_secret: 'not-a-secret' };

/** Why nothing can be tested with it; false: it is there. */
export const noGoogle = skipWithout(PROGRAM && existsSync(PROGRAM), 'there is no google-stand-in beside the binary');

/** Starts it: settings for a server that is to find it, and what its user does there. */
export async function startGoogle() {
  const child = spawn(PROGRAM, [], { stdio: ['ignore', 'pipe', 'inherit'] });
  const line = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('exit', (code) => reject(new Error(`the stand-in for Google ended with ${code}`)));
  });
  const url = line.replace('listening on ', '');
  let token;
  /** A request to the API there, as the user's own programs make it. */
  const ask = async (path, { method = 'GET', body } = {}) => {
    token ??= await letIn(url);
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) };
    const response = await fetch(`${url}/calendar/v3${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`the stand-in for Google answered ${response.status}: ${text}`);
    return text && JSON.parse(text);
  };
  return {
    url,
    ask,
    env: {
      REJOIN_GOOGLE_CLIENT_ID: CLIENT.client_id,
      REJOIN_GOOGLE_CLIENT_SECRET: CLIENT.client_secret,
      REJOIN_GOOGLE_AUTH_URL: `${url}/o/oauth2/v2/auth`,
      REJOIN_GOOGLE_TOKEN_URL: `${url}/token`,
      REJOIN_GOOGLE_API_URL: `${url}/calendar/v3`,
      // Looked at when somebody asks for it: nothing happens by itself meanwhile.
      REJOIN_GOOGLE_SYNC_S: '3600',
      // Workers ask no address of this machine unless an operator says so.
      REJOIN_WEB_HOSTS: '127.0.0.1',
    },
    stop: () => child.kill(),
  };
}

/** A token, by Google's own steps (RFC 6749, RFC 7636). */
async function letIn(url) {
  const verifier = randomBytes(32).toString('base64url');
  const back = 'http://127.0.0.1/back';
  const asked = new URLSearchParams({
    client_id: CLIENT.client_id,
    redirect_uri: back,
    response_type: 'code',
    access_type: 'offline',
    scope: 'https://www.googleapis.com/auth/calendar',
    state: 'of-the-test',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const consent = await fetch(`${url}/o/oauth2/v2/auth?${asked}`, { redirect: 'manual' });
  const code = new URL(consent.headers.get('location')).searchParams.get('code');
  const body = new URLSearchParams({
    ...CLIENT,
    grant_type: 'authorization_code',
    code,
    code_verifier: verifier,
    redirect_uri: back,
  });
  return (await (await fetch(`${url}/token`, { method: 'POST', body })).json()).access_token;
}
