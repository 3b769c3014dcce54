/**
 * Verifies webhooks, which are signed as Standard Webhooks specifies: an HMAC-SHA256 of id, timestamp and body.
 *
 * It is computed by Web Crypto, which Node.js, Deno and Bun have, and which is asynchronous.
 *
 * Invariants:
 * - An event is read from the bytes that were verified.
 * - No error contains the secret.
 */
import { z } from 'zod';
import { WebhookVerificationError } from './errors.js';

/** The headers of a request: a `Headers`, those of Node.js, or a record. The case of their names does not matter. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

export interface WebhookVerifyOptions {
  /** How far the timestamp may be from this machine's clock, in either direction, in seconds; default 300. */
  readonly toleranceS?: number;
  /** The time in seconds since 1970, for tests. Default: this machine's. */
  readonly nowS?: number;
}

export interface WebhookSignOptions {
  /** The delivery. */
  readonly id: string;
  /** The time of the attempt, in whole seconds since 1970. */
  readonly timestampS: number;
}

/** A verified event. */
export interface WebhookEvent {
  /** The delivery, the same in each attempt and after a replay. */
  readonly id: string;
  /** Such as `run.ended`, `question.asked`, `dag.ended`, `budget.reached` or `webhook.test`. */
  readonly type: string;
  /** When it happened. */
  readonly timestamp: Date;
  /** Its fields, as docs/guide/webhooks.md lists them. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The headers of a signed webhook. */
export type SignedHeaders = Record<'webhook-id' | 'webhook-timestamp' | 'webhook-signature', string>;

/** Default for how far the timestamp may be from this machine's clock, in seconds. */
const TOLERANCE_S = 300;
const PREFIX = 'whsec_';
const VERSION = 'v1';
const SECRET_MIN_BYTES = 16;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Verifies a request, and returns its event. A delivery may arrive more than once: skip an `id` that you know.
 *
 * - `headers`: of the request.
 * - `body`: as it was received, not parsed and serialized again.
 * - `secret`: the webhook's secret, `whsec_…`. While it is being rotated, either secret is accepted.
 *
 * Rejects with a `WebhookVerificationError` if the request is not genuine, is too old, or is not an event, and with a `TypeError` if the body is
 * neither a text nor bytes.
 */
export async function verifyWebhook(
  headers: WebhookHeaders,
  body: string | Uint8Array,
  secret: string,
  { toleranceS = TOLERANCE_S, nowS = Date.now() / 1000 }: WebhookVerifyOptions = {},
): Promise<WebhookEvent> {
  const key = keyOf(secret);
  const id = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const signatures = headerOf(headers, 'webhook-signature');
  if (!/^\d+$/.test(timestamp))
    throw new WebhookVerificationError('the header webhook-timestamp is not a number of seconds');
  const { signed, content } = signedBytes(id, timestamp, body);
  const expected = await hmac(key, signed);
  // All are compared, in constant time each.
  const matches = signaturesIn(signatures).map((signature) => isEqual(expected, signature));
  if (!matches.includes(true))
    throw new WebhookVerificationError(
      'no signature matches: the secret is that of another webhook, or the body was changed on its way',
    );
  const differenceS = Math.abs(nowS - Number(timestamp));
  // Also if one of them is not a number.
  if (!(differenceS <= toleranceS))
    throw new WebhookVerificationError(
      `the timestamp is ${differenceS.toFixed(0)} s from this machine's clock; ${toleranceS} s are allowed`,
    );
  return eventOf(content, id);
}

/** Returns the headers of a webhook with this body, for tests of a receiver. */
export async function signWebhook(
  body: string | Uint8Array,
  secret: string,
  { id, timestampS }: WebhookSignOptions,
): Promise<SignedHeaders> {
  if (!Number.isSafeInteger(timestampS) || timestampS < 0)
    throw new RangeError(`timestampS is ${timestampS}; pass whole seconds, such as Math.floor(Date.now() / 1000)`);
  const timestamp = String(timestampS);
  const signature = await hmac(keyOf(secret), signedBytes(id, timestamp, body).signed);
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `${VERSION},${btoa(String.fromCharCode(...signature))}`,
  };
}

function keyOf(secret: string): Bytes {
  const key = typeof secret === 'string' ? fromBase64(withoutPrefix(secret)) : undefined;
  if (!key || key.length < SECRET_MIN_BYTES)
    throw new WebhookVerificationError(`the webhook's secret is malformed: it must be ${PREFIX} and base64`);
  return key;
}

function withoutPrefix(secret: string): string {
  return secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret;
}

function headerOf(headers: WebhookHeaders, name: string): string {
  const value = 'get' in headers && typeof headers.get === 'function' ? headers.get(name) : fieldOf(headers, name);
  // Node.js joins most repeated headers so.
  const text = Array.isArray(value) ? value.join(', ') : value;
  if (typeof text !== 'string' || text === '') throw new WebhookVerificationError(`the header ${name} is missing`);
  return text;
}

function fieldOf(headers: object, name: string): unknown {
  return Object.entries(headers).findLast(([one]) => one.toLowerCase() === name)?.[1];
}

/** With a buffer that is not shared, as Web Crypto needs it. */
type Bytes = Uint8Array<ArrayBuffer>;

/** Returns a copy of the bytes that are signed, and the part of them that is the body. */
function signedBytes(id: string, timestamp: string, body: string | Uint8Array): { signed: Bytes; content: Bytes } {
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const given = bytesOf(body);
  const signed = new Uint8Array(head.length + given.length);
  signed.set(head);
  signed.set(given, head.length);
  return { signed, content: signed.subarray(head.length) };
}

function bytesOf(body: string | Uint8Array): Uint8Array {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  // Callers without a type checker. A test runner may have several classes `Uint8Array`.
  if (!ArrayBuffer.isView(body))
    throw new TypeError(
      'the body of a webhook is verified as it was received: pass its text or a Uint8Array, not what was parsed from it',
    );
  return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
}

async function hmac(key: Bytes, signed: Bytes): Promise<Bytes> {
  const { subtle } = crypto;
  const imported = await subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
  return new Uint8Array(await subtle.sign('HMAC', imported, signed));
}

/** Returns the signatures of our version. Others are ignored. */
function signaturesIn(header: string): Bytes[] {
  return header.split(' ').flatMap((signature) => {
    const [version, ...encoded] = signature.split(',');
    const bytes = version === VERSION ? fromBase64(encoded.join(',')) : undefined;
    return bytes ? [bytes] : [];
  });
}

/** Takes the same time for all signatures of the right length. */
function isEqual(expected: Bytes, signature: Bytes): boolean {
  if (expected.length !== signature.length) return false;
  let difference = 0;
  for (const [index, byte] of expected.entries()) difference |= byte ^ (signature[index] ?? 0);
  return difference === 0;
}

/** Undefined: it is not base64. */
function fromBase64(text: string): Bytes | undefined {
  return BASE64.test(text) ? Uint8Array.from(atob(text), (char) => char.charCodeAt(0)) : undefined;
}

/** Fields that this version does not know are kept. */
const event = z.looseObject({
  id: z.string(),
  type: z.string(),
  timestamp: z.iso.datetime({ offset: true }).transform((text) => new Date(text)),
  data: z.record(z.string(), z.unknown()),
});

function eventOf(content: Bytes, id: string): WebhookEvent {
  try {
    const read: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(content));
    return event.parse({ ...(read as object), id });
  } catch (cause) {
    throw new WebhookVerificationError('the body is signed correctly, but is not an event of Rejoin', { cause });
  }
}
