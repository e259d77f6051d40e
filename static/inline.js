import { element } from './dom.js';

/** @typedef {{mark: string, node: HTMLElement}} Open */

const SPECIAL = /[*_~`\\[\]]/g;
const BACKTICK = /`/g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const DEEPEST = 16; // marks that are open at once; a mark beyond is text
const LONGEST_ADDRESS = 2000;

/** @type {Record<string, keyof HTMLElementTagNameMap>} */
const TAGS = { '*': 'em', '**': 'strong', _: 'em', __: 'strong', '~~': 'del' };

/**
 * The inline Markdown of one block, growing piece by piece: emphasis, code, links, escapes.
 *
 * Text is appended as it comes: a mark opens its element at once, and is put back as text if
 * the block ends before it is closed. Held back are only marks that the next character decides,
 * and the address of a link. The cost is linear in the text, whatever it holds.
 */
export class Inline {
  #root;
  /** @type {Open[]} */
  #open = [];
  /** @type {Text|null} */
  #node = null;
  #run = ''; // marks that wait for the next character
  #before = ''; // the character before what comes
  /** @type {string|null} */
  #address = null; // of a link, from its parenthesis on
  #parentheses = 0;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {string} text */
  append(text) {
    for (let at = 0; at < text.length; ) {
      if (this.#run || this.#address !== null) {
        // A character of two units is one.
        const character = String.fromCodePoint(/** @type {number} */ (text.codePointAt(at)));
        if (this.#address === null) this.#afterRun(character);
        else this.#addressed(character);
        at += character.length;
        continue;
      }
      const special = this.#code ? BACKTICK : SPECIAL;
      special.lastIndex = at;
      const end = special.exec(text)?.index ?? text.length;
      this.#write(text.slice(at, end));
      if (end < text.length) this.#run = text[end];
      at = end + 1;
    }
  }

  /** The block is over: what is still open was text. */
  finish() {
    this.#giveUpAddress();
    this.#resolve('');
    while (this.#open.length) this.#unwrap();
  }

  get #code() {
    return this.#open.at(-1)?.mark.startsWith('`') ?? false;
  }

  /** @param {string} character */
  #afterRun(character) {
    const [mark] = this.#run;
    if (mark === '\\') {
      this.#run = '';
      this.#write(PUNCTUATION.test(character) ? character : `\\${character}`);
    } else if (mark === ']') {
      this.#run = '';
      if (character === '(') {
        this.#address = '';
        this.#parentheses = 0;
      } else {
        this.#closeBracket();
        this.append(character);
      }
    } else if (character === mark && mark !== '[') {
      this.#run += character;
    } else {
      this.#resolve(character);
      this.append(character);
    }
  }

  /** Decide what a run of marks is, before the next character or the end. @param {string} next */
  #resolve(next) {
    const run = this.#run;
    this.#run = '';
    if (!run) return;
    const [mark] = run;
    if (mark === '`') this.#backticks(run);
    else if (mark === '[' && next) this.#begin('[', 'span', '[');
    else if (mark === ']') this.#closeBracket();
    else if (mark === '*' || mark === '_' || run === '~~') this.#emphasis(run, next);
    else this.#write(run);
  }

  /** @param {string} run */
  #backticks(run) {
    if (this.#open.at(-1)?.mark === run) this.#close();
    else if (this.#code) this.#write(run);
    else this.#begin(run, 'code');
  }

  /** CommonMark 6.2, less its rule of three. @param {string} run @param {string} next */
  #emphasis(run, next) {
    const [mark] = run;
    const inWord = mark === '_';
    const closes = this.#before !== '' && !/\s/.test(this.#before) && !(inWord && WORD.test(next));
    const opens = next !== '' && !/\s/.test(next) && !(inWord && WORD.test(this.#before));
    let left = run.length;
    while (closes && left) {
      const same = this.#open.findLastIndex((open) => open.mark === mark.repeat(left));
      const at = same >= 0 ? same : this.#open.findLastIndex((open) => open.mark[0] === mark && open.mark.length <= left);
      if (at < 0) break;
      while (this.#open.length > at + 1) this.#unwrap();
      left -= this.#open[at].mark.length;
      this.#close();
    }
    if (!left) return;
    if (!opens || left > 3) return this.#write(mark.repeat(left));
    if (left > 1) this.#begin(mark.repeat(2), TAGS[mark.repeat(2)]);
    if (left !== 2) this.#begin(mark, TAGS[mark]);
  }

  /** @param {string} character */
  #addressed(character) {
    if (character === '(') this.#parentheses += 1;
    if (character === ')' && this.#parentheses-- === 0) return this.#link();
    this.#address += character;
    if (character === '\n' || (this.#address ?? '').length > LONGEST_ADDRESS) this.#giveUpAddress();
  }

  #link() {
    const [, address = ''] = /^\s*<?([^\s<>]+)>?(?:\s+["'(].*)?$/s.exec(this.#address ?? '') ?? [];
    const at = this.#open.findLastIndex(({ mark }) => mark === '[');
    if (at < 0 || !isLink(address)) {
      this.#address += ')';
      return this.#giveUpAddress();
    }
    this.#address = null;
    while (this.#open.length > at + 1) this.#unwrap();
    const { node } = this.#open[at];
    node.firstChild?.remove(); // the bracket
    const link = element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...node.childNodes);
    node.replaceWith(link);
    this.#open.pop();
    this.#node = null;
    this.#before = ')';
  }

  #giveUpAddress() {
    if (this.#address === null) return;
    const text = `(${this.#address}`;
    this.#address = null;
    this.#closeBracket();
    this.#write(text);
  }

  #closeBracket() {
    const at = this.#open.findLastIndex(({ mark }) => mark === '[');
    if (at >= 0) {
      while (this.#open.length > at + 1) this.#unwrap();
      this.#close();
    }
    this.#write(']');
  }

  /**
   * @param {string} mark
   * @param {keyof HTMLElementTagNameMap} tag
   * @param {string} shown text of the mark that stays in the element
   */
  #begin(mark, tag, shown = '') {
    if (this.#open.length >= DEEPEST) return this.#write(mark);
    const node = element(tag);
    this.#place.append(node);
    if (shown) node.append(document.createTextNode(shown));
    this.#open.push({ mark, node });
    this.#node = null;
    this.#before = mark[0];
  }

  #close() {
    const mark = this.#open.pop()?.mark ?? '';
    this.#node = null;
    this.#before = mark.at(-1) ?? '';
  }

  /** Put the innermost open mark back as text. */
  #unwrap() {
    const { mark, node } = /** @type {Open} */ (this.#open.pop());
    // A bracket is there already.
    node.replaceWith(...(mark === '[' ? [] : [document.createTextNode(mark)]), ...node.childNodes);
    this.#node = null;
  }

  get #place() {
    return this.#open.at(-1)?.node ?? this.#root;
  }

  /** @param {string} text */
  #write(text) {
    if (!text) return;
    this.#before = text.at(-1) ?? '';
    if (this.#node) return this.#node.appendData(text);
    this.#node = document.createTextNode(text);
    this.#place.append(this.#node);
  }
}

/** @param {string} address */
function isLink(address) {
  return URL.canParse(address) && /^(https?|mailto):$/.test(new URL(address).protocol);
}
