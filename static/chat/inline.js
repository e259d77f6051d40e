import { element } from '../dom.js';
import { write } from './controls.js';
import { Formula } from './formula.js';
import { say } from './language.js';
import { mathOf } from './maths.js';

/** @typedef {{mark: string, node: HTMLElement, image?: Text|null}} Open `image` is the text that ends with the mark of a picture */
/** @typedef {{formula: Formula, mark: string, node: HTMLElement}} OpenFormula */

const SPECIAL = /[*_~`\\[\]$&]/g;
const BACKTICK = /`/g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const DEEPEST = 16; // marks that are open at once; a mark beyond is text
const LONGEST_ADDRESS = 2000;
// An address that stands in the text as it is; one in Japanese text ends where that goes on.
const ADDRESS = /https?:\/\/[\w\-.~:/?#[\]@!$&'()*+,;=%]+/g;

const ENTITY = /^&(#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z]{2,6})$/; // before its semicolon
const MAY_BE_ENTITY = /^&(#[xX]?[\da-fA-F]{0,7}|[A-Za-z]{0,6})$/;
/** @type {Record<string, string>} */
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…', mdash: '—', ndash: '–', larr: '←', rarr: '→', times: '×', deg: '°', middot: '·', bull: '•', euro: '€' };

/** @type {Record<string, keyof HTMLElementTagNameMap>} */
const TAGS = { '*': 'em', '**': 'strong', _: 'em', __: 'strong', '~~': 'del' };

/**
 * The inline Markdown of one block, growing piece by piece: emphasis, code, links, escapes, formulas.
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
  /** @type {OpenFormula|null} */
  #maths = null;
  #plainDollars = false; // while what was no formula is read again

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {string} text */
  append(text) {
    for (let at = 0; at < text.length; ) {
      if (this.#maths) {
        at += this.#formula(text.slice(at));
        continue;
      }
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
    if (this.#maths) {
      if (this.#maths.formula.ended) this.#closeFormula();
      else this.#giveUpFormula();
    }
    this.#giveUpAddress();
    this.#resolve('');
    while (this.#open.length) this.#unwrap();
    linkAddresses(this.#root);
  }

  /** Whether a formula is open that may go on over lines. */
  get inFormula() {
    return this.#maths?.formula.display ?? false;
  }

  get #code() {
    return this.#open.at(-1)?.mark.startsWith('`') ?? false;
  }

  /** @param {string} character */
  #afterRun(character) {
    const [mark] = this.#run;
    if (mark === '\\' && (character === '(' || character === '[') && !this.#plainDollars) {
      this.#run = '';
      this.#openFormula(`\\${character}`);
    } else if (mark === '\\') {
      this.#run = '';
      this.#write(PUNCTUATION.test(character) || character === '\n' ? character : `\\${character}`);
    } else if (mark === '&') {
      if (MAY_BE_ENTITY.test(this.#run + character)) {
        this.#run += character;
        return;
      }
      const known = character === ';' ? entity(this.#run) : null;
      if (known === null) this.#resolve(character);
      this.#run = '';
      if (known === null) this.append(character);
      else this.#write(known);
    } else if (mark === ']') {
      this.#run = '';
      if (character === '(') {
        this.#address = '';
        this.#parentheses = 0;
      } else {
        this.#closeBracket();
        this.append(character);
      }
    } else if (this.#run + character === '$$' && !this.#plainDollars) {
      this.#run = '';
      this.#openFormula('$$');
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
    else if (mark === '$' && this.#opensFormula(run, next)) this.#openFormula(run);
    else if (mark === '[' && next) this.#bracket();
    else if (mark === ']') this.#closeBracket();
    else if (mark === '*' || mark === '_' || run === '~~') this.#emphasis(run, next);
    else this.#write(run);
  }

  #bracket() {
    const image = this.#before === '!' ? this.#node : null;
    this.#begin('[', 'span', '[');
    const opened = this.#open.at(-1);
    if (opened?.mark === '[') opened.image = image;
  }

  /** @param {string} run @param {string} next */
  #opensFormula(run, next) {
    return run === '$' && !this.#plainDollars && next !== '' && !/\s/.test(next) && !WORD.test(this.#before);
  }

  /** @param {string} mark */
  #openFormula(mark) {
    const node = element('span', { className: 'formula' }, document.createTextNode(mark));
    this.#place.append(node);
    this.#maths = { formula: new Formula(mark), mark, node };
    this.#node = null;
  }

  /** @param {string} text @returns {number} how many characters were taken */
  #formula(text) {
    const { formula, node } = /** @type {OpenFormula} */ (this.#maths);
    const { is, taken } = formula.take(text);
    if (is === 'whole') {
      this.#closeFormula();
    } else if (is === 'none') {
      this.#giveUpFormula();
    } else {
      const shown = node.firstChild;
      if (shown instanceof Text) shown.appendData(text);
    }
    return taken;
  }

  #closeFormula() {
    const { formula: { source, display }, mark, node } = /** @type {OpenFormula} */ (this.#maths);
    this.#maths = null;
    this.#before = ')';
    const math = mathOf(source, display);
    if (!math) {
      const code = element('code');
      write(code, null, `${mark}${source}${mark[0] === '$' ? mark : mark === '\\(' ? '\\)' : '\\]'}`);
      node.replaceWith(code);
    } else if (display) node.replaceWith(element('span', { className: 'formula display', tabIndex: 0, role: 'group', ariaLabel: say('Formula') }, math));
    else node.replaceWith(math);
  }

  /** It was none: its source is text like any other. */
  #giveUpFormula() {
    const { formula: { source, pending }, mark, node } = /** @type {OpenFormula} */ (this.#maths);
    this.#maths = null;
    node.remove();
    this.#write(mark[0] === '$' ? mark : mark[1]);
    this.#plainDollars = true;
    this.append(source + pending);
    if (this.#run[0] === '$') {
      this.#write(this.#run);
      this.#run = '';
    }
    this.#plainDollars = false;
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
    const { node, image } = this.#open[at];
    node.firstChild?.remove(); // the bracket
    if (image) image.data = image.data.slice(0, -1); // its mark: nothing is loaded from elsewhere, so a picture is a link
    const link = element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...node.childNodes);
    if (image) link.className = 'image';
    if (!link.firstChild) write(link, null, address, { prose: true });
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
    this.#node = write(this.#place, this.#node, text, { prose: !this.#code });
  }
}

/** What an entity stands for; null if it is none that is known. @param {string} text without its semicolon */
function entity(text) {
  const [, name = ''] = ENTITY.exec(text) ?? [];
  if (name[0] !== '#') return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : null;
  const code = /^#x/i.test(name) ? parseInt(name.slice(2), 16) : Number(name.slice(1));
  return code >= 32 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : null;
}

/** @param {string} address */
function isLink(address) {
  return URL.canParse(address) && /^(https?|mailto):$/.test(new URL(address).protocol);
}

/**
 * Turn the addresses in the text of a finished block into links.
 * @param {Node} node
 */
function linkAddresses(node) {
  for (const child of [...node.childNodes]) {
    if (child instanceof Text) linkText(child);
    else if (child instanceof HTMLElement && !/^(a|code)$/.test(child.localName)) linkAddresses(child);
  }
}

/** @param {Text} node */
function linkText(node) {
  if (!node.data.includes('://')) return;
  /** @type {(Node|string)[]} */
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of node.data.matchAll(ADDRESS)) {
    const address = withoutSentence(found);
    if (!isLink(address) || !/^[^/]+\/\/(localhost|[^/]+\.[^/]+)/.test(address)) continue;
    parts.push(node.data.slice(end, index), element('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, address));
    end = index + address.length;
  }
  if (parts.length) node.replaceWith(...parts, node.data.slice(end));
}

/** Leave out what belongs to the sentence around an address: its last marks, and brackets that it does not open. @param {string} found */
function withoutSentence(found) {
  let end = found.length;
  let unopened = found.split(')').length - found.split('(').length;
  for (; end && /[.,;:!?'*)]/.test(found[end - 1]); end--) {
    if (found[end - 1] === ')' && unopened-- <= 0) break;
  }
  return found.slice(0, end);
}
