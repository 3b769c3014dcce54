// The language of the app. English is in the code; the other languages are catalogues from the English text to theirs, and the one
// in use is loaded before anything is drawn. A change loads the page again, so that nothing of the language before stays.
//
// Messages are ICU messages as far as the app needs them: {name}, {count, plural, one {# run} other {# runs}} and
// {kind, select, a {…} other {…}}. Plural forms are those of the language, `=0` an exact number, and # the number in its form.
// (Not in them: quotes that escape, dates, number skeletons. A library that parses all of ICU is larger than what this app may add
// to its first load.) `scripts/languages.mjs` checks that every catalogue has every message, with the same arguments.
import { createElement, Fragment, type ReactNode } from 'react';
import * as localStore from '../api/localStore';
import { type Language, loading, wanted } from '../early/catalogue';
import { once } from './once';

export { LANGUAGES, type Language } from '../early/catalogue';

// A language that can't be loaded now is better replaced by English than waited for.
const loaded = loading === null ? null : await loading;
const catalogue: Record<string, string> = loaded ?? {};

/** The language of the page. */
export const language: Language = loaded === null ? 'en' : wanted;

/** The locale of dates and numbers: the browser's own region, if it is one of that language. */
export const LOCALE = navigator.languages.find((tag) => tag.split('-')[0] === language) ?? language;

export const DIRECTION = language === 'ar' ? 'rtl' : 'ltr';

document.documentElement.lang = language;
document.documentElement.dir = DIRECTION;

/** Shows the app in another language. */
export function chooseLanguage(chosen: Language): void {
  localStore.writeLanguage(chosen);
  location.reload();
}

const plurals = once(() => new Intl.PluralRules(LOCALE));
const numbers = once(() => new Intl.NumberFormat(LOCALE));

/** A number as the language writes it. */
export const number = (value: number, options?: Intl.NumberFormatOptions): string =>
  options ? new Intl.NumberFormat(LOCALE, options).format(value) : numbers().format(value);

const lists = once(() => new Intl.ListFormat(LOCALE, { type: 'unit', style: 'short' }));

/** The items in one line, as the language lists them. */
export const list = (items: string[]): string => lists().format(items);

/** A message in the language of the app. The message must be a literal. */
export function t(message: string, values?: Record<string, string | number>): string {
  const translated = catalogue[message] ?? message;
  return values ? fill(translated, values).join('') : translated;
}

/** The same with elements among its words. */
export function rich(message: string, values: Record<string, ReactNode>): ReactNode {
  return createElement(Fragment, null, ...fill(catalogue[message] ?? message, values));
}

/** Marks a literal that is shown by `t(variable)` elsewhere as a message. */
export const message = (literal: string): string => literal;

function fill<T>(pattern: string, values: Record<string, T>, counted?: number): (string | T)[] {
  const filled: (string | T)[] = [];
  let from = 0;
  for (let open = pattern.indexOf('{'); open >= 0; open = pattern.indexOf('{', from)) {
    filled.push(words(pattern.slice(from, open), counted));
    from = closing(pattern, open) + 1;
    const [, name = '', kind, choices = ''] = ARGUMENT.exec(pattern.slice(open + 1, from - 1)) ?? [];
    const value = values[name] as T;
    if (kind === 'plural') filled.push(...fill(choice(choices, Number(value), true), values, Number(value)));
    else if (kind === 'select') filled.push(...fill(choice(choices, String(value), false), values, counted));
    else filled.push(typeof value === 'number' ? number(value) : isolated(value));
  }
  filled.push(words(pattern.slice(from), counted));
  return filled;
}

/** From right to left, a text of another direction would change the order of the words around it: here it does not. */
const isolated = <T>(value: T): string | T =>
  DIRECTION === 'rtl' && typeof value === 'string' ? `\u2068${value}\u2069` : value;

const ARGUMENT = /^\s*(\w+)\s*(?:,\s*(plural|select)\s*,([\s\S]*))?$/;
const CHOICE = /\s*(=?\w+)\s*\{/y;

const words = (text: string, counted: number | undefined): string =>
  counted === undefined ? text : text.replaceAll('#', number(counted));

/** The place of the brace that closes the one at `open`. */
function closing(pattern: string, open: number): number {
  let depth = 0;
  for (let at = open; at < pattern.length; at += 1) {
    if (pattern[at] === '{') depth += 1;
    else if (pattern[at] === '}') depth -= 1;
    if (depth === 0) return at;
  }
  throw new Error(`a brace is not closed: ${pattern}`);
}

/** The text of the choice that fits the value, or of `other`. */
function choice(choices: string, value: string | number, isPlural: boolean): string {
  const form = isPlural ? plurals().select(Number(value)) : value;
  let found = '';
  CHOICE.lastIndex = 0;
  for (let head = CHOICE.exec(choices); head; head = CHOICE.exec(choices)) {
    const close = closing(choices, CHOICE.lastIndex - 1);
    const text = choices.slice(CHOICE.lastIndex, close);
    if (isPlural && head[1] === `=${value}`) return text;
    if (head[1] === form || (head[1] === 'other' && found === '')) found = text;
    CHOICE.lastIndex = close + 1;
  }
  return found;
}
