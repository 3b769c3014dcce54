// Notifications of the browser about answers that are ready. They are off until the user switches them on, which asks the browser for permission.
import { useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';

/** By user and project: `on` or `off`. */
const KEPT = 'notifications';

/**
 * `unavailable`: this browser has none, or not for pages over plain HTTP; `blocked`: the user has refused them to the browser; `unasked`: the user
 * has not chosen yet.
 */
export type Notifications = 'unavailable' | 'blocked' | 'unasked' | 'on' | 'off';

let kept: unknown;
const listeners = new Set<() => void>();

function state(): Notifications {
  if (!('Notification' in globalThis)) return 'unavailable';
  if (Notification.permission === 'denied') return 'blocked';
  kept ??= localStore.read(KEPT);
  if (kept === 'off') return 'off';
  return kept === 'on' && Notification.permission === 'granted' ? 'on' : 'unasked';
}

function keep(choice: 'on' | 'off'): void {
  kept = choice;
  localStore.write(KEPT, choice);
  for (const listener of listeners) listener();
}

/** Asks the browser for permission, if it has not given it yet. Only after a click of the user. */
export async function switchOn(): Promise<void> {
  await Notification.requestPermission();
  // Refused or not: the state follows the browser.
  keep('on');
}

export function switchOff(): void {
  keep('off');
}

/** Shows a notification, if the user wants them. It replaces an earlier one with the same tag. */
export function notify(title: string, body: string, tag: string): void {
  if (state() !== 'on') return;
  try {
    const notification = new Notification(title, { body, tag });
    notification.onclick = () => {
      window.focus();
      notification.close();
    };
  } catch {
    // Browsers of phones show notifications only for service workers. The title of the page still shows it.
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function useNotifications(): Notifications {
  return useSyncExternalStore(subscribe, state);
}
