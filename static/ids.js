/**
 * Names that nobody else has made, as of messages and of requests.
 *
 * @module
 */

/** 128 random bits; `crypto.randomUUID` is for secure origins only. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
