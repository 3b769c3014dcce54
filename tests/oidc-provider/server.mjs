// An OpenID Connect provider on 127.0.0.1, for the tests `identity::oidc_provider` and `identity::sso_provider`. Its client `robot` gets tokens by its
// secret (argument 1), for the resource https://rejoin.example/RS256 or /ES256, which says how they are signed. Users sign in to its client `web`, with the
// same secret: at /interaction/…?user=NAME. POST /control changes it while it runs. Prints its issuer's URL, a line, when it is ready.
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import Provider from 'oidc-provider';

// Only the issuer's URL is printed.
console.info = () => {};

const secret = process.argv[2];
let generation = 0;
const pem = {
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
};
// By way of PEM: Node.js 20 waits for itself for ever if garbage is collected while it exports a key that it has just generated (the job that made
// the key takes the key's lock when it is destroyed).
const key = (alg, type, options) => ({
  ...createPrivateKey(generateKeyPairSync(type, { ...options, ...pem }).privateKey).export({ format: 'jwk' }),
  kid: `key-${alg}-${generation}`,
  alg,
  use: 'sig',
});
const generate = () => [key('RS256', 'rsa', { modulusLength: 2048 }), key('ES256', 'ec', { namedCurve: 'P-256' })];

const users = {
  ann: { groups: ['staff'], email: 'ann@example.com', email_verified: true },
  ada: { groups: ['staff', 'admins'], email: 'ada@example.com', email_verified: true },
  zed: { groups: ['visitors'], email: 'zed@example.com', email_verified: true },
  eve: { groups: ['staff'], email: 'eve@example.com', email_verified: false },
};
const disabled = new Set();
// Changed by POST /control.
const settings = {
  redirectUri: 'http://127.0.0.1:1/callback',
  logoutUri: undefined,
  afterLogout: undefined,
};

const findAccount = (_context, id) => (users[id] && !disabled.has(id)
  ? { accountId: id, claims: () => ({ sub: id, preferred_username: id, ...users[id] }) }
  : undefined);

// The port is part of the issuer's name, so it comes first.
const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const build = (keys) => new Provider(issuer, {
  clients: [{
    client_id: 'robot',
    client_secret: secret,
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  }, {
    client_id: 'web',
    client_secret: secret,
    grant_types: ['authorization_code'],
    response_types: ['code'],
    redirect_uris: [settings.redirectUri],
    ...(settings.afterLogout && { post_logout_redirect_uris: [settings.afterLogout] }),
    ...(settings.logoutUri && { backchannel_logout_uri: settings.logoutUri, backchannel_logout_session_required: true }),
  }],
  jwks: { keys },
  cookies: { keys: [secret] },
  scopes: ['openid', 'profile', 'email', 'rejoin:read'],
  claims: {
    openid: ['sub', 'groups'],
    profile: ['preferred_username'],
    email: ['email', 'email_verified'],
  },
  // Claims of scopes are in the ID token, as most providers do it.
  conformIdTokenClaims: false,
  findAccount,
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  // Without its guard, which refuses this machine.
  fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
  features: {
    devInteractions: { enabled: false },
    backchannelLogout: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_context, resource) => ({
        scope: 'rejoin:read',
        audience: 'rejoin',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 600,
        jwt: { sign: { alg: resource.split('/').pop() } },
      }),
    },
  },
});

let keys = generate();
let provider = build(keys);
let serve = provider.callback();

// The user signs in and agrees at once.
const interact = async (url, request, response) => {
  const { params } = await provider.interactionDetails(request, response);
  const accountId = url.searchParams.get('user');
  const grant = new provider.Grant({ accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  const grantId = await grant.save();
  await provider.interactionFinished(
    request,
    response,
    { login: { accountId }, consent: { grantId } },
    { mergeWithLastSubmission: false },
  );
};

// {disable, enable, rotate, redirectUri, logoutUri, afterLogout}
const control = async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  const { disable, enable, rotate, ...changed } = JSON.parse(body);
  if (disable) disabled.add(disable);
  if (enable) disabled.delete(enable);
  if (rotate) {
    generation += 1;
    keys = generate();
  }
  Object.assign(settings, changed);
  if (rotate || Object.keys(changed).length > 0) {
    provider = build(keys);
    serve = provider.callback();
  }
  response.writeHead(204).end();
};

server.on('request', (request, response) => {
  const url = new URL(request.url, issuer);
  let done;
  if (request.method === 'POST' && url.pathname === '/control') done = control(request, response);
  else if (url.pathname.startsWith('/interaction/')) done = interact(url, request, response);
  else return serve(request, response);
  return done.catch((error) => response.writeHead(500).end(String(error?.stack ?? error)));
});
console.log(issuer);
