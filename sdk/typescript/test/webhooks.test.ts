/** Only genuine webhooks are accepted. */
import type { IncomingHttpHeaders } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { describe, expect, expectTypeOf, test } from 'vitest';
import {
  RejoinError,
  signWebhook,
  verifyWebhook,
  type WebhookEvent,
  type WebhookHeaders,
  WebhookVerificationError,
  type WebhookVerifyOptions,
} from '../src/index.js';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const OTHER = `whsec_${btoa('another secret of 24 byt')}`;
const NOW_S = 1_614_265_330;
const EVENT = {
  type: 'run.ended',
  timestamp: '2026-11-25T16:43:38.120493Z',
  data: { runId: 'r', state: 'completed', question: 'Grüße?' },
  new: 1,
};
const BODY = JSON.stringify(EVENT);
const BYTES = new TextEncoder().encode(BODY);

const signed = (body: string | Uint8Array = BODY, secret = SECRET, timestampS = NOW_S) =>
  signWebhook(body, secret, { id: 'msg_1', timestampS });

const verified = (
  headers: WebhookHeaders,
  body: string | Uint8Array = BODY,
  secret = SECRET,
  options?: WebhookVerifyOptions,
) => verifyWebhook(headers, body, secret, { nowS: NOW_S, ...options });

async function refused(why: string, headers: WebhookHeaders, body: string | Uint8Array = BODY, secret = SECRET) {
  const error = await verified(headers, body, secret).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(WebhookVerificationError);
  expect(String(error)).toContain(why);
  if (secret.length > 10) expect(String(error)).not.toContain(secret.replace('whsec_', ''));
}

