/**
 * What is stored of a conversation, for a reload and for other tabs. A part of store.js.
 *
 * @module
 */

import { newId } from './ids.js';
import { SeseragiError } from './seseragi.js';

/** @typedef {import('./parts.d.ts').ChatMessage} ChatMessage */
/** @typedef {import('./seseragi.d.ts').ClientStorage} ClientStorage */

/**
 * An answer that is being given: its request until the stream's id is known, and the cursor
 * behind the parts of its message, which has the id `key`. One that another device has asked for `isElsewhere`.
 * @typedef {{key: string, stream: string|null, cursor: string|null, request: import('./seseragi.d.ts').ChatRequest|null, step: number, isStopping?: boolean, isElsewhere?: boolean}} Turn
 */

/** What is stored: by which tab, and its number among all revisions. @typedef {{tab?: string, revision: number, messages: ChatMessage[], turn: Turn|null}} Kept */

export class Keeper {
  /** Why the last revision is not stored, else null. @type {SeseragiError|null} */
  error = null;
  #tab = newId();
  /** The record that the page's conversation continues: the last one that was stored or taken. @type {{tab?: string, revision: number}} */
  #base = { revision: -1 };
  #isRead = false;
  #find;

  /** Of the record; null until the owner is known. @type {string|null} */
  #key = null;
  /** The owner, if that is somebody: a key may be shared by all users. @type {string|undefined} */
  #user;
  #id;

  /** @param {string} id of the conversation @param {() => ClientStorage|(() => ClientStorage|null|undefined)|undefined} find */
  constructor(id, find) {
    this.#id = id;
    this.#find = find;
  }

  get isOpen() {
    return this.#key !== null;
  }

  /**
   * Use the records of an owner, and of nobody else: of a named one, else of who has the credential.
   * @param {string|undefined} named @param {string|null} credential
   */
  open(named, credential) {
    this.#user = named ?? (credential === null ? undefined : userOf(credential));
    const owner = this.#user ?? credential ?? undefined;
    this.#key = `seseragi.${this.#id}${owner === undefined ? '' : `@${digest(owner)}`}`;
  }

  /** Forget the owner, and whatever was read. */
  close() {
    this.#key = this.error = null;
    this.#user = undefined;
    this.#base = { revision: -1 };
    this.#isRead = false;
  }

  remove() {
    try {
      if (this.#key) this.storage?.removeItem(this.#key);
    } catch {} // forbidden: there is nothing
  }

  /** @returns {ClientStorage|null} */
  get storage() {
    if (!this.isOpen) return null;
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
      const kept = JSON.parse(this.storage?.getItem(`${this.#key}`) ?? 'null');
      return Array.isArray(kept?.messages) ? { ...kept, revision: Number(kept.revision) || 0 } : null;
    } catch {
      return null;
    }
  }

  /**
   * Store a copy. A refusal costs the resumption after a reload; the page's conversation goes on.
   * @param {ChatMessage[]} messages @param {Turn|null} turn
   */
  store(messages, turn) {
    const kept = this.load();
    // What was not stored is of this page alone: it does not end what another tab has begun meanwhile.
    if (kept && this.error && this.#isLater(kept) && lacks(messages, kept.messages)) return;
    const record = { tab: this.#tab, revision: Math.max(this.#base.revision, kept?.revision ?? 0) + 1, messages, turn };
    try {
      this.storage?.setItem(`${this.#key}`, JSON.stringify(record));
      this.take(record);
    } catch (cause) {
      this.#base = kept ?? this.#base; // it is behind this page's
      this.error ??= new SeseragiError('storage', 'storage: the conversation was not stored, so that a reload loses it; remove messages, or free storage', { cause });
    }
  }

  /** Continue a record. @param {{tab?: string, revision: number}} record */
  take({ tab, revision }) {
    this.#base = { tab, revision };
    this.error = null;
  }

  /**
   * What was stored by this page before it was loaded again, or by another tab since. While a
   * revision of this page is not stored, only what has all of its messages.
   * @param {ChatMessage[]} messages those of this page
   * @returns {{kept: Kept, isOwn: boolean}|null}
   */
  news(messages) {
    const kept = this.load();
    const isOwn = !this.#isRead; // what a page finds is its own: it may have been loaded again
    this.#isRead = true;
    return kept && this.#isLater(kept) && !(this.error && lacks(kept.messages, messages)) ? { kept, isOwn } : null;
  }

  /** Whether another tab has stored it after the base; two may have stored the same number. @param {Kept} kept */
  #isLater({ tab, revision }) {
    return tab !== this.#tab && (revision > this.#base.revision || (revision === this.#base.revision && tab !== this.#base.tab));
  }

  /** Under which name tabs share the reading of a turn; null where they cannot. @param {Turn} turn */
  nameOf({ key }) {
    return this.#isShared ? `${this.#key}.${key}` : null;
  }

  /** Under which name tabs share the watch of the owner's streams; null where they cannot. @param {string} streamsUrl */
  watchName(streamsUrl) {
    return this.#isShared && this.#user !== undefined ? `seseragi.watch@${digest(JSON.stringify([streamsUrl, this.#user]))}` : null;
  }

  get #isShared() {
    return this.storage && globalThis.navigator?.locks && globalThis.BroadcastChannel;
  }

  /** Run something in one tab, where several have this conversation. @param {() => Promise<void>} run @param {boolean} isOwn */
  async alone(run, isOwn) {
    const { locks } = globalThis.navigator ?? {};
    if (this.storage && locks) await locks.request(`${this.#key}`, { ifAvailable: true }, (lock) => lock && run());
    else if (isOwn || !this.storage) await run();
  }

  /**
   * Have `changed` called when another tab has stored something, `removed` when it has removed that, and `hide` before the page may be gone.
   * @param {() => void} changed @param {() => void} removed @param {() => void} hide
   */
  listen(changed, removed, hide) {
    /** @param {StorageEvent} event */
    const hear = ({ key, newValue }) => {
      if (!this.isOpen || (key !== this.#key && key !== null)) return;
      if (newValue === null && this.load() === null) removed();
      else changed();
    };
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

/** Whose a credential is, if it is a client secret or another JWT that names a user. @param {string} credential */
export function userOf(credential) {
  try {
    const [, claims = ''] = /^(?:ek_)?[\w-]+\.([\w-]+)\.[\w-]+$/.exec(credential) ?? [];
    const { iss, tenant, user, sub } = JSON.parse(atob(claims.replaceAll('-', '+').replaceAll('_', '/')));
    if (user || sub) return JSON.stringify([iss, tenant, user || sub]);
  } catch {} // it names none
  return undefined;
}

/** 64 bits (FNV-1a, with two primes): neither a name nor a credential is stored. @param {string} text */
function digest(text) {
  const halves = [0x01000193, 0x010001c5].map((prime) => {
    let hash = 0x811c9dc5;
    for (const unit of text.split('')) hash = Math.imul(hash ^ unit.charCodeAt(0), prime);
    return hash >>> 0;
  });
  return halves.map((hash) => hash.toString(16).padStart(8, '0')).join('');
}

/** Whether the first lack a message of the second, or its end. @param {ChatMessage[]} messages @param {ChatMessage[]} others */
function lacks(messages, others) {
  return others.some((other) => {
    const found = messages.find(({ id }) => id === other.id);
    return !found || (found.status === 'running' && other.status !== 'running');
  });
}
