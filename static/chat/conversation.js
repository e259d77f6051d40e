/**
 * The conversation of this page: its turns, which of them are shown, its settings, and how it is
 * kept: in sessionStorage for a reload of this tab, in the history for later.
 */

import { newId } from '../ids.js';
import { storedKey } from '../key.js';
import { History, lastingStorage, ownerOf } from './history.js';
import { Usual, areSame, settingsOf, withSettings } from './settings.js';
import { nextId, pathThrough, versionsOf } from './tree.js';
import { watched } from './watching.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {import('./turn.js').Kept} Kept */
/** @typedef {import('./turn.js').Turn} Turn */
/** `settings` is null where they are those of any new conversation. @typedef {{id: string, revision: string|null, at: number, settings: Settings|null}} About */
/** A conversation as it was kept, the oldest turn first. @typedef {Partial<Omit<About, 'settings'>> & {shown: number, turns: readonly Partial<Kept>[], settings?: object|null}} Found */

const BASE = new URL('.', document.baseURI).pathname;
const KEY = 'seseragi.conversation'; // of sessionStorage

export class Conversation {
  /** Those that are shown. @type {Turn[]} */
  turns = [];
  /** What was asked last. @type {ChatRequest|null} */
  lastRequest = null;
  /** What to do when the conversation, or what is kept, has changed. */
  onChange = () => {};
  /** @type {Turn[]} */
  #all = [];
  #history = historyFor(storedKey());
  #about = nothingYet();
  #changed = false; // since it was kept

