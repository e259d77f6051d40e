/** The types of partial-json.js, written by hand. */

/**
 * Return what a beginning of JSON says for sure: strings as far as they go, and numbers, `true`,
 * keys and the like once they are whole. `value` is undefined where there is none yet, or the text
 * is no JSON.
 */
export function parsePartial<T = unknown>(text: string): { value: T | undefined; complete: boolean };
