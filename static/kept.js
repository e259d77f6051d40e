/**
 * What is stored of a conversation, for a reload and for other tabs. A part of store.js.
 *
 * @module
 */

import { newId } from './ids.js';

/** @typedef {import('./parts.d.ts').ChatMessage} ChatMessage */
/** @typedef {import('./seseragi.d.ts').ClientStorage} ClientStorage */

/**
 * An answer that is being given: its request until the stream's id is known, and the cursor
 * behind the parts of its message, which has the id `key`.
 * @typedef {{key: string, stream: string|null, cursor: string|null, request: import('./seseragi.d.ts').ChatRequest|null, step: number}} Turn
 */

/** What is stored. @typedef {{revision: string, messages: ChatMessage[], turn: Turn|null}} Kept */

export class Keeper {
  /** Of what was last stored, or seen there. @type {string|null} */
  revision = null;
  #isRead = false;
  #find;

  /** @param {string} id of the conversation @param {() => ClientStorage|(() => ClientStorage|null|undefined)|undefined} find */
  constructor(id, find) {
    this.key = `seseragi.${id}`;
    this.#find = find;
  }

  /** @returns {ClientStorage|null} */
  get storage() {
    try {
      const storage = this.#find();
      return (typeof storage === 'function' ? storage() : storage) ?? null;
    } catch {
      return null; // forbidden: a reload then begins anew
    }
  }

  /** @returns {Kept|null} */
  load() {
    try {
      const kept = JSON.parse(this.storage?.getItem(this.key) ?? 'null');
      return Array.isArray(kept?.messages) ? kept : null;
    } catch {
      return null;
    }
  }

  /** @param {ChatMessage[]} messages @param {Turn|null} turn */
  store(messages, turn) {
    this.revision = newId();
    try {
      this.storage?.setItem(this.key, JSON.stringify({ revision: this.revision, messages, turn }));
    } catch {} // full: the same
  }

  /** What was stored by this page before it was loaded again, or by another tab since. @returns {{kept: Kept, isOwn: boolean}|null} */
  news() {
    const kept = this.load();
    const isOwn = !this.#isRead; // what a page finds is its own: it may have been loaded again
    this.#isRead = true;
    return kept && kept.revision !== this.revision ? { kept, isOwn } : null;
  }

  /** Run something in one tab, where several have this conversation. @param {() => Promise<void>} run @param {boolean} isOwn */
  async alone(run, isOwn) {
    const { locks } = globalThis.navigator ?? {};
    if (this.storage && locks) await locks.request(this.key, { ifAvailable: true }, (lock) => lock && run());
    else if (isOwn || !this.storage) await run();
  }

  /** Have `changed` called when another tab has stored something, and `hide` before the page may be gone. @param {() => void} changed @param {() => void} hide */
  listen(changed, hide) {
    /** @param {StorageEvent} event */
    const hear = ({ key }) => { if (key === this.key || key === null) changed(); };
    const look = () => { if (globalThis.document?.visibilityState === 'hidden') hide(); };
    globalThis.addEventListener?.('storage', hear);
    globalThis.addEventListener?.('pagehide', hide);
    globalThis.document?.addEventListener('visibilitychange', look);
    return () => {
      globalThis.removeEventListener?.('storage', hear);
      globalThis.removeEventListener?.('pagehide', hide);
      globalThis.document?.removeEventListener('visibilitychange', look);
    };
  }
}
