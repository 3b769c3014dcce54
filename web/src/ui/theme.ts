// The colour theme and the contrast, which belong to the browser and not to a user. Applied before the page is drawn.
import { useSyncExternalStore } from 'react';
import * as localStore from '../api/localStore';
import { t } from './language';

export const THEMES = [
  ['system', t('System')],
  ['light', t('Light')],
  ['dark', t('Dark')],
] as const;
export type Theme = (typeof THEMES)[number][0];

export const CONTRASTS = [
  ['system', t('System')],
  ['less', t('Normal')],
  ['more', t('High')],
] as const;
export type Contrast = (typeof CONTRASTS)[number][0];

interface Look {
  theme: Theme;
  contrast: Contrast;
}

const wantsMore = matchMedia('(prefers-contrast: more)');
const listeners = new Set<() => void>();
let look: Look = {
  theme: THEMES.find(([name]) => name === localStore.readTheme())?.[0] ?? 'system',
  contrast: CONTRASTS.find(([name]) => name === localStore.readContrast())?.[0] ?? 'system',
};

function apply(): void {
  const { dataset } = document.documentElement;
  dataset.theme = look.theme;
  dataset.contrast = look.contrast === 'system' ? (wantsMore.matches ? 'more' : 'less') : look.contrast;
}

apply();
wantsMore.addEventListener('change', apply);

export function setLook(change: Partial<Look>): void {
  look = { ...look, ...change };
  localStore.writeTheme(look.theme);
  localStore.writeContrast(look.contrast);
  apply();
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function useLook(): Look {
  return useSyncExternalStore(subscribe, () => look);
}
