import { element } from './dom.js';
import { Inline } from './inline.js';

// What the start of a line may still become, as far as it has come.
const UNDECIDED = /^[ \t]*(#{0,6}|[-*+]|-{2,}|\*{2,}|_+|\d{1,9}[.)]?|> ?|`{0,2}|`{3,}[^`]{0,40}|\|[^\n]{0,4000})$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const ITEM = /^([ \t]*)([-*+]|(\d{1,9})[.)])[ \t]+/;
const QUOTE = /^ {0,3}> ?/;
const RULE = /^ {0,3}(-{3,}|\*{3,}|_{3,}) *$/;
const ROW = /^ {0,3}\|.*\|[ \t]*$/;
const DELIMITERS = /^[ |:-]+$/;
const MAY_CLOSE = /^ {0,3}`* *$/;
const OPENS = /^ {0,3}(`{3,})\s*([^`]*)$/;
const KANA = /[\u3040-\u30ff]/;
const DEEPEST = 10; // lists within lists

/** @typedef {{indent: number, list: HTMLElement, item: HTMLElement}} Level */

/**
 * The text of an answer as Markdown, growing piece by piece: paragraphs, headings, lists, quotes,
 * rules, tables, fenced code, and what `Inline` knows. All of it is made of nodes: no markup is parsed.
 *
 * Every piece is shown at once. Held back are only line ends, until it is known what follows
 * them, and the start of a line that so far may be several things. A single line end stays one.
 */
export class Prose {
  #root;
  /** @type {Inline|null} what text is added to; null between blocks */
  #inline = null;
  /** @type {HTMLElement|null} a quote that is open */
  #quote = null;
  /** @type {Level[]} the lists that are open, the outermost first */
  #lists = [];
  /** @type {{body: HTMLElement, rows: HTMLElement[][]}|null} a table that is open, by its cells */
  #table = null;
  /** @type {Text|null} of the code block we are in */
  #code = null;
  #held = '';
  #atLineStart = true;
  #lineEnds = 0;
  #fence = ''; // the backticks that opened the code block we are in
  #heading = false;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {string} text */
  append(text) {
    if (!this.#root.lang && KANA.test(text)) this.#root.lang = 'ja'; // for the Japanese forms of the characters
    let start = 0;
    for (;;) {
      const end = text.indexOf('\n', start);
      this.#piece(end < 0 ? text.slice(start) : text.slice(start, end));
      if (end < 0) return;
      this.#endLine();
      start = end + 1;
    }
  }

  /** Show what is still held back: no more text will come. */
  finish() {
    if (this.#held) this.#wholeLine(this.#held);
    this.#held = '';
    this.#endBlock();
  }

  /** @param {string} piece */
  #piece(piece) {
    if (!piece) return;
    if (!this.#atLineStart) return this.#write(piece);
    this.#held += piece;
    if ((this.#fence ? MAY_CLOSE : UNDECIDED).test(this.#held)) return;
    const line = this.#held;
    this.#held = '';
    this.#atLineStart = false;
    this.#write(this.#fence ? line : this.#begin(line));
  }

  #endLine() {
    // A line that is still held has come whole.
    const own = this.#held !== '' && this.#wholeLine(this.#held);
    if (!own) this.#lineEnds += 1;
    if (this.#lineEnds === 1 && !this.#atLineStart && this.#heading) this.#endBlock();
    this.#held = '';
    this.#atLineStart = true;
  }

  /**
   * Show a line that was held to its end.
   * @param {string} line
   * @returns {boolean} whether its line end was part of it
   */
  #wholeLine(line) {
    if (this.#turn(line)) return true;
    if (this.#fence) {
      this.#write(line);
      return false;
    }
    if (RULE.test(line)) {
      this.#endBlock();
      this.#root.append(element('hr'));
      return true;
    }
    if (ROW.test(line)) {
      this.#row(line);
      return true;
    }
    if (line.trim()) this.#write(this.#begin(line));
    return false;
  }

  /**
   * Open or close a code block if the line is a fence.
   * @param {string} line
   */
  #turn(line) {
    if (this.#fence) {
      if (!line.includes(this.#fence)) return false;
      this.#fence = '';
      this.#code = null;
    } else {
      const opened = OPENS.exec(line);
      if (!opened) return false;
      const place = this.#place(line); // it may stand in an item of a list
      this.#fence = opened[1];
      this.#code = document.createTextNode('');
      const language = opened[2].trim();
      const block = element('pre', { tabIndex: 0, role: 'group', ariaLabel: `Code ${language}`.trim(), data: { language } },
        element('code', {}, this.#code));
      block.lang = 'en';
      block.dir = 'ltr';
      place.append(block);
    }
    this.#lineEnds = 0;
    return true;
  }

  /**
   * Open the block that the start of a line says, if it says one.
   * @param {string} line
   * @returns {string} what is left of the line
   */
  #begin(line) {
    let match;
    if ((match = HEADING.exec(line))) {
      this.#endBlock();
      this.#start(this.#root, /** @type {'h4'} */ (`h${Math.min(6, 3 + match[1].length)}`));
      this.#heading = true;
    } else if ((match = ITEM.exec(line))) {
      this.#item(match[1].replaceAll('\t', '    ').length, match[3] ?? null);
    } else if ((match = QUOTE.exec(line))) {
      const goesOn = this.#quote !== null && this.#lineEnds < 2;
      if (!goesOn) {
        this.#endBlock();
        this.#quote = element('blockquote');
        this.#root.append(this.#quote);
        this.#start(this.#quote, 'p');
      } else if (!line.slice(match[0].length).trim()) {
        this.#endInline();
        this.#lineEnds = 0;
      } else if (!this.#inline) {
        this.#start(/** @type {HTMLElement} */ (this.#quote), 'p');
      }
    } else {
      const goesOn = this.#inline !== null && this.#lineEnds < 2;
      const place = this.#place(line);
      if (!goesOn || !this.#inline) this.#start(place, 'p');
      return this.#lists.length ? line.trimStart() : line;
    }
    return line.slice(match[0].length);
  }

  /** Where a block belongs that is no item: in the last item if it is indented, or follows it at once. @param {string} line */
  #place(line) {
    const top = this.#lists.at(-1);
    if (top && (/^[ \t]{2}/.test(line) || (this.#lineEnds < 2 && this.#inline && !OPENS.test(line)))) {
      if (this.#lineEnds > 1 || OPENS.test(line)) this.#endInline();
      return top.item;
    }
    if (this.#lists.length || this.#quote || this.#table || this.#lineEnds > 1 || OPENS.test(line)) this.#endBlock();
    return this.#root;
  }

  /** @param {number} indent @param {string|null} number */
  #item(indent, number) {
    const tag = number === null ? 'ul' : 'ol';
    this.#endInline();
    if (this.#quote || this.#table) this.#endBlock();
    while (this.#lists.length && (this.#lists.at(-1)?.indent ?? 0) > indent) this.#lists.pop();
    let top = this.#lists.at(-1);
    const inner = top && indent >= top.indent + 2 && this.#lists.length < DEEPEST;
    if (!top || inner || top.list.localName !== tag) {
      if (top && !inner) this.#lists.pop();
      const list = element(tag);
      if (number !== null && number !== '1') /** @type {HTMLOListElement} */ (list).start = Number(number);
      (this.#lists.at(-1)?.item ?? this.#root).append(list);
      top = { indent, list, item: list };
      this.#lists.push(top);
    }
    top.item = element('li', { dir: 'auto' });
    top.list.append(top.item);
    this.#inline = new Inline(top.item);
    this.#lineEnds = 0;
  }

  /** @param {string} line */
  #row(line) {
    if (this.#lineEnds > 1) this.#endBlock();
    if (!this.#table) {
      this.#endBlock();
      this.#table = { body: element('tbody'), rows: [] };
      this.#root.append(element('div', { className: 'table', tabIndex: 0, role: 'group', ariaLabel: 'Table' },
        element('table', {}, this.#table.body)));
    }
    this.#lineEnds = 0;
    const { body, rows } = this.#table;
    if (rows.length === 1 && DELIMITERS.test(line)) {
      for (const cell of rows[0]) cell.replaceWith(element('th', { scope: 'col', dir: 'auto' }, ...cell.childNodes));
      return;
    }
    const cells = line.trim().slice(1, -1).split(/(?<!\\)\|/).map((text) => {
      const cell = element('td', { dir: 'auto' });
      const inline = new Inline(cell);
      inline.append(text.trim().replaceAll('\\|', '|'));
      inline.finish();
      return cell;
    });
    rows.push(cells);
    body.append(element('tr', {}, ...cells));
  }

  /**
   * @param {HTMLElement} place
   * @param {'p'|'h4'} tag
   */
  #start(place, tag) {
    this.#endInline();
    const block = element(tag, { dir: 'auto' });
    place.append(block);
    this.#inline = new Inline(block);
    this.#lineEnds = 0;
  }

  #endInline() {
    this.#inline?.finish();
    this.#inline = null;
    this.#heading = false;
  }

  #endBlock() {
    this.#endInline();
    this.#lists = [];
    this.#quote = null;
    this.#table = null;
    this.#lineEnds = 0;
  }

  /** @param {string} text */
  #write(text) {
    if (!text) return;
    if (this.#code) {
      // A first line that is empty counts: nothing was written before it.
      this.#code.appendData('\n'.repeat(this.#code.length ? this.#lineEnds : 0) + text);
    } else {
      if (!this.#inline) this.#start(this.#root, 'p');
      this.#inline?.append('\n'.repeat(this.#lineEnds) + text);
    }
    this.#lineEnds = 0;
  }
}
