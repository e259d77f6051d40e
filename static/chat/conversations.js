/**
 * The list of the conversations that the browser keeps: to search, reopen, rename, save and delete them.
 */

import { element } from '../dom.js';
import { icon } from './icon.js';
import { moment, say } from './language.js';

/** @typedef {import('./history.js').Entry} Entry */

/**
 * @typedef {object} Acts
 * @property {(query: string) => {entries: Entry[], current: string}} find those in which all words occur; all for ""
 * @property {(id: string) => void} open
 * @property {(id: string, name: string) => void} rename
 * @property {(id: string, format: 'markdown'|'json') => string} save gives the name of the file; "" if there is nothing
 * @property {(file: File) => Promise<void>} load keep and open what a file has; throws what is wrong with it
 * @property {(ids: string[]) => () => void} remove gives what takes it back
 * @property {() => void} close
 */

const DOWN = 'M8 2.5v7.5M4.5 6.8L8 10.3l3.5-3.5M2.8 13.3h10.4';
const MANY = 6; // from here on they are searched
const PENCIL = 'M10.7 2.8l2.5 2.5-7.6 7.6-3.2.7.7-3.2zM9.2 4.3l2.5 2.5';

export class Conversations {
  #acts;
  #list = element('ul', { className: 'kept' });
  #none = element('p', { className: 'note none' });
  #all = element('button', { type: 'button', className: 'quiet', id: 'delete-all' });
  #close = element('button', { type: 'button', className: 'quiet' }, say('Close'));
  #search = element('input', { type: 'search', id: 'find-conversation', spellcheck: false, ariaLabel: say('Search the conversations'), placeholder: say('Search') });
  #told = element('p', { role: 'status' });
  #undo = element('button', { type: 'button', className: 'quiet', id: 'undo-delete' }, say('Undo'));
  #deleted = element('div', { className: 'deleted' }, this.#told, this.#undo);
  #file = element('input', { type: 'file', accept: '.json,application/json', className: 'hidden', id: 'load-file', tabIndex: -1, ariaHidden: 'true' });
  #load = element('button', { type: 'button', className: 'quiet', id: 'load' }, say('Open a file'));
  #sure = false;
  #renaming = false;
  #takeBack = () => {};

