// Installs the service worker, and notices when there is a newer version of the app than this page.
import { useSyncExternalStore } from 'react';

/** How often a page that stays open looks for a new version, in milliseconds. */
const LOOK_MS = 3_600_000;

/** The worker of a newer version. */
let newer: ServiceWorker | null = null;
const listeners = new Set<() => void>();

export async function installWorker(): Promise<void> {
  // Not there on pages over plain HTTP.
  const workers: ServiceWorkerContainer | undefined = navigator.serviceWorker;
  await workers?.register('/sw.js');
  const registration = await workers?.getRegistration();
  if (!workers || !registration) return;
  const watch = () =>
    registration.installing?.addEventListener('statechange', () => void consider(registration.waiting));
  registration.addEventListener('updatefound', watch);
  // One that was found while the page loaded.
  watch();
  // Another tab has begun to use it.
  workers.addEventListener('controllerchange', () => void consider(workers.controller));
  setInterval(() => registration.update().catch(() => {}), LOOK_MS);
  await consider(registration.waiting);
}

async function consider(worker: ServiceWorker | null): Promise<void> {
  if (!worker) return;
  // The server has served this page from the new version already.
  if (await isOfThisPage(worker)) return worker.postMessage('activate');
  newer = worker;
  for (const listener of listeners) listener();
}

function isOfThisPage(worker: ServiceWorker): Promise<boolean> {
  const scripts = [...document.querySelectorAll('script[type=module]')].map((script) => script.getAttribute('src'));
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = ({ data }) => resolve(data === true);
    worker.postMessage({ scripts }, [port2]);
  });
}

/** Reloads the page in the newest version. */
export function renew(): void {
  if (newer?.state === 'installed') {
    navigator.serviceWorker.addEventListener('controllerchange', () => location.reload(), { once: true });
    newer.postMessage('activate');
  } else {
    location.reload();
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function useIsOutdated(): boolean {
  return useSyncExternalStore(subscribe, () => newer !== null);
}
