/**
 * The page's language, by the browser's. Texts are written in English where they are used, and are
 * the keys of the translations; a text without a translation stays English.
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

/** @param {number} value */
export function number(value) {
  return value.toLocaleString(LANGUAGE);
}

/** A day and a time. @param {Date} date */
export function moment(date) {
  return date.toLocaleString(LANGUAGE, { dateStyle: 'medium', timeStyle: 'short' });
}
