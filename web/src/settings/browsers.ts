// Names browsers by the header `User-Agent`.
import { t } from '../ui/language';

/** By what they have in the header; the first that fits. Others pretend to be the later ones, too. */
const BROWSERS = [
  [/\bEdg(?:A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\b(?:Firefox|FxiOS)\//, 'Firefox'],
  [/(?:Chrome|CriOS)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
] as const;
const SYSTEMS = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
] as const;

/** “Firefox on Linux”, as far as it is known. */
export function browserOf(userAgent: string | null | undefined): string {
  const among = (names: readonly (readonly [RegExp, string])[]) =>
    names.find(([pattern]) => pattern.test(userAgent ?? ''))?.[1];
  const [browser, system] = [among(BROWSERS) ?? t('Unknown browser'), among(SYSTEMS)];
  return system === undefined ? browser : t('{browser} on {system}', { browser, system });
}
