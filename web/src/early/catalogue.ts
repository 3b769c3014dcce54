// The language of the page, and its texts.
import * as localStore from '../api/localStore';

/** Each with its own name for itself. */
export const LANGUAGES = [
  ['en', 'English'],
  ['de', 'Deutsch'],
  ['ar', 'العربية'],
] as const;
export type Language = (typeof LANGUAGES)[number][0];
type Catalogue = Record<string, string>;

const CATALOGUES: Record<Exclude<Language, 'en'>, () => Promise<{ default: Catalogue }>> = {
  de: () => import('../languages/de.json'),
  ar: () => import('../languages/ar.json'),
};

/** The language that was chosen, or else the first of the browser's that the app speaks, or else English. */
export const wanted: Language =
  [localStore.readLanguage(), ...navigator.languages]
    .map((tag) => LANGUAGES.find(([known]) => known === tag?.split('-')[0])?.[0])
    .find((known) => known !== undefined) ?? 'en';

/** The texts in that language; null: they are in the code, or can't be loaded now. */
export const loading: Promise<Catalogue | null> | null =
  wanted === 'en'
    ? null
    : CATALOGUES[wanted]().then(
        (module) => module.default,
        () => null,
      );