  /** @param {Acts} acts */
  constructor(acts) {
    this.#acts = acts;
    this.root = element('div', { className: 'conversations', id: 'history' },
      element('div', { className: 'drawer-head' }, element('h2', { id: 'history-title' }, say('Conversations')), this.#close),
      this.#search, this.#list, this.#none, this.#deleted,
      element('div', { className: 'drawer-foot' }, element('p', { className: 'note' }, say('They are kept in this browser, and nowhere else.')), this.#file, this.#load, this.#all));
    this.#close.addEventListener('click', () => acts.close());
    this.#search.addEventListener('input', () => this.draw());
    this.#load.addEventListener('click', () => this.#file.click());
    this.#file.addEventListener('change', async () => {
      const [file] = this.#file.files ?? [];
      this.#file.value = ''; // the same one can be chosen again
      this.#forgetDeleted();
      if (file) await acts.load(file).catch((error) => this.#tell(error.message));
    });
    this.#all.addEventListener('click', () => {
      if (!this.#sure) return this.#ask(true);
      const ids = acts.find('').entries.map(({ id }) => id);
      this.#remove(ids, ids.length === 1 ? say('Deleted one conversation.') : say('Deleted {count} conversations.', { count: ids.length }));
      this.#undo.focus();
    });
    this.#all.addEventListener('blur', () => this.#ask(false));
    this.#undo.addEventListener('click', () => {
      this.#takeBack();
      this.#forgetDeleted();
      this.draw();
      this.focus();
    });
    this.#forgetDeleted();
  }

  /** Begin with all of them. */
  begin() {
    this.#search.value = '';
    this.#forgetDeleted();
    this.draw();
  }

  /** Go to the first of them. */
  focus() {
    (this.#list.querySelector('button') ?? this.#close).focus();
  }

  draw() {
    if (this.#renaming) return; // what is being written stays; it is drawn after that
    const { activeElement: focused } = document;
    const [row, kind] = [focused?.closest('.kept li'), focused?.classList];
    const { entries, current } = this.#acts.find(this.#search.value);
    this.#list.replaceChildren(...entries.map((entry) => this.#row(entry, entry.id === current)));
    if (row instanceof HTMLElement && kind && this.#list.contains(document.getElementById(row.id))) {
      const again = [...document.querySelectorAll(`#${row.id} button`)].find(({ classList }) => classList.value === kind.value);
      if (again instanceof HTMLElement) again.focus();
    }
    const searched = this.#search.value.trim() !== '';
    this.#search.hidden = !searched && entries.length < MANY;
    this.#list.hidden = !entries.length;
    this.#all.hidden = searched || !entries.length;
    this.#none.hidden = entries.length > 0;
    this.#none.textContent = searched ? say('No conversation has all of these words.') : say('No conversations are kept yet.');
    this.#ask(false);
  }

  /** @param {boolean} sure whether the next press deletes */
  #ask(sure) {
    this.#sure = sure;
    this.#all.textContent = sure ? say('Really delete all?') : say('Delete all');
    this.#all.classList.toggle('sure', sure);
  }

  /** @param {string[]} ids @param {string} said */
  #remove(ids, said) {
    this.#takeBack = this.#acts.remove(ids);
    this.#tell(said, true);
    this.draw();
  }

  /** @param {string} said @param {boolean} [undo] whether it can be taken back */
  #tell(said, undo = false) {
    this.#deleted.hidden = false;
    this.#undo.hidden = !undo;
    this.#told.textContent = said;
  }

  #forgetDeleted() {
    this.#takeBack = () => {};
    this.#deleted.hidden = true;
    this.#told.textContent = '';
  }

  /** @param {Entry} entry @param {boolean} current */
  #row({ id, title, at }, current) {
    const name = title || say('Files without a word');
    const open = element('button', { type: 'button', className: 'reopen' },
      element('span', { className: 'title', dir: 'auto' }, name), element('time', { dateTime: new Date(at).toISOString() }, moment(new Date(at))));
    if (current) open.setAttribute('aria-current', 'true');
    open.addEventListener('click', () => {
      this.#forgetDeleted();
      this.#acts.open(id);
    });
    const rename = element('button', { type: 'button', className: 'quiet rename', title: say('Rename'), ariaLabel: say('Rename {title}', { title: name }) }, icon(PENCIL));
    const remove = element('button', { type: 'button', className: 'quiet delete', title: say('Delete'), ariaLabel: say('Delete {title}', { title: name }) }, element('span', { ariaHidden: 'true' }, '×'));
    const save = element('button', { type: 'button', className: 'quiet save', title: say('Save as a file'), ariaLabel: say('Save {title} as a file', { title: name }) }, icon(DOWN));
    const item = element('li', { id: `kept-${id}` }, open, element('span', { className: 'row-acts' }, rename, save, remove));
    save.addEventListener('click', () => this.#save(id, name, item));
    rename.addEventListener('click', () => this.#rename(id, title, item));
    remove.addEventListener('click', () => {
      const place = [...this.#list.children].indexOf(item);
      this.#remove([id], say('Deleted “{title}”.', { title: name }));
      const next = this.#list.children[Math.min(place, this.#list.children.length - 1)]?.querySelector('.delete') ?? this.#undo;
      if (next instanceof HTMLElement) next.focus();
    });
    return item;
  }

  /** Have somebody choose how a conversation is saved. @param {string} id @param {string} name @param {HTMLElement} item */
  #save(id, name, item) {
    let open = true;
    /** @param {boolean} back whether the focus goes back to where it was */
    const close = (back) => {
      if (!open) return;
      open = this.#renaming = false;
      this.draw();
      const button = back ? document.querySelector(`#kept-${id} .save`) : null;
      if (button instanceof HTMLElement) button.focus();
    };
    /** @param {'markdown'|'json'} format @param {string} label */
    const choice = (format, label) => element('button', { type: 'button', className: 'quiet', onclick: () => {
      this.#forgetDeleted();
      const saved = this.#acts.save(id, format);
      if (saved) this.#tell(say('Saved as {name}.', { name: saved }));
      close(true);
    } }, label);
    const group = element('div', { className: 'formats', role: 'group', ariaLabel: say('Save {title} as a file', { title: name }) },
      choice('markdown', 'Markdown'), choice('json', 'JSON'), element('button', { type: 'button', className: 'quiet', onclick: () => close(true) }, say('Cancel')));
    group.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault(); // it closes this, and stops nothing else
      close(true);
    });
    group.addEventListener('focusout', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && group.contains(relatedTarget)) && document.hasFocus()) close(false);
    });
    item.replaceChildren(group);
    this.#renaming = true;
    group.querySelector('button')?.focus();
  }

  /** Have a conversation's name written. @param {string} id @param {string} title @param {HTMLElement} item */
  #rename(id, title, item) {
    const field = element('input', { type: 'text', className: 'name', value: title, dir: 'auto', maxLength: 80, autocomplete: 'off', ariaLabel: say('Name of this conversation'), placeholder: say('Its first words') });
    let open = true;
    /** @param {boolean} take */
    const close = (take) => {
      if (!open) return;
      open = this.#renaming = false;
      if (take && field.value.trim() !== title) this.#acts.rename(id, field.value);
      const here = document.activeElement === field;
      this.draw();
      const button = here ? document.querySelector(`#kept-${id} .rename`) : null;
      if (button instanceof HTMLElement) button.focus();
    };
    field.addEventListener('keydown', (event) => {
      if (event.isComposing || event.keyCode === 229 || (event.key !== 'Enter' && event.key !== 'Escape')) return;
      event.preventDefault(); // Escape closes and stops nothing else
      close(event.key === 'Enter');
    });
    field.addEventListener('blur', () => close(true));
    item.replaceChildren(field);
    this.#renaming = true;
    field.focus();
    field.select();
  }
}