describe('signatures', () => {
  test('the example of the specification is signed as it requires', async () => {
    const about = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestampS: NOW_S };
    expect(await signWebhook('{"test": 2432232314}', SECRET, about)).toEqual({
      'webhook-id': about.id,
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  test('the reference library accepts what is signed here', async () => {
    const nowS = Math.floor(Date.now() / 1000);
    expect(new Webhook(SECRET).verify(BODY, await signed(BODY, SECRET, nowS))).toEqual(EVENT);
  });

  test('what the reference library signs is accepted', async () => {
    const signature = new Webhook(SECRET).sign('msg_1', new Date(NOW_S * 1000), BODY);
    expect((await verified({ ...(await signed()), 'webhook-signature': signature })).id).toBe('msg_1');
  });

  test('one of several signatures is enough', async () => {
    const headers = await signed();
    const own = headers['webhook-signature'];
    const other = (await signed(BODY, OTHER))['webhook-signature'];
    for (const signatures of [`${other} ${own}`, `${own} ${other}`, `v1a,xyz v1,!!! ${own} v2,${own}`, `  ${own}`])
      expect((await verified({ ...headers, 'webhook-signature': signatures })).type).toBe('run.ended');
  });

  test('a request that was changed is refused', async () => {
    const headers = await signed();
    const own = headers['webhook-signature'];
    const why = 'no signature matches';
    await refused(why, headers, `${BODY} `);
    await refused(why, { ...headers, 'webhook-id': 'msg_2' });
    await refused(why, { ...headers, 'webhook-timestamp': String(NOW_S + 1) });
    await refused(why, headers, BODY, OTHER);
    for (const signature of ['v1,', 'v1', `v2,${own.slice(3)}`, own.slice(3), 'v1,!', 'v1,é', `${own},${own}`])
      await refused(why, { ...headers, 'webhook-signature': signature });
  });

  test('a signature is compared to its last bit', async () => {
    const headers = await signed();
    const bytes = Uint8Array.from(atob(headers['webhook-signature'].slice(3)), (char) => char.charCodeAt(0));
    const wrong = (change: (bytes: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>) =>
      `v1,${btoa(String.fromCharCode(...change(new Uint8Array(bytes))))}`;
    const flipped = Array.from({ length: bytes.length * 8 }, (_, bit) =>
      wrong((copy) => {
        copy[bit >> 3]! ^= 1 << (bit & 7);
        return copy;
      }),
    );
    const cut = [wrong((copy) => copy.subarray(0, 31)), wrong((copy) => new Uint8Array([...copy, 0]))];
    for (const signature of [...flipped, ...cut])
      await refused('no signature matches', { ...headers, 'webhook-signature': signature });
  });
});

describe('requests', () => {
  test('a genuine webhook is an event', async () => {
    for (const body of [BODY, BYTES, Buffer.from(BODY)]) {
      const event = await verified(await signed(), body);
      expect(event).toEqual({ ...EVENT, id: 'msg_1', timestamp: new Date(EVENT.timestamp) });
      expectTypeOf(event).toEqualTypeOf<WebhookEvent>();
    }
    // A part of a larger buffer.
    const padded = new Uint8Array(BYTES.length + 2);
    padded.set(BYTES, 1);
    expect((await verified(await signed(), padded.subarray(1, -1))).type).toBe('run.ended');
  });

  test('headers may be of each kind, and of any case', async () => {
    const headers = await signed();
    const ofNode: IncomingHttpHeaders = { host: 'hooks.example', 'set-cookie': ['a', 'b'], ...headers };
    const upper = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]));
    const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));
    for (const given of [headers, new Headers(headers), ofNode, upper, lists])
      expect((await verified(given)).id).toBe('msg_1');
    await refused('no signature matches', { ...headers, 'webhook-id': ['msg_1', 'msg_2'] });
  });

  test('the prefix of a secret may be absent', async () => {
    expect((await verified(await signed(), BODY, SECRET.replace('whsec_', ''))).id).toBe('msg_1');
  });

  test('a header that is missing is named', async () => {
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
      const headers = await signed();
      await refused(`the header ${name} is missing`, { ...headers, [name]: '' });
      await refused(`the header ${name} is missing`, { ...headers, [name]: undefined });
      const others = new Headers(headers);
      others.delete(name);
      await refused(`the header ${name} is missing`, others);
    }
  });

  test('the time must be near', async () => {
    const at = (offsetS: number) => signed(BODY, SECRET, NOW_S + offsetS);
    for (const offsetS of [-300, 300]) expect((await verified(await at(offsetS))).id).toBe('msg_1');
    for (const offsetS of [-301, 301])
      await refused("the timestamp is 301 s from this machine's clock; 300 s are allowed", await at(offsetS));
    expect((await verified(await at(-4000), BODY, SECRET, { toleranceS: 5000 })).id).toBe('msg_1');
    await expect(verified(await at(0), BODY, SECRET, { toleranceS: Number.NaN })).rejects.toThrow('clock');
    for (const timestamp of ['now', '-1', '1.5', ` ${NOW_S}`, `${NOW_S}\n`])
      await refused('not a number of seconds', { ...(await signed()), 'webhook-timestamp': timestamp });
    // By default it is this machine's time.
    await expect(verifyWebhook(await signed(), BODY, SECRET)).rejects.toThrow('clock');
    const nowS = Math.floor(Date.now() / 1000);
    expect((await verifyWebhook(await signed(BODY, SECRET, nowS), BODY, SECRET)).id).toBe('msg_1');
  });

  test('a malformed secret is refused', async () => {
    for (const secret of ['whsec_', '', 'whsec_***', 'whsec_YWJj', `${SECRET}=`])
      await refused('secret is malformed: it must be whsec_ and base64', await signed(), BODY, secret);
    await expect(verifyWebhook(await signed(), BODY, undefined as never)).rejects.toThrow('secret is malformed');
    await expect(signed(BODY, 'whsec_YWJj')).rejects.toThrow('secret is malformed');
  });

  test('a body that is not an event is refused', async () => {
    const bodies = ['', '{', '[]', '{}', '"x"', 'null', '7', '{"type": "x"}', new Uint8Array([0xff])];
    const wrong = [{ timestamp: 'now' }, { data: null }, { data: [] }, { type: 7 }];
    for (const body of [...bodies, ...wrong.map((fields) => JSON.stringify({ ...EVENT, ...fields }))])
      await refused('not an event', await signed(body), body);
  });

  test('a body that was parsed before is a mistake', async () => {
    const given = verified(await signed(), EVENT as never);
    await expect(given).rejects.toBeInstanceOf(TypeError);
    await expect(given).rejects.toThrow('pass its text or a Uint8Array, not what was parsed from it');
    await expect(signed(BODY, SECRET, 1.5)).rejects.toThrow('such as Math.floor(Date.now() / 1000)');
  });

  test('a body that changes meanwhile is read as it was verified', async () => {
    const body = new Uint8Array(BYTES);
    const event = verified(await signed(), body);
    body.fill(0);
    expect((await event).type).toBe('run.ended');
  });

  test('the error is one of this package', () => {
    expect(new WebhookVerificationError('no')).toBeInstanceOf(RejoinError);
    expect(new WebhookVerificationError('no').name).toBe('WebhookVerificationError');
  });
});
