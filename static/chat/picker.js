/**
 * The model picker: a button that names the model, and a panel in which models are searched.
 *
 * The value has its home in a `<select>`, which this stands in for: whatever sets that sets this.
 * Search and list follow the pattern of a combobox with a listbox: the focus stays in the field, and
 * `aria-activedescendant` names the row. However many models there are, the document has some of them.
 */

import { byId, element } from '../dom.js';
import { say } from './language.js';
import { readModels, search } from './models.js';

/** @typedef {import('./models.js').Model} Model */

const SHOWN = 60; // rows in the document
const STEP = 20; // by which they move
const NEAR = 200; // pixels from the end at which they do
const PAGE = 8; // rows of PageUp and PageDown

export class ModelPicker {
  /** @type {Model[]} */
  #models = [];
  /** @type {Model[]} */
  #found = [];
  #from = 0; // of the found ones that are in the document
  #active = 0; // of the found ones
  #select = byId('model', HTMLSelectElement);
  #name = element('span', { className: 'picked' });
  #button = element('button', { type: 'button', id: 'pick-model', ariaHasPopup: 'dialog', ariaExpanded: 'false' }, this.#name);
  #field = element('input', {
    type: 'text', id: 'model-search', role: 'combobox', autocomplete: 'off', spellcheck: false, ariaExpanded: 'true', ariaAutoComplete: 'list',
    ariaLabel: say('Search the models'), placeholder: say('Search: a name, tools, image, 128K'),
  });
  #rows = element('div', { role: 'listbox', id: 'models', ariaLabel: say('Models'), tabIndex: -1 });
  #note = element('p', { className: 'note', role: 'status' });
  #panel = element('div', { className: 'picker', id: 'picker', popover: 'auto', role: 'dialog', ariaLabel: say('Choose a model') }, this.#field, this.#rows, this.#note);

  constructor() {
    const label = this.#select.labels[0];
    this.#field.setAttribute('aria-controls', 'models');
    this.#button.setAttribute('aria-controls', 'picker');
    this.#button.popoverTargetElement = this.#panel;
    // The select keeps the value, and is there for no one else.
    this.#select.classList.add('hidden');
    this.#select.tabIndex = -1;
    this.#select.ariaHidden = 'true';
    if (label) {
      label.htmlFor = this.#button.id;
      label.id ||= 'model-label';
      this.#name.id = 'picked-model';
      this.#button.setAttribute('aria-labelledby', `${label.id} ${this.#name.id}`);
    }
    this.#select.after(this.#button);
    document.body.append(this.#panel);
    this.#panel.addEventListener('beforetoggle', (event) => {
      if (/** @type {ToggleEvent} */ (event).newState === 'open') this.#open();
    });
    this.#panel.addEventListener('toggle', (event) => {
      const open = /** @type {ToggleEvent} */ (event).newState === 'open';
      this.#button.ariaExpanded = String(open);
      // Where there is no keyboard, one would come up and cover the list.
      if (open) (matchMedia('(pointer: coarse)').matches ? this.#rows : this.#field).focus();
    });
    this.#panel.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') event.stopPropagation(); // it closes this, and stops nothing else
    });
    this.#field.addEventListener('input', () => this.#look());
    this.#field.addEventListener('keydown', (event) => this.#key(event));
    this.#rows.addEventListener('scroll', () => this.#scrolled());
    this.#rows.addEventListener('click', ({ target }) => {
      const row = target instanceof Element ? target.closest('[role=option]') : null;
      if (row instanceof HTMLElement) this.#choose(Number(row.dataset.at));
    });
    // Scripts set the value of a select without any event.
    const { get, set } = /** @type {Required<PropertyDescriptor>} */ (Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value'));
    const select = this.#select;
    Object.defineProperty(select, 'value', {
      get: () => get.call(select),
      set: (value) => {
        set.call(select, value);
        this.#tell();
      },
    });
    select.addEventListener('change', () => this.#tell());
    addEventListener('resize', () => this.#place());
    this.#tell();
  }

  /** What is known of the model that is chosen. */
  get model() {
    return this.#models.find(({ id }) => id === this.#select.value);
  }

  /** Offer these models. @param {import('./models.js').Row[]} rows of `GET /v1/models` */
  offer(rows) {
    this.#models = readModels(rows);
    this.#tell();
  }

  /** Say which one is chosen. */
  #tell() {
    const id = this.#select.selectedOptions[0]?.textContent || say('default');
    const end = id.lastIndexOf('/') + 1;
    this.#name.replaceChildren(element('span', { className: 'whose' }, id.slice(0, end)), element('span', {}, id.slice(end)));
    this.#button.title = [id, ...(this.model?.facts ?? [])].join(', ');
  }

  #open() {
    this.#field.value = '';
    this.#look(Math.max(0, this.#models.findIndex(({ id }) => id === this.#select.value)));
    this.#place();
  }

  /** Stand over the button, where there is room for that; else the style sheet says where. */
  #place() {
    const { left, top } = this.#button.getBoundingClientRect();
    this.#panel.style.setProperty('--left', `${left}px`);
    this.#panel.style.setProperty('--bottom', `${innerHeight - top + 8}px`);
    this.#panel.style.setProperty('--room', `${top - 16}px`);
  }

  #look(active = 0) {
    this.#found = search(this.#models, this.#field.value);
    const all = this.#models.length;
    const found = this.#found.length;
    this.#note.textContent = found === 0 ? say('No model has all of these words')
      : found === all ? say('{all} models', { all }) : say('{found} of {all} models', { found, all });
    this.#from = -1;
    this.#goTo(Math.min(active, found - 1));
  }

  /** Draw the rows from one of the found ones on. @param {number} from */
  #draw(from) {
    from = Math.max(0, Math.min(from, this.#found.length - SHOWN));
    if (from === this.#from) return;
    this.#from = from;
    /** @type {HTMLElement[]} */
    const groups = [];
    let last = '';
    this.#found.slice(from, from + SHOWN).forEach((model, nth) => {
      if (!groups.length || model.group !== last) {
        const title = element('div', { className: 'group', role: 'presentation' }, model.group || say('Models'));
        groups.push(element('div', { role: 'group', ariaLabel: model.group || say('Models') }, title));
      }
      last = model.group;
      groups.at(-1)?.append(this.#row(model, from + nth));
    });
    this.#rows.replaceChildren(...groups);
  }

  /** @param {Model} model @param {number} at */
  #row({ id, name, facts }, at) {
    const row = element('div', { role: 'option', id: `model-${at}`, data: { at: String(at) }, ariaSelected: String(id === this.#select.value), ariaPosInSet: String(at + 1), ariaSetSize: String(this.#found.length) },
      element('span', { className: 'id' }, id), ...(name ? [element('span', { className: 'called' }, name)] : []));
    if (facts.length) row.append(element('span', { className: 'facts' }, ...facts.flatMap((fact) => [element('span', {}, fact), ' '])));
    return row;
  }

  /** Make a row the active one. @param {number} at */
  #goTo(at) {
    this.#rows.querySelector('.active')?.classList.remove('active');
    this.#active = at;
    if (at < 0) {
      this.#draw(0);
      this.#field.removeAttribute('aria-activedescendant');
      return;
    }
    if (this.#from < 0 || at < this.#from || at >= this.#from + SHOWN) this.#draw(at - SHOWN / 2);
    const row = byId(`model-${at}`, HTMLElement);
    row.classList.add('active');
    row.scrollIntoView({ block: 'nearest' });
    this.#field.setAttribute('aria-activedescendant', row.id);
  }

  /** Have other rows in the document when the end of these comes near. */
  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#rows;
    const down = scrollHeight - scrollTop - clientHeight < NEAR;
    if (!down && scrollTop >= NEAR) return;
    const [first, last] = [this.#from, Math.min(this.#from + SHOWN, this.#found.length) - 1];
    if (last < 0 || (down ? last === this.#found.length - 1 : first === 0)) return;
    // A row that is there before and after keeps its place.
    const kept = down ? last : first;
    const before = byId(`model-${kept}`, HTMLElement).offsetTop;
    this.#draw(first + (down ? STEP : -STEP));
    this.#rows.scrollTop = scrollTop + byId(`model-${kept}`, HTMLElement).offsetTop - before;
    const active = document.getElementById(`model-${this.#active}`);
    active?.classList.add('active');
    if (!active) this.#field.removeAttribute('aria-activedescendant');
  }

  /** @param {number} at */
  #choose(at) {
    const model = this.#found[at];
    if (!model) return;
    this.#select.value = model.id;
    this.#select.dispatchEvent(new Event('change', { bubbles: true }));
    this.#panel.hidePopover();
    this.#button.focus();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing) return;
    const last = this.#found.length - 1;
    const at = this.#active;
    /** @type {Record<string, number>} */
    const to = {
      ArrowDown: at >= last ? 0 : at + 1, ArrowUp: at <= 0 ? last : at - 1,
      PageDown: Math.min(last, at + PAGE), PageUp: Math.max(0, at - PAGE),
    };
    if (event.key in to) {
      event.preventDefault();
      this.#goTo(to[event.key]);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      this.#choose(at);
    } else if (event.key === 'Tab') {
      this.#panel.hidePopover();
    }
  }
}
