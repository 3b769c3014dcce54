// An OpenID Connect provider on 127.0.0.1, for the test `identity::oidc_provider::a_real_provider_lets_its_clients_in`. Its one client gets tokens by its
// secret (argument 1), for the resource https://rejoin.example/RS256 or /ES256, which says how they are signed. Prints its issuer's
// URL, a line, when it is ready.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import Provider from 'oidc-provider';

const secret = process.argv[2];
const key = (alg, type, options) => ({
  ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }),
  kid: `key-${alg}`,
  alg,
  use: 'sig',
});

// The port is part of the issuer's name, so it comes first.
const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: 'robot',
    client_secret: secret,
    token_endpoint_auth_method: 'client_secret_post',
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  }],
  jwks: { keys: [key('RS256', 'rsa', { modulusLength: 2048 }), key('ES256', 'ec', { namedCurve: 'P-256' })] },
  cookies: { keys: [secret] },
  scopes: ['rejoin:read'],
  features: {
    devInteractions: { enabled: false },
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
server.on('request', provider.callback());
console.log(issuer);
