import { element } from './dom.js';

const MAY_OPEN = /^ {0,3}(`{0,2}|`{3,}[^`]{0,40})$/;
const MAY_CLOSE = /^ {0,3}`* *$/;
const OPENS = /^ {0,3}(`{3,})\s*([^`]*)$/;
const KANA = /[\u3040-\u30ff]/;

/**
 * The text of an answer, growing piece by piece: paragraphs and fenced code, nothing else.
 *
 * Every piece is appended to the last text node at once. Held back are only line ends, until it is
 * known what follows them, and a line that so far reads like a fence. What was shown is never changed.
 */
export class Prose {
  #root;
  /** @type {Text|null} */
  #node = null;
  #held = '';
  #atLineStart = true;
  #lineEnds = 0;
  #fence = ''; // the backticks that opened the code block we are in

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
    if (this.#held && !this.#turn(this.#held)) this.#write(this.#held);
    this.#held = '';
  }

  /** @param {string} piece */
  #piece(piece) {
    if (!this.#atLineStart) return this.#write(piece);
    this.#held += piece;
    if ((this.#fence ? MAY_CLOSE : MAY_OPEN).test(this.#held)) return;
    this.#write(this.#held);
    this.#held = '';
    this.#atLineStart = false;
  }

  #endLine() {
    const turned = this.#held !== '' && this.#turn(this.#held);
    if (this.#held && !turned) this.#write(this.#held);
    if (!turned) this.#lineEnds += 1;
    this.#held = '';
    this.#atLineStart = true;
  }

  /**
   * Open or close a code block if the line is a fence.
   * @param {string} line
   */
  #turn(line) {
    if (this.#fence) {
      if (!line.includes(this.#fence)) return false;
      this.#fence = '';
      this.#node = null;
    } else {
      const opened = OPENS.exec(line);
      if (!opened) return false;
      this.#fence = opened[1];
      this.#node = document.createTextNode('');
      const language = opened[2].trim();
      const block = element('pre', { tabIndex: 0, role: 'group', ariaLabel: `Code ${language}`.trim(), data: { language } },
        element('code', {}, this.#node));
      block.lang = 'en';
      this.#root.append(block);
    }
    this.#lineEnds = 0;
    return true;
  }

  /** @param {string} text */
  #write(text) {
    if (!text) return;
    if (!this.#node || (!this.#fence && this.#lineEnds > 1)) {
      this.#node = document.createTextNode(text);
      this.#root.append(element('p', {}, this.#node));
    } else {
      const first = this.#fence !== '' && this.#node.length === 0;
      this.#node.appendData('\n'.repeat(first ? 0 : this.#lineEnds) + text);
    }
    this.#lineEnds = 0;
  }
}
