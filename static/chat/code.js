/**
 * "Show code": a dialog with a request in the words of each client.
 */

import { copyText } from './clipboard.js';
import { element } from '../dom.js';
import { say } from './language.js';
import { makeCode } from './markdown.js';
import { SNIPPETS, shortened } from './snippets.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {keyof typeof SNIPPETS} Name */

const NAMES = /** @type {Name[]} */ (Object.keys(SNIPPETS));

/** The dialog; one for the page. It is made when it is first opened. */
export class CodeDialog {
  /** @type {Name} */
  #shown = 'curl';
  /** @type {Partial<Record<Name, string>>} */
  #written = {};
  #base;
  #needs = element('p', { className: 'note' });
  #copy = element('button', { type: 'button', className: 'primary', id: 'copy-code' }, say('Copy'));
  #panel;
  #tabs;
  #dialog;

  /** @param {string} base the relay's address, ending in `/` */
  constructor(base) {
    this.#base = base;
    this.#tabs = NAMES.map((name) => element('button', {
      type: 'button', role: 'tab', id: `code-${name}`, onclick: () => this.#show(name),
    }, SNIPPETS[name].name));
    this.#panel = element('div', { role: 'tabpanel', id: 'code-panel' });
    for (const tab of this.#tabs) tab.setAttribute('aria-controls', 'code-panel');
    const tabs = element('div', { className: 'tabs', role: 'tablist', ariaLabel: say('Client'), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#step(event) }, ...this.#tabs);
    const close = element('button', { type: 'button', className: 'quiet', onclick: () => this.#dialog.close() }, say('Close'));
    this.#dialog = element('dialog', { className: 'code', id: 'code' },
      element('div', { className: 'code-head' }, element('h2', { id: 'code-title' }, say('This request as code')), close),
      tabs, this.#panel, element('div', { className: 'code-foot' }, this.#needs,
        element('a', { href: `${base}docs`, target: '_blank', rel: 'opener' }, 'API'), this.#copy));
    this.#dialog.setAttribute('aria-labelledby', 'code-title');
    this.#dialog.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') event.stopPropagation(); // it closes this, and stops nothing else
    });
    this.#dialog.addEventListener('click', ({ target }) => {
      if (target === this.#dialog) this.#dialog.close(); // beside it: what is in it covers it
    });
    this.#copy.addEventListener('click', async () => {
      this.#copy.textContent = await copyText(this.#written[this.#shown] ?? '').then(() => say('Copied'), () => say('The browser did not allow copying'));
    });
    document.body.append(this.#dialog);
  }

  /**
   * Show a request.
   * @param {ChatRequest} request
   * @param {boolean} keyed whether the relay asks for a key, whose value is never shown
   */
  open(request, keyed) {
    const short = shortened(request);
    for (const name of NAMES) this.#written[name] = SNIPPETS[name].write(short, { base: this.#base, keyed });
    this.#show(this.#shown);
    this.#dialog.showModal();
    this.#tabs[NAMES.indexOf(this.#shown)].focus();
  }

  /** @param {Name} name */
  #show(name) {
    this.#shown = name;
    NAMES.forEach((one, at) => {
      this.#tabs[at].ariaSelected = String(one === name);
      this.#tabs[at].tabIndex = one === name ? 0 : -1;
    });
    this.#panel.setAttribute('aria-labelledby', `code-${name}`);
    this.#panel.scrollTop = 0;
    this.#panel.replaceChildren(makeCode(SNIPPETS[name].language, this.#written[name]));
    this.#needs.textContent = say(SNIPPETS[name].needs, { base: this.#base });
    this.#copy.textContent = say('Copy');
  }

  /** Go from tab to tab, as the pattern for tabs has it. @param {KeyboardEvent} event */
  #step(event) {
    const at = NAMES.indexOf(this.#shown);
    const last = NAMES.length - 1;
    /** @type {Record<string, number>} */
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last };
    if (!(event.key in to)) return;
    event.preventDefault();
    this.#show(NAMES[to[event.key]]);
    this.#tabs[to[event.key]].focus();
  }
}
