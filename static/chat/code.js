/**
 * "Show code": a dialog with a request as code, in a tab for each client.
 */

import { element } from '../dom.js';
import { copy, makeCode } from './clipboard.js';
import { say } from './language.js';
import { SNIPPETS } from './snippets.js';

/** @typedef {keyof typeof SNIPPETS} Name */

const NAMES = /** @type {Name[]} */ (Object.keys(SNIPPETS));

/** The page's one dialog for code. */
export class CodeDialog {
  /** @type {Name} */
  #shown = 'curl';
  /** @type {Partial<Record<Name, string>>} */
  #written = {};
  #copy = element('button', { type: 'button', className: 'primary', id: 'copy-code' }, say('Copy'));
  #panel = element('div', { role: 'tabpanel', id: 'code-panel' });
  #tabs;
  #dialog;

  constructor() {
    this.#tabs = NAMES.map((name) => element('button', { type: 'button', role: 'tab', id: `code-${name}`, onclick: () => this.#show(name) }, SNIPPETS[name].name));
    for (const tab of this.#tabs) tab.setAttribute('aria-controls', 'code-panel');
    this.#copy.onclick = async () => { this.#copy.textContent = await copy(this.#written[this.#shown] ?? ''); };
    const close = element('button', { type: 'button', className: 'quiet', onclick: () => this.#dialog.close() }, say('Close'));
    this.#dialog = element('dialog', { className: 'code', id: 'code' },
      element('div', { className: 'code-head' }, element('h2', { id: 'code-title' }, say('This request as code')), close),
      element('div', { className: 'tabs', role: 'tablist', ariaLabel: say('Client'), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#step(event) }, ...this.#tabs),
      this.#panel, element('div', { className: 'code-foot' }, this.#copy));
    this.#dialog.setAttribute('aria-labelledby', 'code-title');
    this.#dialog.addEventListener('click', ({ target }) => {
      if (target === this.#dialog) this.#dialog.close(); // the backdrop: the content covers the dialog itself
    });
    document.body.append(this.#dialog);
  }

  /**
   * @param {import('../seseragi.js').ChatRequest} request
   * @param {import('./snippets.js').Where} where
   * @param {string} transport the tab that is shown first
   */
  open(request, where, transport) {
    for (const name of NAMES) this.#written[name] = SNIPPETS[name].write(request, where);
    this.#show(NAMES.find((name) => name === transport) ?? this.#shown);
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
    this.#copy.textContent = say('Copy');
  }

  /** Move between tabs, as the ARIA pattern for tabs has it. @param {KeyboardEvent} event */
  #step(event) {
    const at = NAMES.indexOf(this.#shown);
    /** @type {Record<string, number>} */
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + NAMES.length, Home: 0, End: NAMES.length - 1 };
    if (!(event.key in to)) return;
    event.preventDefault();
    const next = to[event.key] % NAMES.length;
    this.#show(NAMES[next]);
    this.#tabs[next].focus();
  }
}
