/**
 * The conversations that the browser keeps, each in an entry of localStorage: so two tabs with two
 * conversations keep both.
 *
 * An entry is one line that says what it is, and one with the turns. Who may see it is part of its
 * name: what was kept under one key is neither listed nor read under another. Of two tabs that go on
 * with one conversation, the second keeps a conversation of its own.
 */

import { newId } from '../ids.js';

const PREFIX = 'seseragi.chat.';
const MOST = 100; // conversations, of all owners
const LARGEST = 1_000_000; // characters of one
const LARGEST_OF_ALL = 2_500_000; // browsers keep 5 million a site
const TITLE = 80;

/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string|null} revision what this tab has read or written last; null for one that was never kept
 * @property {number} at when something was asked last, in milliseconds since the epoch
 * @property {number} shown the id of the last turn that is shown
 * @property {readonly {prompt: string, key?: string}[]} turns `key` is another for each request
 * @property {object} [settings]
 */
/** @typedef {{id: string, title: string, at: number}} Entry */
/** @typedef {{title: string, at: number, revision: string, named?: true}} Head `named`: by somebody, and not by its first words */
/** @typedef {{id: string, value: string}} Removed */
/** @typedef {{prompt: string, events?: readonly {type: string, text?: string}[]}} Said */

/**
 * Return the name under which conversations are kept for whoever has a key, with this relay: its
 * fingerprint (FNV-1a, 64 bits), from which nobody can tell a key that was made by a machine.
 * @param {string} base the path of the page
 * @param {string|null} key
 */
export function ownerOf(base, key) {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(`${base}\n${key ?? ''}`)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  return hash.toString(36);
}

/** Return what a conversation is called: its first words. @param {readonly {prompt: string}[]} turns */
export function titleOf(turns) {
  return shortened(turns.find(({ prompt }) => prompt)?.prompt ?? '');
}

/** @param {string} text */
function shortened(text) {
  const words = text.trim().replace(/\s+/g, ' ');
  return words.length > TITLE ? `${[...words].slice(0, TITLE - 1).join('')}…` : words;
}

/** The conversations of one owner. */
export class History {
  /** What the conversations say, for as long as they stay as they are. @type {Map<string, {value: string, words: string}>} */
  #words = new Map();
  #storage;
  #owner;

  /**
   * @param {Storage|null} storage null where the browser keeps nothing
   * @param {string} owner
   */
  constructor(storage, owner) {
    this.#storage = storage;
    this.#owner = owner;
  }

  get owner() {
    return this.#owner;
  }

