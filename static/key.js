/**
 * The key that this page sends to the relay, if the relay requires one.
 *
 * It is in sessionStorage, so this tab's alone and gone with it, and never in a URL.
 */

import { byId } from './dom.js';

const NAME = 'seseragi.key';
const FORM = /^[!-~]{1,8192}$/; // what a header can carry

/** @type {string|null} where the browser stores nothing */
let unstored = null;

/** @returns {string|null} */
export function storedKey() {
  try {
    return sessionStorage.getItem(NAME) ?? unstored;
  } catch {
    return unstored;
  }
}

/** @param {string|null} key null forgets it */
export function storeKey(key) {
  unstored = key;
  try {
    if (key === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, key);
  } catch {
    // Forbidden: a reload then asks again.
  }
}

/** The headers that carry a key. @param {string|null} [key] @returns {Record<string, string>} */
export function showing(key = storedKey()) {
  return key === null ? {} : { authorization: `Bearer ${key}` };
}

/**
 * Take the key from an address such as `/#key=ssk_...`, and remove it there at once. A link may be
 * a stranger's, who would read what is asked with it: it replaces a key only if the user agrees.
 * @param {(text: string) => string} [say] translates a text
 * @returns {boolean} whether it is a new one
 */
export function takeFromAddress(say = (text) => text) {
  if (!location.hash.startsWith('#key=')) return false;
  const given = location.hash.slice('#key='.length);
  history.replaceState(null, '', location.pathname + location.search);
  if (!FORM.test(given) || given === storedKey()) return false;
  if (storedKey() !== null && !confirm(say('This link has another key. Use it instead of this tab’s key? Whoever made the link can read what you ask with it.'))) return false;
  storeKey(given);
  return true;
}

/** The form for a key, which stands in place of another element. */
export class KeyForm {
  #form = byId('key-form', HTMLFormElement);
  #input = byId('key', HTMLInputElement);
  #error = byId('key-error', HTMLElement);
  #inPlaceOf;
  #checking = false;
  #say;

  /**
   * @param {HTMLElement} inPlaceOf
   * @param {(key: string) => Promise<string>} use tries a key; returns what is wrong with it, or ""
   * @param {(text: string) => string} [say] translates a text
   */
  constructor(inPlaceOf, use, say = (text) => text) {
    this.#say = say;
    this.#inPlaceOf = inPlaceOf;
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit(use);
    });
  }

  /** @param {string} [problem] what was wrong with the key that was sent */
  show(problem = '') {
    const shown = !this.#form.hidden;
    this.#form.hidden = false;
    this.#inPlaceOf.hidden = true;
    if (!shown || problem) this.#tell(problem);
    if (!shown) this.#input.focus();
  }

  hide() {
    this.#input.value = '';
    this.#tell('');
    this.#form.hidden = true;
    this.#inPlaceOf.hidden = false;
  }

  /** @param {(key: string) => Promise<string>} use */
  async #submit(use) {
    const key = this.#input.value.trim();
    if (this.#checking) return;
    if (!FORM.test(key)) return this.#refuse(this.#say(key ? 'A key has no spaces and no letters with accents.' : 'Enter a key.'));
    this.#checking = true;
    const problem = await use(key).finally(() => { this.#checking = false; });
    if (problem) this.#refuse(problem);
  }

  /** @param {string} problem */
  #refuse(problem) {
    this.#tell(problem);
    this.#input.focus();
    this.#input.select();
  }

  /** @param {string} problem */
  #tell(problem) {
    this.#error.textContent = problem;
    this.#input.ariaInvalid = String(problem !== '');
  }
}
