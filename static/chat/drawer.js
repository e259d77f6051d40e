/**
 * Where the list of conversations stands: beside the talk where there is room, and stays there until
 * it is closed; else over it.
 */

import { byId, element } from '../dom.js';
import { Conversations } from './conversations.js';
import { lastingStorage } from './history.js';

const KEY = 'seseragi.history'; // `open` or `closed`, once somebody has chosen
const wide = matchMedia('(min-width: 85rem) and (min-height: 28.01rem)');

export class Drawer {
  #acts;
  #list;
  #button = byId('open-history', HTMLButtonElement);
  #dock = byId('dock', HTMLElement);
  #dialog = element('dialog', { className: 'drawer' });
  #offered = false;

  /** @param {Omit<import('./conversations.js').Acts, 'close'>} acts */
  constructor(acts) {
    this.#acts = acts;
    this.#list = new Conversations({ ...acts, open: (id) => {
      this.#dialog.close();
      acts.open(id);
    }, load: async (file) => {
      await acts.load(file);
      this.#dialog.close();
    }, close: () => this.#toggle() });
    this.#dialog.setAttribute('aria-labelledby', 'history-title');
    this.#dialog.append(this.#list.root);
    this.#dialog.addEventListener('click', ({ target }) => {
      if (target === this.#dialog) this.#dialog.close(); // beside it: what is in it covers it
    });
    document.body.append(this.#dialog);
    this.#button.addEventListener('click', () => this.#toggle());
    wide.addEventListener('change', () => {
      this.#dialog.close();
      if (this.#offered) this.restore();
    });
  }

  /** Let it stand beside the talk, if it did so before, or was never closed and there is something in it. */
  restore() {
    this.#offered = true;
    const chosen = lastingStorage()?.getItem(KEY);
    this.#place(wide.matches && (chosen === 'open' || (chosen !== 'closed' && this.#acts.find('').entries.length > 0)));
  }

  /** Close it, for whoever comes next. */
  close() {
    this.#offered = false;
    this.#dialog.close();
    this.#place(false);
  }

  /** Draw it again where it is open: something has changed, here or in another tab. */
  refresh() {
    if (this.#dialog.open || !this.#dock.hidden) this.#list.draw();
  }

  #toggle() {
    if (this.#dialog.open) return this.#dialog.close();
    const docks = Boolean(this.#dock.hidden);
    this.#list.begin();
    if (!wide.matches) {
      this.#dialog.showModal();
    } else {
      this.#place(docks);
      try {
        lastingStorage()?.setItem(KEY, docks ? 'open' : 'closed');
      } catch {
        // Full: it is as it was when the page is opened again.
      }
      if (!docks) return this.#button.focus();
    }
    this.#list.focus();
  }

  /** @param {boolean} docked */
  #place(docked) {
    const place = docked ? this.#dock : this.#dialog;
    if (this.#list.root.parentElement !== place) place.append(this.#list.root);
    this.#dock.hidden = !docked;
    this.#button.ariaExpanded = wide.matches ? String(docked) : null;
    if (docked) this.#list.draw();
  }
}
