import { element } from '../dom.js';
import { Code } from './fenced.js';
import { Inline } from './inline.js';
import { say } from './language.js';

// What the start of a line may still become, as far as it has come.
const UNDECIDED = /^[ \t]*(#{0,6}|[-*+]|-{2,}|\*{2,}|_+|\d{1,9}[.)]?|([-*+]|\d{1,9}[.)])[ \t]+(\[([ xX]\]?)?)?|> ?|`{0,2}|`{3,}[^`]{0,40}|\|[^\n]{0,4000})$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+/;
const ITEM = /^([ \t]*)([-*+]|(\d{1,9})[.)])[ \t]+/;
const TASK = /^\[([ xX])\](?:[ \t]+|$)/;
const QUOTE = /^ {0,3}> ?/;
const QUOTE_IN_ITEM = /^[ \t]+> ?/;
const RULE = /^ {0,3}(-{3,}|\*{3,}|_{3,}) *$/;
const ROW = /^ {0,3}\|.*\|[ \t]*$/;
const DELIMITERS = /^[ |:-]+$/;
const MAY_CLOSE = /^[ \t]{0,40}`* *$/;
const OPENS = /^([ \t]{0,40})(`{3,})\s*([^`]*)$/;
const KANA = /[\u3040-\u30ff]/;
const DEEPEST = 10; // lists within lists, quotes within quotes

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
  /** @type {Prose|null} what is in a quote that is open */
  #quote = null;
  /** @type {Level[]} the lists that are open, the outermost first */
  #lists = [];
  /** @type {{body: HTMLElement, rows: HTMLElement[][], aligned: string[]}|null} a table that is open, by its cells */
  #table = null;
  /** @type {Code|null} the code block we are in */
  #code = null;
  #held = '';
  #atLineStart = true;
  #lineEnds = 0;
  #fence = ''; // the backticks that opened the code block we are in
  #fenceIndent = 0;
  #heading = false;
  #quoting = false; // whether the line we are in is the quote's
  #depth;

  /** @param {HTMLElement} root @param {number} [depth] how many quotes this is in */
  constructor(root, depth = 0) {
    this.#root = root;
    this.#depth = depth;
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
    this.#code?.finish();
    this.#endBlock();
  }

  /** @param {string} piece */
  #piece(piece) {
    if (!piece) return;
    if (this.#atLineStart && this.#lineEnds < 2 && this.#inline?.inFormula) this.#atLineStart = false; // a line of a formula begins no block
    if (!this.#atLineStart) return this.#write(piece);
    this.#held += piece;
    if ((this.#fence ? MAY_CLOSE : UNDECIDED).test(this.#held)) return;
    const line = this.#held;
    this.#held = '';
    this.#atLineStart = false;
    this.#write(this.#fence ? this.#unindented(line) : this.#begin(line));
  }

  #endLine() {
    // A line that is still held has come whole.
    const own = this.#held !== '' && this.#wholeLine(this.#held);
    if (!own) this.#lineEnds += 1;
    if (this.#quoting) this.#quote?.append('\n');
    this.#quoting = false;
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
      this.#write(this.#unindented(line));
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
      this.#code?.finish();
      this.#code = null;
    } else {
      const opened = OPENS.exec(line);
      if (!opened) return false;
      const place = this.#place(line); // it may stand in an item of a list
      this.#fenceIndent = opened[1].length;
      this.#fence = opened[2];
      this.#code = new Code(opened[3].trim());
      place.append(this.#code.block);
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
      this.#item(indentOf(line), match[3] ?? null);
      return this.#task(line.slice(match[0].length));
    } else if (this.#depth < DEEPEST && (match = QUOTE.exec(line) ?? (this.#lists.length ? QUOTE_IN_ITEM.exec(line) : null))) {
      if (!this.#quote || this.#lineEnds > 1) {
        const place = this.#place(line);
        this.#endInline();
        const quote = element('blockquote');
        place.append(quote);
        this.#quote = new Prose(quote, this.#depth + 1);
      }
      this.#quoting = true;
      this.#lineEnds = 0;
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
    const goesOn = this.#lineEnds < 2 && this.#inline && !OPENS.test(line) && !QUOTE.test(line);
    const indent = indentOf(line);
    if (!goesOn && indent >= 2) {
      // It belongs to the innermost item whose mark it stands behind.
      while ((this.#lists.at(-1)?.indent ?? -1) >= indent) this.#lists.pop();
    }
    const top = this.#lists.at(-1);
    if (top && (indent >= 2 || goesOn)) {
      this.#endQuote();
      if (!goesOn) this.#endInline();
      return top.item;
    }
    if (this.#lists.length || this.#quote || this.#table || this.#lineEnds > 1 || OPENS.test(line)) this.#endBlock();
    return this.#root;
  }

  /** @param {number} indent @param {string|null} number */
  #item(indent, number) {
    const tag = number === null ? 'ul' : 'ol';
    this.#endInline();
    if (this.#table) this.#endBlock();
    this.#endQuote();
    while (this.#lists.length && (this.#lists.at(-1)?.indent ?? 0) > indent) this.#lists.pop();
    let top = this.#lists.at(-1);
    const inner = top && indent >= top.indent + 2 && this.#lists.length < DEEPEST;
    if (!top || inner || top.list.localName !== tag) {
      if (top && !inner) this.#lists.pop();
      const list = element(tag, { dir: 'auto' });
      if (number !== null && number !== '1') /** @type {HTMLOListElement} */ (list).start = Number(number);
      (this.#lists.at(-1)?.item ?? this.#root).append(list);
      top = { indent, list, item: list };
      this.#lists.push(top);
    }
    top.item = element('li');
    top.list.append(top.item);
    this.#inline = new Inline(top.item);
    this.#lineEnds = 0;
  }

  /** Show the box that an item of a list of tasks begins with. @param {string} text @returns {string} what is left of it */
  #task(text) {
    const task = TASK.exec(text);
    const item = this.#lists.at(-1)?.item;
    if (!task || !item) return text;
    const done = task[1] !== ' ';
    item.className = 'task';
    item.append(element('input', { type: 'checkbox', disabled: true, checked: done, ariaLabel: done ? say('done') : say('to do') }));
    return text.slice(task[0].length);
  }

  /** @param {string} line */
  #row(line) {
    if (this.#lineEnds > 1) this.#endBlock();
    if (!this.#table) {
      this.#endBlock();
      this.#table = { body: element('tbody'), rows: [], aligned: [] };
      this.#root.append(element('div', { className: 'table', tabIndex: 0, role: 'group', ariaLabel: say('Table') },
        element('table', {}, this.#table.body)));
    }
    this.#lineEnds = 0;
    const { body, rows, aligned } = this.#table;
    const texts = line.trim().slice(1, -1).split(/(?<!\\)\|/);
    if (rows.length === 1 && DELIMITERS.test(line)) {
      aligned.push(...texts.map((text) => alignment(text.trim())));
      for (const [at, cell] of rows[0].entries()) {
        if (cell.firstChild) cell.replaceWith(element('th', { scope: 'col', dir: 'auto', className: aligned[at] ?? '' }, ...cell.childNodes));
      }
      return;
    }
    const cells = texts.map((text, at) => {
      const cell = element('td', { dir: 'auto', className: aligned[at] ?? '' });
      const inline = new Inline(cell);
      inline.append(text.trim().replaceAll('\\|', '|').replaceAll(/<br *\/?>/gi, '\n'));
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

  #endQuote() {
    this.#quote?.finish();
    this.#quote = null;
    this.#quoting = false;
  }

  /** A line of code without the indentation that its fence has. @param {string} line */
  #unindented(line) {
    return line.slice(Math.min(this.#fenceIndent, line.length - line.trimStart().length));
  }

  #endBlock() {
    this.#endInline();
    this.#endQuote();
    this.#lists = [];
    this.#table = null;
    this.#lineEnds = 0;
  }

  /** @param {string} text */
  #write(text) {
    if (!text) return;
    if (this.#quoting) {
      this.#quote?.append(text);
    } else if (this.#code) {
      // A first line that is empty counts: nothing was written before it.
      this.#code.append('\n'.repeat(this.#code.empty ? 0 : this.#lineEnds) + text);
    } else {
      if (!this.#inline) this.#start(this.#root, 'p');
      this.#inline?.append('\n'.repeat(this.#lineEnds) + text);
    }
    this.#lineEnds = 0;
  }
}

/** @param {string} line */
function indentOf(line) {
  return (/^[ \t]*/.exec(line)?.[0] ?? '').replaceAll('\t', '    ').length;
}

/** How a column stands, by its cell in the row below the head. @param {string} dashes */
function alignment(dashes) {
  if (!dashes.endsWith(':')) return '';
  return dashes.startsWith(':') ? 'center' : 'end';
}
