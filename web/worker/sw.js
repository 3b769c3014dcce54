// The service worker: keeps the files of the app, so that it opens while the server can't be reached. scripts/worker.mjs completes it.
//
// Invariants: it never answers a request to the API; a page that it answers with is of the same version as all files in its cache. A page that the
// server serves is always the newest one.

/** Identifies this version of the app. */
const VERSION = '';
/** The files that the page itself names: the chat opens with them. */
const FILES = [];
/** Parts of the chat that are loaded on request, such as menus. Others are kept when they are first used. */
const PARTS = [];
const PAGE = '/';
/** Files without a hash in their names. */
const PLAIN = ['/icon.svg', '/manifest.webmanifest'];
const PREFIX = 'rejoin-app-';
const CACHE = PREFIX + VERSION;
/** A server that does not answer within this time counts as unreachable, in milliseconds. */
const PATIENCE_MS = 8_000;

addEventListener('install', (event) => event.waitUntil(fill()));
addEventListener('activate', (event) => event.waitUntil(begin()));
addEventListener('message', ({ data, ports }) => {
  if (data === 'activate') void skipWaiting();
  // Whether a page with these scripts is of this version.
  else if (Array.isArray(data?.scripts)) ports[0]?.postMessage(data.scripts.every((script) => FILES.includes(script)));
});
addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin || /^\/(api|v1)(\/|$)/.test(pathname)) return;
  if (request.mode === 'navigate') event.respondWith(page(request));
  else if (pathname.startsWith('/assets/')) event.respondWith(hashed(event));
  else if (PLAIN.includes(pathname)) event.respondWith(plain(request));
});

async function fill() {
  const cache = await caches.open(CACHE);
  const response = await fetch(PAGE, { cache: 'no-cache' });
  const text = await response.clone().text();
  // While servers are replaced one by one, the next one may serve another version.
  if (!response.ok || !FILES.every((file) => text.includes(file))) throw new Error('the page is of another version');
  await cache.addAll([...FILES, ...PARTS, ...PLAIN]);
  await cache.put(PAGE, response);
}

async function begin() {
  for (const name of await caches.keys()) if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  await clients.claim();
}

/** The server's page; while it can't be reached, the one that is kept. */
async function page(request) {
  try {
    const response = await within(fetch(request), PATIENCE_MS);
    return response.status < 500 ? response : ((await kept(PAGE)) ?? response);
  } catch (error) {
    const found = await kept(PAGE);
    if (found) return found;
    throw error;
  }
}

/** A file with a hash in its name never changes. */
async function hashed(event) {
  const { request } = event;
  const found = await kept(request);
  if (found) return found;
  const response = await fetch(request);
  if (response.ok) {
    const copy = response.clone();
    event.waitUntil(caches.open(CACHE).then((cache) => cache.put(request, copy)));
  }
  return response;
}

async function plain(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const found = await kept(request);
    if (found) return found;
    throw error;
  }
}

function kept(request) {
  return caches.match(request, { cacheName: CACHE, ignoreVary: true });
}

function within(promise, limitMs) {
  return Promise.race([
    promise,
    new Promise((_, reject) => setTimeout(() => reject(new Error(`no answer within ${limitMs} ms`)), limitMs)),
  ]);
}