  constructor() {
    // A phone may end a page that is hidden without another word.
    addEventListener('pagehide', () => this.save());
    document.addEventListener('visibilitychange', () => this.save());
    addEventListener('storage', ({ key }) => {
      if (this.#history.has(key)) this.onChange();
    });
  }

  get id() {
    return this.#about.id;
  }

  /** Those that are kept for whoever is at the page. */
  get history() {
    return this.#history;
  }

  /** What this conversation is called; "" where it is not kept. */
  get title() {
    return watched ? '' : this.#history.title(this.#about.id);
  }

  /** The files of the questions so far, which each request says again. */
  get files() {
    return this.turns.flatMap(({ kept }) => kept.files);
  }

  get isEmpty() {
    return this.#all.length === 0;
  }

  /** What its requests say beside the questions; `usual` is what new conversations begin with. */
  get settings() {
    const usual = this.#usual.settings;
    return { settings: this.#about.settings ?? usual, usual };
  }

  get #usual() {
    return new Usual(lastingStorage(), this.#history.owner);
  }

  /** Take other settings, for the questions from now on. @param {Settings} settings @param {Settings} [usual] those of new conversations */
  adjust(settings, usual) {
    if (usual) this.#usual.keep(usual);
    this.#about.settings = this.turns.length || !areSame(settings, this.#usual.settings) ? settings : null;
    if (this.lastRequest) this.lastRequest = withSettings(this.lastRequest, settings);
    this.#changed = this.#all.length > 0;
    this.save();
  }

  /** Return the settings for what is asked now, which are its own from then on. */
  takeSettings() {
    return this.#about.settings = this.settings.settings;
  }

  /** The number for a next turn. */
  get nextId() {
    return nextId(this.#all);
  }

  /** Whether a turn is one of its own, shown or not. @param {Turn} turn */
  has(turn) {
    return this.#all.includes(turn);
  }

  /** Add a turn behind those that are shown. @param {Turn} turn */
  add(turn) {
    this.#all.push(turn);
    this.turns.push(turn);
  }

  /** Return the versions of a turn, the oldest first. @param {Turn} turn */
  versionsOf(turn) {
    return versionsOf(this.#all, turn);
  }

  /** Show another version of a turn, and return it. @param {Turn} turn @param {-1|1} by @returns {Turn|undefined} */
  step(turn, by) {
    const versions = this.versionsOf(turn);
    const other = versions[versions.indexOf(turn) + by];
    if (!other) return undefined;
    this.turns = pathThrough(this.#all, other);
    this.#changed = true;
    return other;
  }

  /** Show what was said before a turn; a turn of which nothing came is not kept beside another. @param {Turn} turn */
  goBackBefore(turn) {
    this.turns = this.turns.slice(0, this.turns.indexOf(turn));
    const empty = !turn.answer.text && !this.#all.some(({ kept }) => kept.after === turn.kept.id);
    if (empty) this.#all = this.#all.filter((one) => one !== turn);
  }

  /** Note that there is something in it that is not kept yet. */
  noteChange() {
    this.#changed = true;
  }

  /** Keep it, with what is asked now. */
  saveAsked() {
    this.#about.at = Date.now();
    if (!this.#history.read(this.#about.id)) this.#about.revision = null; // deleted in another tab, and now there is more
    this.#changed = true;
    this.save();
  }

  /** Keep the conversation, for a reload and for later, unless it is somebody else's. */
  save() {
    if (watched) return;
    const about = { shown: this.turns.at(-1)?.kept.id ?? 0, ...this.#about };
    if (this.#changed && this.#all.some((turn) => turn.isOurs)) {
      const written = this.#history.write({ ...about, settings: about.settings ?? undefined, turns: this.#all.map((turn) => turn.light()) });
      Object.assign(this.#about, written);
      this.#changed = false;
    }
    keepHere({ ...about, ...this.#about, owner: this.#history.owner }, this.#all);
    this.onChange();
  }

  /** Return what this tab had before a reload. @returns {Found|null} */
  recall() {
    return recallHere(this.#history.owner);
  }

  /** Be one that was kept. @param {Found} found @param {(kept: Partial<Kept>) => Turn} make */
  restore(found, make) {
    const { id, revision, at, settings } = { ...nothingYet(), ...found };
    try {
      this.#all = found.turns.map((kept) => make(kept));
    } catch {
      this.#all = []; // of another version of this page
    }
    this.#about = { id, revision, at, settings: found.turns.length || settings ? settingsOf(settings) : null };
    this.turns = pathThrough(this.#all, this.#all.find(({ kept }) => kept.id === found.shown) ?? this.#all.at(-1));
  }

  /** Be a new one; nothing that is not kept is left of what it was. */
  clear() {
    this.#all = [];
    this.turns = [];
    this.#about = nothingYet();
    this.#changed = false;
    this.lastRequest = null;
  }

  /** Take what is in it for kept: it is about to be deleted. */
  discard() {
    this.#changed = false;
  }

  /** Go on as somebody with another key: what is on the page is his from now on. */
  changeKey() {
    const before = this.#history;
    this.#history = historyFor(storedKey());
    if (this.#history.owner === before.owner || !this.#all.length) return;
    before.remove(this.#about.id);
    this.#about.revision = null;
    this.#changed = true;
    this.save();
  }

  /** Go on as somebody without a key. */
  forgetKey() {
    this.#history = historyFor(null);
    this.onChange();
  }
}

/** @param {string|null} key */
function historyFor(key) {
  return new History(lastingStorage(), ownerOf(BASE, key));
}

/** @returns {About} */
function nothingYet() {
  return { id: newId(), revision: null, at: 0, settings: null };
}

/**
 * Keep a conversation for a reload.
 * @param {About & {owner: string, shown: number}} about
 * @param {Turn[]} turns none: there is nothing to keep, unless it has settings
 */
function keepHere(about, turns) {
  try {
    if (turns.length || about.settings) sessionStorage.setItem(KEY, JSON.stringify({ ...about, turns }));
    else sessionStorage.removeItem(KEY);
  } catch {
    keepWithoutFiles(about, turns);
  }
}

/** @param {About & {owner: string, shown: number}} about @param {Turn[]} turns */
function keepWithoutFiles(about, turns) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...about, turns: turns.map((turn) => turn.light()) }));
  } catch {
    // Full or forbidden: a reload then begins anew.
  }
}

/** Return what was kept for somebody. @param {string} owner @returns {Found|null} */
function recallHere(owner) {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    return found?.owner === owner && Array.isArray(found.turns) ? found : null;
  } catch {
    return null;
  }
}
