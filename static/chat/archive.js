/**
 * The conversations that are kept, as the list of them has it: found, renamed, saved as files and
 * opened from them, deleted and had back.
 */

import { saveFile } from '../save.js';
import { LARGEST_FILE, asJson, asMarkdown, fileName, fromJson } from './export.js';
import { sizeOf } from './files.js';
import { titleOf } from './history.js';
import { say } from './language.js';

export class Archive {
  #conversation;
  #talk;

  /** @param {import('./conversation.js').Conversation} conversation the one that is open @param {import('./talk.js').Talk} talk */
  constructor(conversation, talk) {
    this.#conversation = conversation;
    this.#talk = talk;
  }

  /** What is kept, and which of it is open. @param {string} query words that are all in it */
  find(query) {
    const { history, id } = this.#conversation;
    return { entries: query ? history.search(query) : history.list(), current: id };
  }

  /** @param {string} id @param {string} name */
  rename(id, name) {
    this.#conversation.history.rename(id, name);
    this.#conversation.onChange();
  }

  /**
   * Save a conversation as a file.
   * @param {string} id
   * @param {'markdown'|'json'} format
   * @returns {string} the name of the file; "" if there is no such conversation
   */
  export(id, format) {
    this.#conversation.save();
    const { history } = this.#conversation;
    const found = history.read(id);
    if (!found) return '';
    const title = history.title(id) || say('Files without a word');
    const [write, type, ending] = format === 'json' ? /** @type {const} */ ([asJson, 'application/json', 'json']) : /** @type {const} */ ([asMarkdown, 'text/markdown', 'md']);
    const name = fileName(title, ending);
    saveFile(new Blob([write(title, found)], { type: `${type};charset=utf-8` }), name);
    return name;
  }

  /** Keep and open a conversation that was saved as JSON. @param {File} file @throws {Error} what is wrong with it, in words for people */
  async import(file) {
    if (file.size > LARGEST_FILE) throw new Error(say('{name} is too large ({size})', { name: file.name, size: sizeOf(file.size) }));
    const { title, conversation } = fromJson(await file.text());
    const { history } = this.#conversation;
    const written = history.write(conversation);
    if (!written) throw new Error(say('The browser has no room to keep it.'));
    if (title && title !== titleOf(conversation.turns)) history.rename(written.id, title);
    this.#talk.open(written.id);
  }

  /**
   * Delete conversations; the open one as well, if it is among them.
   * @param {string[]} ids
   * @returns {() => void} what keeps them again, and comes back to that one unless another was begun
   */
  remove(ids) {
    const conversation = this.#conversation;
    conversation.save();
    const { id: open } = conversation;
    if (ids.includes(open)) this.#talk.discard();
    const { history } = conversation;
    const removed = ids.flatMap((id) => history.remove(id) ?? []);
    return () => {
      for (const one of removed) history.putBack(one);
      if (ids.includes(open) && conversation.isEmpty && history === conversation.history) this.#talk.open(open);
      else conversation.onChange();
    };
  }
}
