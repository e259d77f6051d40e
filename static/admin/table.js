/**
 * A table that keeps its rows by a key: an update writes the cells whose text has changed.
 *
 * Rows are grids, not `tr`: rows out of sight are not laid out. Sorted rows stay in place while the
 * pointer or the focus is in them, so that nobody presses the button of another row.
 *
 * A column has a `title`, a `width` in em, the text `of(row)`, and may have the sort key `by(row)`,
 * `number`, and `paint(cell, text, row)`.
 */

import { element } from '../dom.js';

/** Set a text that differs. */
export function put(box, words) {
  if (box.textContent !== words) box.textContent = words;
}

export class Table {
  #rows = new Map();
  #sorted = null; // null: in the given order
  #sign = 1;
  #all = [];
  #wanted = '';
  #body = element('div', { role: 'rowgroup', className: 'body' });
  #empty;

  /** `act(action, row)`: `data-do` of a button, or "open" for a click elsewhere in a row. */
  constructor({ label, empty, columns, key, act }) {
    Object.assign(this, { columns, key });
    const heads = element('div', { role: 'row', className: 'row heads' }, ...columns.map((column) => this.#head(column)));
    const table = element('div', { role: 'table', className: 'table' }, element('div', { role: 'rowgroup' }, heads), this.#body);
    table.style.setProperty('--columns', columns.map(({ width }) => `minmax(${width}em, ${width}fr)`).join(' '));
    table.style.setProperty('--width', `${columns.reduce((all, { width }) => all + width + 0.8, 1.7)}em`);
    this.#empty = element('p', { className: 'empty' }, empty);
    this.region = element('div', { className: 'region', role: 'group', ariaLabel: label, tabIndex: 0 }, table);
    this.elements = [this.region, this.#empty];
    this.#body.addEventListener('click', ({ target }) => {
      const pressed = target.closest('button, a');
      if (pressed?.href || !getSelection().isCollapsed) return;
      const { row } = this.#rows.get(target.closest('.row')?.dataset.key) ?? {};
      if (row) act(pressed?.dataset.do ?? 'open', row);
    });
  }

  #head(column) {
    const head = element('div', { role: 'columnheader', className: column.number ? 'number' : '' });
    const sort = () => {
      this.#sign = this.#sorted === column ? -this.#sign : column.number ? -1 : 1;
      this.#sorted = column;
      for (const other of head.parentElement.children) other.ariaSort = null;
      head.ariaSort = this.#sign < 0 ? 'descending' : 'ascending';
      this.#place(this.#inOrder());
    };
    head.append(column.by ? element('button', { type: 'button', onclick: sort }, column.title) : column.title);
    return head;
  }

  /** Show only rows with these words in a cell. */
  filter(words) {
    this.#wanted = words.trim().toLowerCase();
    this.update(this.#all);
  }

  update(all) {
    this.#all = all;
    const rows = this.#wanted ? all.filter((row) => this.columns.some(({ of }) => of(row).toLowerCase().includes(this.#wanted))) : all;
    const old = new Map(this.#rows);
    this.#rows.clear();
    for (const row of rows) {
      const key = this.key(row);
      const known = old.get(key) ?? this.#make(key);
      old.delete(key);
      this.#rows.set(key, known);
      known.row = row;
      for (const cell of known.cells) this.#write(cell, row);
    }
    for (const { element: gone } of old.values()) {
      if (gone.contains(document.activeElement)) this.region.focus({ preventScroll: true });
      gone.remove();
    }
    const held = this.#sorted && this.#body.matches(':hover, :focus-within');
    if (!held) this.#place(this.#inOrder());
    else for (const { element: one } of this.#rows.values()) if (!one.isConnected) this.#body.append(one);
    this.#empty.hidden = rows.length > 0;
    this.region.hidden = !rows.length;
  }

  #make(key) {
    const cells = this.columns.map((column) => ({ column, words: null, cell: element('div', { role: 'cell', className: column.number ? 'number' : '', data: { title: column.title } }) }));
    return { cells, element: element('div', { role: 'row', className: 'row', data: { key } }, ...cells.map(({ cell }) => cell)) };
  }

  #write(one, row) {
    const { column: { of, paint }, cell, words } = one;
    const now = of(row);
    if (now === words) return;
    one.words = now;
    if (paint) paint(cell, now, row);
    else cell.textContent = now;
    if (now.length > 14) cell.title = now;
  }

  #inOrder() {
    const all = [...this.#rows.values()];
    if (!this.#sorted) return all;
    const { by } = this.#sorted;
    const values = new Map(all.map((one) => [one, by(one.row) ?? -1]));
    const compare = (a, b) => (typeof a === 'string' ? a.localeCompare(b) : a - b);
    return all.sort((a, b) => this.#sign * compare(values.get(a), values.get(b)));
  }

  #place(order) {
    let next = this.#body.firstElementChild;
    for (const { element: wanted } of order) {
      if (wanted === next) next = next.nextElementSibling;
      else this.#body.insertBefore(wanted, next);
    }
  }
}
