/**
 * The page's own language, by the browser's. English is written where it is used and is the key to
 * the others; what has no translation stays English.
 */

const SPOKEN = ['en', 'ja'];

/** @type {readonly string[]} */
const wanted = globalThis.navigator?.languages ?? [globalThis.navigator?.language ?? 'en'];

/** The first of the reader's languages that the page speaks. */
export const LANGUAGE = wanted.map((name) => name.toLowerCase().split('-')[0]).find((name) => SPOKEN.includes(name)) ?? 'en';

/** @type {Record<string, string>} */
const words = LANGUAGE === 'ja' ? (await import('./japanese.js')).JAPANESE : {};

/**
 * Return a text in the page's language.
 * @param {string} text English, with `{name}` for each value
 * @param {Record<string, string|number>} [values]
 */
export function say(text, values = {}) {
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** Return a number as the page's language writes it. @param {number} value @param {Intl.NumberFormatOptions} [options] */
export function number(value, options) {
  return value.toLocaleString(LANGUAGE, options);
}

/** Return a day and a time as the page's language writes them. @param {Date} date @param {Intl.DateTimeFormatOptions} [options] */
export function moment(date, options = { dateStyle: 'medium', timeStyle: 'short' }) {
  return date.toLocaleString(LANGUAGE, options);
}