  /** Whether an entry of the storage is one of these. @param {string|null} name */
  has(name) {
    return name === null || name.startsWith(this.#name(''));
  }

  /** Return what there is, the newest first. @returns {Entry[]} */
  list() {
    const own = this.#name('');
    return this.#entries().filter(({ name }) => name.startsWith(own)).reverse()
      .map(({ name, title, at }) => ({ id: name.slice(own.length), title, at }));
  }

  /** Return what a conversation is called; "" if it is not kept. @param {string} id */
  title(id) {
    return headOf(this.#get(this.#name(id)))?.title ?? '';
  }

  /** @param {string} id @returns {Conversation|null} */
  read(id) {
    const value = this.#get(this.#name(id));
    const head = headOf(value);
    if (!value || !head) return null;
    try {
      const { turns, shown, settings } = JSON.parse(value.slice(value.indexOf('\n') + 1));
      return Array.isArray(turns) && turns.length ? { id, revision: head.revision, at: head.at, shown, turns, ...(settings ? { settings } : {}) } : null;
    } catch {
      return null;
    }
  }

  /**
   * Keep a conversation.
   * @param {Conversation} conversation
   * @returns {{id: string, revision: string}|null} what it is called now; null where it is not kept:
   *     there is no room, or it was deleted
   */
  write(conversation) {
    if (!this.#storage) return null;
    const { at, shown, revision, settings } = conversation;
    let { id } = conversation;
    const kept = headOf(this.#get(this.#name(id)));
    if (revision !== null && !kept) return null; // deleted in another tab
    if (kept && kept.revision !== revision && !this.#hasAll(id, conversation)) id = newId(); // another tab has gone on with it
    const mine = newId();
    const turns = newestOf(conversation.turns.map((turn) => JSON.stringify(turn)));
    const head = { ...(kept?.named ? { title: kept.title, named: true } : { title: titleOf(conversation.turns) }), at, revision: mine };
    const value = `${JSON.stringify(head)}\n{"shown":${Number(shown) || 0},${settings ? `"settings":${JSON.stringify(settings)},` : ''}"turns":[${turns.join()}]}`;
    return turns.length && this.#put(this.#name(id), value) ? { id, revision: mine } : null;
  }

  /** Give a conversation another name; without one it has its first words again. @param {string} id @param {string} name */
  rename(id, name) {
    const value = this.#get(this.#name(id));
    const head = headOf(value);
    if (!value || !head) return;
    const title = shortened(name);
    const { named, ...rest } = head;
    // It is no other conversation for that: a tab that has it goes on with it.
    const renamed = title ? { ...rest, title, named: true } : { ...rest, title: titleOf(this.read(id)?.turns ?? []) };
    this.#put(this.#name(id), `${JSON.stringify(renamed)}${value.slice(value.indexOf('\n'))}`);
  }

  /** Remove a conversation. @param {string} id @returns {Removed|null} what `putBack` takes; null if there was none */
  remove(id) {
    const value = this.#get(this.#name(id));
    this.#drop(this.#name(id));
    return value === null ? null : { id, value };
  }

  /** Remove all of this owner's. */
  clear() {
    for (const { id } of this.list()) this.remove(id);
  }

  /** Keep again what was removed. @param {Removed} removed */
  putBack({ id, value }) {
    this.#put(this.#name(id), value);
  }

  /** Return those in which all words of a query occur, the newest first. @param {string} query */
  search(query) {
    const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
    return this.list().filter(({ id }) => {
      const words = this.#wordsOf(id);
      return wanted.every((word) => words.includes(word));
    });
  }

  /** What a conversation says, in lower case: its name, questions and answers. @param {string} id */
  #wordsOf(id) {
    const value = this.#get(this.#name(id)) ?? '';
    const known = this.#words.get(id);
    if (known?.value === value) return known.words;
    const turns = /** @type {readonly Said[]} */ (this.read(id)?.turns ?? []);
    const said = turns.flatMap(({ prompt, events = [] }) => [prompt, ...events.map(({ type, text }) => (type === 'text.delta' ? text : ''))]);
    const words = [headOf(value)?.title, ...said].join('\n').toLowerCase();
    this.#words.set(id, { value, words });
    return words;
  }

  /** Whether what is kept has nothing that a conversation has not. @param {string} id @param {Conversation} conversation */
  #hasAll(id, { turns }) {
    const keys = new Set(turns.map(({ key }) => key));
    return this.read(id)?.turns.every(({ key }) => key && keys.has(key));
  }

  /** @param {string} id */
  #name(id) {
    return `${PREFIX}${this.#owner}.${id}`;
  }

  /** All entries, whoever's, the oldest first. */
  #entries() {
    const names = this.#storage ? Array.from({ length: this.#storage.length }, (_, at) => this.#storage?.key(at) ?? '') : [];
    return names.filter((name) => name.startsWith(PREFIX)).map((name) => {
      const value = this.#get(name);
      const { title = '', at = 0 } = headOf(value) ?? {};
      return { name, title, at, size: name.length + (value?.length ?? 0) };
    }).sort((one, other) => one.at - other.at);
  }

  /** Put an entry; the oldest others go where there is no room. @param {string} name @param {string} value */
  #put(name, value) {
    const others = this.#entries().filter((entry) => entry.name !== name);
    let size = others.reduce((sum, entry) => sum + entry.size, name.length + value.length);
    while (others.length >= MOST || (others.length && size > LARGEST_OF_ALL)) size -= this.#dropOldest(others);
    for (;;) {
      try {
        this.#storage?.setItem(name, value);
        return true;
      } catch {
        if (!others.length) return false; // full of what is not ours, or forbidden
        this.#dropOldest(others);
      }
    }
  }

  /** @param {{name: string, size: number}[]} entries */
  #dropOldest(entries) {
    const [{ name, size }] = entries.splice(0, 1);
    this.#drop(name);
    return size;
  }

  /** @param {string} name */
  #get(name) {
    try {
      return this.#storage?.getItem(name) ?? null;
    } catch {
      return null;
    }
  }

  /** @param {string} name */
  #drop(name) {
    try {
      this.#storage?.removeItem(name);
    } catch {
      // Forbidden meanwhile.
    }
  }
}

/** @param {string|null} value @returns {Head|null} */
function headOf(value) {
  try {
    const { title, at, revision, named } = JSON.parse(value?.slice(0, value.indexOf('\n')) ?? '');
    return { title: String(title), at: Number(at) || 0, revision: String(revision), ...(named ? { named: true } : {}) };
  } catch {
    return null;
  }
}

/** Return the last turns that have room together. @param {string[]} turns as JSON */
function newestOf(turns) {
  let room = LARGEST;
  let first = turns.length;
  while (first > 0 && (room -= turns[first - 1].length + 1) >= 0) first -= 1;
  return turns.slice(first);
}

/** The storage that outlives the tab, where the browser has one for this page. */
export function lastingStorage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}
