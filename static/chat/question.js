/**
 * A question in the log: its words and files, the versions of it, and a form to edit it.
 */

import { element } from '../dom.js';
import { fileList } from './attachments.js';
import { sendsOnEnter } from './composer.js';
import { say } from './language.js';

/** @typedef {import('./files.js').Attached} Attached */

/**
 * What can be done with a question.
 * @typedef {object} Acts
 * @property {(text: string) => boolean} edit ask this in place of it; false where it cannot be asked now
 * @property {(by: -1|1) => void} step show another version
 */

export class Question {
  #text;
  #shown;
  #acts;
  #count = element('span', { className: 'count' });
  #back = element('button', { type: 'button', className: 'quiet step', ariaLabel: say('Earlier version') }, '‹');
  #on = element('button', { type: 'button', className: 'quiet step', ariaLabel: say('Later version') }, '›');
  #versions = element('span', { className: 'versions', role: 'group', ariaLabel: say('Versions of this question and its answer'), hidden: true }, this.#back, this.#count, this.#on);
  #edit = element('button', { type: 'button', className: 'quiet edit' }, say('Edit'));
  #row = element('div', { className: 'question-row' }, this.#versions, this.#edit);

  /**
   * @param {object} asked
   * @param {string} asked.text
   * @param {readonly Attached[]} asked.files
   * @param {string} [asked.elsewhere] what to say of one that was not asked in this conversation
   * @param {Acts} acts
   */
  constructor({ text, files, elsewhere }, acts) {
    this.#text = text;
    this.#acts = acts;
    this.#shown = elsewhere ? element('p', { className: 'elsewhere' }, elsewhere) : element('p', { dir: 'auto' }, text);
    this.article = element('article', { className: 'message user' }, element('h3', { className: 'hidden' }, say('You')),
      ...(files.length ? [fileList(files)] : []), this.#shown, ...(elsewhere ? [] : [this.#row]));
    this.#edit.addEventListener('click', () => this.edit());
    this.#back.addEventListener('click', () => acts.step(-1));
    this.#on.addEventListener('click', () => acts.step(1));
  }

  /** @param {number} at from 0 @param {number} count */
  tellVersions(at, count) {
    this.#versions.hidden = count < 2;
    this.#count.textContent = `${at + 1}/${count}`;
    this.#back.disabled = at === 0;
    this.#on.disabled = at === count - 1;
  }

  /** Go to the button by which somebody came here. @param {-1|1} by */
  focusStep(by) {
    const [wanted, other] = by < 0 ? [this.#back, this.#on] : [this.#on, this.#back];
    (wanted.disabled ? other : wanted).focus({ preventScroll: true });
  }

  /** Open the form. */
  edit() {
    const field = element('textarea', { value: this.#text, dir: 'auto', rows: 1, ariaLabel: say('Your question') });
    const form = element('form', { className: 'editing' }, field, element('div', { className: 'controls' },
      element('button', { type: 'button', className: 'quiet cancel', onclick: () => close() }, say('Cancel')),
      element('button', { type: 'submit', className: 'primary' }, say('Ask again'))));
    const fit = () => {
      field.style.height = 'auto';
      field.style.height = `${field.scrollHeight}px`;
    };
    const close = () => {
      form.replaceWith(this.#shown, this.#row);
      this.#edit.focus();
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (text && this.#acts.edit(text)) form.replaceWith(this.#shown, this.#row);
    });
    field.addEventListener('input', fit);
    sendsOnEnter(field, () => form.requestSubmit());
    form.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing) return;
      event.preventDefault(); // it stops nothing
      close();
    });
    this.#row.remove();
    this.#shown.replaceWith(form);
    fit();
    field.focus();
  }
}
