/**
 * Markdown as nodes of the document, for text that grows: CommonMark with tables, strikethrough,
 * task lists and bare web addresses. HTML is text, a picture is a link, and there are no
 * reference definitions. Blocks are found line by line, then the text in each is parsed.
 */

import { element } from '../dom.js';
import { copyText } from './clipboard.js';
import { say } from './language.js';

/** @typedef {{tag?: keyof HTMLElementTagNameMap, props?: Record<string, any>, kids?: Shown[], text?: string, dom?: any, inside?: any}} Shown an element, or text */
/** @typedef {{type: string, kids: Block[], start: number, end: number, lines: string[], indent: number, mark: string, level: number, info: string, aligned: string[]}} Block */
/** @typedef {{text: string, node?: Shown, closes: number, opens: Shown[], at: number, mark: string, length: number, left: number, canOpen: boolean, canClose: boolean}} Token */

const MOST_OPEN = 30; // quotes, lists and items within each other, or parentheses of an address; a mark beyond is text
const DEEPEST = 20; // elements within each other in a paragraph
const LONGEST_ADDRESS = 2000; // characters of an address with its title
const MOST_EMPTY = 50; // cells that a row of a table is filled up to
const REDRAW = 256; // a redraw waits until the open block has grown by one part of so many
const COPIED_MS = 2000;

// A last line that may still become several things.
const UNDECIDED = /^[ \t>]*(?:[-=*_+~`#|:][-=*_+~`#|: \t]*|\d{1,9}[.)]?)$/;
const KANA = /[\u3040-\u30ff]/;
const RULE = /^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const HEADING = /^(#{1,6})(?:[ \t]+|$)/;
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const ITEM = /^(?:([-+*])|(\d{1,9})([.)]))(?=[ \t]|$)/;
const TASK = /^\[([ xX])\](?:\s+|$)/;
const DASHES = /^:?-+:?$/;

const SPECIAL = /[\\`*_~[\]!<&]|(?<! ) *\n|(?<![a-z\d])https?:\/\//gi;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const CJK = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\u3000-\u303f\uff00-\uffef]/u;
const BARE = /[\w\-.~:/?#@!$&'()*+,;=%]+/y; // ASCII: an address in Japanese text ends where that goes on
const AUTOLINK = /<(?:([a-z][a-z\d+.-]{1,31}:[^\s<>]{0,2000})|([\w.!#$%&'*+/=?^`{|}~-]{1,200}@[a-z\d-]+(?:\.[a-z\d-]+)*))>/iy;
const TITLE = /^\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\))/s;
const ENTITY = /&(?:#x([\da-f]{1,6})|#(\d{1,7})|([a-z]\w{1,9}));/iy;
const ESCAPES = /\\([!-/:-@[-`{-~])|&(?:#x[\da-f]{1,6}|#\d{1,7}|[a-z]\w{1,9});/gi;
/** @type {Record<string, string>} */
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…', mdash: '—', ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', times: '×', divide: '÷', plusmn: '±', ne: '≠', le: '≤', ge: '≥', deg: '°', micro: 'µ', para: '¶', sect: '§', middot: '·', bull: '•', euro: '€', pound: '£', yen: '¥', auml: 'ä', ouml: 'ö', uuml: 'ü', szlig: 'ß', eacute: 'é', check: '✓', infin: '∞', pi: 'π' };

// Characters that turn the direction of text. U+200E and U+200F turn no letters.
const TURNING = /([\u202a-\u202e\u2066-\u2069])/;
const TURNING_IN_CODE = /(\p{Bidi_Control})/u;

/**
 * Text of a model in an element. Finished blocks are drawn once; the last block is parsed anew
 * as it grows, and only the nodes that differ are changed, so that a selection stays.
 */
export class Markdown {
  #root;
  #open = ''; // the text of the blocks that may still change
  #drawn = 0; // how long that was when it was drawn
  /** @type {Shown[]} */
  #shown = [];

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {string} text */
  append(text) {
    if (!this.#root.lang && KANA.test(text)) this.#root.lang = 'ja'; // for the Japanese forms of the characters
    this.#open += text;
    if ((this.#open.length - this.#drawn) * REDRAW < this.#open.length) return;
    const line = this.#open.slice(this.#open.lastIndexOf('\n') + 1);
    this.#draw(UNDECIDED.test(line) ? this.#open.slice(0, -line.length) : this.#open);
  }

  /** Show all of it: no more text will come. */
  finish() {
    this.#draw(this.#open);
  }

  /** @param {string} text */
  #draw(text) {
    const lines = text.split('\n');
    const { kids } = new Blocks(lines).root;
    const shown = kids.map((block) => shownOf(block, false)[0]);
    draw(this.#root, this.#shown, shown);
    // A line that is not whole may still belong to the block before it.
    const done = kids.findLastIndex(({ start }) => start < lines.length - 1);
    if (done > 0) {
      const before = lines.slice(0, kids[done].start).reduce((sum, line) => sum + line.length + 1, 0);
      this.#open = this.#open.slice(before);
    }
    this.#shown = shown.slice(Math.max(0, done));
    this.#drawn = this.#open.length;
  }
}

/** Change the nodes that differ, and leave the others. @param {ParentNode} place @param {Shown[]} before @param {Shown[]} now */
function draw(place, before, now) {
  for (const [at, node] of now.entries()) {
    const old = before[at];
    if (!old || old.tag !== node.tag || JSON.stringify(old.props) !== JSON.stringify(node.props)) {
      const made = make(node);
      if (old) old.dom.replaceWith(made);
      else place.append(made);
      continue;
    }
    node.dom = old.dom;
    node.inside = old.inside;
    if (node.text === undefined) draw(node.inside, old.kids ?? [], node.kids ?? []);
    else if (node.text.startsWith(old.text ?? '')) {
      if (node.text !== old.text) node.dom.appendData(node.text.slice(old.text?.length));
    } else node.dom.data = node.text;
  }
  for (const { dom } of before.slice(now.length)) dom.remove();
}

/** @param {Shown} node @returns {Node} */
function make(node) {
  if (!node.tag) return (node.dom = document.createTextNode(node.text ?? ''));
  node.dom = node.inside = node.tag === 'pre' ? makeCode(node.props?.info ?? '') : element(node.tag, node.props);
  if (node.tag === 'pre') node.inside = node.dom.lastChild;
  draw(node.inside, [], node.kids ?? []);
  return node.dom;
}

/** Make a code block with a button that copies it. Its last child takes the code. @param {string} info the language, or more @param {string} [text] */
export function makeCode(info, text = '') {
  const [language] = info.split(/[\s{]/);
  const code = element('code', {}, text);
  const copy = element('button', { type: 'button', className: 'copy', ariaLabel: say('Copy the code'), data: { label: say('Copy') } });
  copy.onclick = async () => {
    const result = await copyText(code.textContent ?? '').then(() => say('Copied'), () => say('The browser did not allow copying'));
    copy.ariaLabel = copy.dataset.label = result;
    setTimeout(() => {
      copy.ariaLabel = say('Copy the code');
      copy.dataset.label = say('Copy');
    }, COPIED_MS);
  };
  return element('pre', { tabIndex: 0, role: 'group', ariaLabel: `${say('Code')} ${info}`.trim(), lang: 'en', dir: 'ltr', data: { language } }, copy, code);
}

/** The blocks of some lines, by CommonMark's way: first which open blocks go on, then which begin, then the text. */
class Blocks {
  root = block('root', 0);
  #open = [this.root];
  #indent = 0; // columns of white space that the rest of the line begins with
  #rest = '';
  #body = ''; // the rest behind its white space
  #column = 0;

  /** @param {string[]} lines */
  constructor(lines) {
    for (const [at, line] of lines.entries()) {
      this.#column = 0;
      this.#look(line.endsWith('\r') ? line.slice(0, -1) : line);
      this.#line(at);
      if (this.#open.at(-1)?.type === 'leaf') this.#open.pop();
    }
  }

  /** @param {number} at */
  #line(at) {
    let depth = 1; // how many of the open blocks go on
    for (; depth < this.#open.length; depth++) {
      const goesOn = this.#goesOn(this.#open[depth], at);
      if (goesOn === null) {
        this.#open.length = depth;
        return;
      }
      if (!goesOn) break;
    }
    while (!/^(?:fence|code)$/.test(this.#open[depth - 1].type)) {
      const begins = this.#begins(depth, at);
      if (begins === null) return;
      if (!begins) break;
      depth = this.#open.length;
    }
    const last = this.#open[depth - 1];
    const tip = this.#open[this.#open.length - 1];
    let takes = last;
    if (last.type === 'fence' || last.type === 'code') {
      last.lines.push(this.#rest);
    } else if (!this.#body) {
      this.#open.length = depth;
      return;
    } else {
      if (tip.type === 'paragraph') takes = tip; // also lazily, without the marks of what it is in
      else if (last.type !== 'table') takes = this.#add('paragraph', depth, at);
      takes.lines.push(this.#body);
    }
    if (this.#body || takes.type === 'fence') takes.end = at;
  }

  /** Whether a block goes on in this line; null if the line ends it and is used up. @param {Block} open @param {number} at */
  #goesOn(open, at) {
    const { type, mark } = open;
    if (type === 'quote') {
      if (this.#indent > 3 || this.#body[0] !== '>') return false;
      this.#quote();
      open.end = at;
    } else if (type === 'item') {
      if (this.#body ? this.#indent < open.indent : !open.kids.length) return false;
      this.#skip(open.indent);
    } else if (type === 'fence') {
      const body = this.#body.trimEnd();
      if (this.#indent < 4 && body.length >= mark.length && body === mark[0].repeat(body.length)) {
        open.end = at;
        return null;
      }
      this.#skip(open.indent);
    } else if (type === 'code') {
      if (this.#body && this.#indent < 4) return false;
      this.#skip(4);
    } else if (type !== 'list') return this.#body !== '';
    return true;
  }

  /** Open the block that begins here: false if none does, null if it takes the whole line. @param {number} depth @param {number} at */
  #begins(depth, at) {
    const last = this.#open[depth - 1];
    const body = this.#body;
    const inParagraph = last.type === 'paragraph';
    let match;
    if (!body) return false;
    if (this.#indent > 3) {
      if (this.#open.at(-1)?.type === 'paragraph' || last.type === 'table') return false;
      this.#add('code', depth, at);
      this.#skip(4);
      return true;
    }
    if (body[0] === '>' && depth < MOST_OPEN) {
      this.#add('quote', depth, at);
      this.#quote();
      return true;
    }
    if ((match = HEADING.exec(body))) {
      Object.assign(this.#add('leaf', depth, at), { level: match[1].length, lines: [withoutHashes(body.slice(match[0].length))] });
    } else if ((match = FENCE.exec(body))) {
      Object.assign(this.#add('fence', depth, at), { indent: this.#indent, mark: match[1] ?? match[3], info: unescaped((match[2] ?? match[4]).trim()) });
    } else if (inParagraph && /^(?:=+|-+)[ \t]*$/.test(body)) {
      Object.assign(last, { type: 'leaf', level: body[0] === '=' ? 1 : 2, end: at });
    } else if (!(inParagraph && this.#table(last, depth, at))) {
      if (!RULE.test(body)) return (match = ITEM.exec(body)) !== null && depth < MOST_OPEN && this.#item(match, depth, at);
      this.#add('leaf', depth, at);
    }
    return null;
  }

  /** @param {RegExpExecArray} match @param {number} depth @param {number} at */
  #item([marker, bullet, number, delimiter], depth, at) {
    const last = this.#open[depth - 1];
    if (last.type === 'paragraph' && (!this.#body.slice(marker.length).trim() || Number(number ?? 1) !== 1)) return false;
    const mark = bullet ?? delimiter;
    if (last.type !== 'list' || last.mark !== mark) Object.assign(this.#add('list', depth, at), { mark, level: Number(number ?? -1) });
    else this.#open.length = depth;
    const item = this.#add('item', this.#open.length, at);
    const before = this.#indent + marker.length;
    this.#column += before;
    this.#look(this.#body.slice(marker.length));
    const padding = this.#body && this.#indent < 5 ? this.#indent : 1;
    item.indent = before + padding;
    this.#skip(padding);
    return true;
  }

  /** Make a table if the line stands below a head. @param {Block} paragraph @param {number} depth @param {number} at */
  #table(paragraph, depth, at) {
    if (!this.#body.includes('|') && !this.#body.includes(':')) return false;
    const dashes = cellsOf(this.#body);
    const head = paragraph.lines[paragraph.lines.length - 1];
    if (!dashes.every((one) => DASHES.test(one)) || cellsOf(head).length !== dashes.length) return false;
    paragraph.lines.pop();
    paragraph.end = at - 2;
    if (!paragraph.lines.length) this.#open[depth - 2].kids.pop();
    const aligned = dashes.map((one) => (!one.endsWith(':') ? '' : one[0] === ':' ? 'center' : 'end'));
    Object.assign(this.#add('table', depth - 1, at - 1), { lines: [head], aligned, end: at });
    return true;
  }

  /** @param {string} type @param {number} depth where it belongs @param {number} at */
  #add(type, depth, at) {
    if (this.#open[depth - 1].type === 'list' && type !== 'item') depth -= 1;
    if (/^(?:paragraph|table)$/.test(this.#open[depth - 1].type)) depth -= 1;
    this.#open.length = depth;
    const made = block(type, at);
    this.#open[depth - 1].kids.push(made);
    this.#open.push(made);
    return made;
  }

  #quote() {
    this.#column += this.#indent + 1;
    this.#look(this.#body.slice(1));
    this.#skip(1);
  }

  /** @param {string} rest */
  #look(rest) {
    let at = 0;
    for (this.#indent = 0; rest[at] === ' ' || rest[at] === '\t'; at++) this.#indent += rest[at] === ' ' ? 1 : 4 - ((this.#column + this.#indent) % 4);
    this.#rest = rest;
    this.#body = rest.slice(at);
  }

  /** Skip as many columns of white space, if there are so many: a tab may be skipped in part. @param {number} most */
  #skip(most) {
    const columns = Math.min(most, this.#indent);
    let at = 0;
    let width = 0;
    for (; width < columns; at++) width += this.#rest[at] === ' ' ? 1 : 4 - ((this.#column + width) % 4);
    this.#column += columns;
    this.#look(' '.repeat(width - columns) + this.#rest.slice(at));
  }
}

/** @param {string} type @param {number} at @returns {Block} */
function block(type, at) {
  return { type, kids: [], start: at, end: at, lines: [], indent: 0, mark: '', level: 0, info: '', aligned: [] };
}

/** The cells of a row. @param {string} line */
function cellsOf(line) {
  const row = line.trim().replace(/^\|/, '');
  return row.split(/(?<!\\)\|/).slice(0, /(?<!\\)\|$/.test(row) ? -1 : undefined).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/** A heading without the marks that close it. @param {string} line */
function withoutHashes(line) {
  const text = line.trimEnd();
  let end = text.length;
  while (text[end - 1] === '#') end -= 1;
  return end === 0 || /[ \t]/.test(text[end - 1]) ? text.slice(0, end).trim() : text;
}

/** The last line of a block and of those in it. @param {Block} block @returns {number} */
const endOf = ({ end, kids }) => (kids.length ? Math.max(end, endOf(kids[kids.length - 1])) : end);

/** Whether a blank line parts two of these. @param {Block[]} blocks */
const parted = (blocks) => blocks.some((one, at) => at > 0 && endOf(blocks[at - 1]) + 1 < one.start);

/** @param {Block} block @param {boolean} tight whether its list needs no paragraphs @returns {Shown[]} */
function shownOf({ type, kids, lines, level, mark, info, aligned }, tight) {
  const inside = () => kids.flatMap((kid) => shownOf(kid, tight));
  const text = lines.join('\n'); // with the white space at its end: more text may follow
  switch (type) {
    case 'quote':
      return [{ tag: 'blockquote', kids: kids.flatMap((kid) => shownOf(kid, false)) }];
    case 'list':
      tight = !parted(kids) && !kids.some((item) => parted(item.kids));
      return [{ tag: level < 0 ? 'ul' : 'ol', props: level < 0 || level === 1 ? { dir: 'auto' } : { dir: 'auto', start: level }, kids: inside() }];
    case 'item': {
      const task = kids[0]?.type === 'paragraph' ? TASK.exec(kids[0].lines[0]) : null;
      if (!task) return [{ tag: 'li', kids: inside() }];
      const checked = task[1] !== ' ';
      kids[0].lines[0] = kids[0].lines[0].slice(task[0].length);
      return [{ tag: 'li', props: { className: 'task' }, kids: [{ tag: 'input', props: { type: 'checkbox', disabled: true, checked, ariaLabel: checked ? say('done') : say('to do') } }, ...inside()] }];
    }
    case 'code':
    case 'fence':
      while (type === 'code' && !lines[lines.length - 1].trim()) lines.pop();
      return [{ tag: 'pre', props: { info }, kids: textOf(lines.join('\n'), TURNING_IN_CODE) }];
    case 'table':
      return [{ tag: 'div', props: { className: 'table', tabIndex: 0, role: 'group', ariaLabel: say('Table') }, kids: [{ tag: 'table', kids: [{ tag: 'tbody', kids: lines.map((line, at) => rowOf(line, at === 0, aligned)) }] }] }];
    case 'leaf':
      if (!level) return [{ tag: 'hr' }];
      return [{ tag: /** @type {'h4'} */ (`h${Math.min(6, 3 + level)}`), props: { dir: 'auto' }, kids: inline(text) }];
    default:
      return tight ? inline(text) : [{ tag: 'p', props: { dir: 'auto' }, kids: inline(text) }];
  }
}

/** @param {string} line @param {boolean} head @param {string[]} aligned @returns {Shown} */
function rowOf(line, head, aligned) {
  const texts = cellsOf(line);
  const cells = aligned.slice(0, Math.max(texts.length, MOST_EMPTY)).map((className, at) => {
    const text = (texts[at] ?? '').replaceAll(/<br *\/?>/gi, '  \n');
    return /** @type {Shown} */ ({ tag: head && text ? 'th' : 'td', props: head && text ? { dir: 'auto', className, scope: 'col' } : { dir: 'auto', className }, kids: inline(text) });
  });
  return { tag: 'tr', kids: cells };
}

/** Text with the characters that turn its direction each in an element. @param {string} text @param {RegExp} turning @returns {Shown[]} */
function textOf(text, turning) {
  return text.split(turning).flatMap((part, at) => {
    if (at % 2) return [/** @type {Shown} */ ({ tag: 'bdi', props: { data: { code: `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}` } }, kids: [{ text: part }] })];
    return part ? [{ text: part }] : [];
  });
}

/** The text of a paragraph, a heading or a cell. @param {string} text @returns {Shown[]} */
function inline(text) {
  /** @type {Token[]} */
  const tokens = [];
  /** @type {Token[]} */
  let runs = []; // of marks for emphasis
  /** @type {{token: Token, runs: number, image: boolean}[]} */
  const brackets = [];
  let linked = 0; // brackets before this have a link behind them, and are none
  /** @type {Map<number, number>} */
  const backticks = new Map(); // where the last run of each length is
  for (const { 0: run, index } of text.matchAll(/`+/g)) backticks.set(run.length, index);
  /** @param {string} text @param {Shown} [node] */
  const add = (text, node) => {
    /** @type {Token} */
    const token = { text, node, closes: 0, opens: [], at: tokens.length, mark: '', length: 0, left: 0, canOpen: false, canClose: false };
    tokens.push(token);
    return token;
  };
  let at = 0;
  /** @param {RegExp} pattern one that is sticky */
  const match = (pattern) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text);
    add(text.slice(at, found?.index));
    if (!found) break;
    at = found.index;
    const [mark] = found;
    let taken = mark.length;
    let made;
    if (mark.endsWith('\n')) {
      if (taken > 2) add('', { tag: 'br' });
      else add('\n');
    } else if (mark === '\\') {
      const next = text[at + 1] ?? '';
      if (next === '\n') add('', { tag: 'br' });
      else add(ESCAPABLE.test(next) ? next : `\\${next}`);
      taken += next.length;
    } else if (mark === '`') {
      taken = runAt(text, at);
      let end = backticks.get(taken) ?? 0;
      if (end > at) {
        for (end = at + taken; ; end += runAt(text, end)) {
          end = text.indexOf('`', end);
          if (runAt(text, end) === taken) break;
        }
        const code = text.slice(at + taken, end).replaceAll('\n', ' ');
        add('', { tag: 'code', kids: textOf(/^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code, TURNING_IN_CODE) });
        taken += end - at;
      } else add(text.slice(at, at + taken));
    } else if (mark === '*' || mark === '_' || mark === '~') {
      taken = runAt(text, at);
      const run = add(text.slice(at, at + taken));
      if (mark !== '~' || taken === 2) runs.push(Object.assign(run, { mark, length: taken, left: taken, ...flanks(text, at, taken) }));
    } else if (mark === '[' || mark === '!') {
      const image = mark === '!' && text[at + 1] === '[';
      if (image) taken = 2;
      const token = add(text.slice(at, at + taken));
      if (image || mark === '[') brackets.push({ token, runs: runs.length, image });
    } else if (mark === ']') {
      const opened = brackets.pop();
      const target = opened && (opened.image || brackets.length >= linked) ? targetAt(text, at + 1) : null;
      linked = Math.min(linked, brackets.length);
      if (opened && target) {
        taken = target.end - at;
        emphasize(runs.splice(opened.runs));
        if (!opened.image) linked = brackets.length;
        if (isLink(target.address)) {
          if (text[at - 1] === '[') add(target.address); // the link has no text
          opened.token.text = '';
          opened.token.opens.push(linkTo(target.address, opened.image));
          add('').closes = 1;
        } else add(text.slice(at, at + taken));
      } else add(']');
    } else if (mark === '<' && (made = match(AUTOLINK)) && isLink(made[1] ?? `mailto:${made[2]}`)) {
      add('', { ...linkTo(made[1] ?? `mailto:${made[2]}`), kids: [{ text: made[1] ?? made[2] }] });
      taken = made[0].length;
    } else if (mark === '&' && (made = match(ENTITY))) {
      add(entity(made));
      taken = made[0].length;
    } else if (mark.length > 1 && (made = match(BARE))) {
      const address = withoutSentence(made[0]);
      taken = address.length;
      if (isLink(address) && /^[^/]+\/\/(localhost|[^/]+\.[^/]+)/.test(address)) add('', { ...linkTo(address), kids: [{ text: address }] });
      else add(address);
    } else add(mark);
    at += taken;
  }
  emphasize(runs);
  return nested(tokens);
}

/** How many times the character at a place is repeated there. @param {string} text @param {number} at */
function runAt(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

/** Whether a run of marks can open and close emphasis (CommonMark 6.2); beside Japanese, Chinese and Korean, punctuation is like a letter. @param {string} text @param {number} at @param {number} length */
function flanks(text, at, length) {
  const before = [...text.slice(Math.max(0, at - 2), at)].at(-1) ?? ' ';
  const after = String.fromCodePoint(text.codePointAt(at + length) ?? 32);
  /** @param {string} near @param {string} far */
  const touches = (near, far) => !/\s/.test(near) && (!PUNCTUATION.test(near) || CJK.test(near) || /\s/.test(far) || PUNCTUATION.test(far) || CJK.test(far));
  const left = touches(after, before);
  const right = touches(before, after);
  if (text[at] !== '_') return { canOpen: left, canClose: right };
  return { canOpen: left && (!right || PUNCTUATION.test(before)), canClose: right && (!left || PUNCTUATION.test(after)) };
}

/** Pair runs of marks, as CommonMark's appendix has it. @param {Token[]} runs */
function emphasize(runs) {
  /** @type {Token[]} */
  const openers = [];
  /** @type {Record<string, number>} */
  const floors = {}; // below which no opener fits
  for (const run of runs) {
    const floor = `${run.mark}${run.canOpen}${run.length % 3}`;
    while (run.canClose && run.left) {
      let found = openers.length - 1;
      while (found >= 0 && openers[found].at >= (floors[floor] ?? 0) && !pairs(openers[found], run)) found -= 1;
      if (found < 0 || openers[found].at < (floors[floor] ?? 0)) {
        floors[floor] = run.at;
        break;
      }
      const opener = openers[found];
      const width = opener.left > 1 && run.left > 1 ? 2 : 1;
      opener.left -= width;
      run.left -= width;
      opener.opens.unshift({ tag: run.mark === '~' ? 'del' : width > 1 ? 'strong' : 'em' });
      run.closes += 1;
      openers.length = opener.left ? found + 1 : found;
    }
    if (run.canOpen && run.left) openers.push(run);
  }
  for (const run of runs) run.text = run.mark.repeat(run.left);
}

/** @param {Token} opener @param {Token} closer */
function pairs(opener, closer) {
  if (opener.mark !== closer.mark) return false;
  const either = opener.canClose || closer.canOpen;
  return !either || closer.length % 3 === 0 || (opener.length + closer.length) % 3 !== 0;
}

/** The tokens as nodes within each other. @param {Token[]} tokens */
function nested(tokens) {
  const open = [{ kids: /** @type {Shown[]} */ ([]), linked: false }];
  /** @param {Shown} node */
  const show = (node) => {
    const { kids } = open[open.length - 1];
    const last = kids[kids.length - 1];
    if (node.text !== undefined && last?.text !== undefined) last.text += node.text;
    else kids.push(node);
  };
  for (const { text, node, closes, opens } of tokens) {
    for (let left = closes; left > 0; left--) open.pop();
    for (const part of textOf(text, TURNING)) show(part);
    // A link in a link is its text.
    if (node?.tag === 'a' && open[open.length - 1].linked) node.kids?.forEach(show);
    else if (node) show(node);
    for (const begun of opens) {
      const { kids, linked } = open[open.length - 1];
      const shown = open.length < DEEPEST && !(begun.tag === 'a' && linked);
      begun.kids = [];
      if (shown) kids.push(begun);
      open.push({ kids: shown ? begun.kids : kids, linked: linked || begun.tag === 'a' });
    }
  }
  return open[0].kids;
}

/** The address in the parentheses behind a link's text. @param {string} text @param {number} at */
function targetAt(text, at) {
  if (text[at] !== '(') return null;
  const part = text.slice(at + 1, at + LONGEST_ADDRESS);
  let end = part.length - part.trimStart().length;
  let address = '';
  const pointed = /^<((?:[^<>\n\\]|\\.)*)>/.exec(part.slice(end));
  if (pointed) {
    [, address] = pointed;
    end += pointed[0].length;
  } else if (part[end] === '<') {
    return null;
  } else {
    const start = end;
    for (let depth = 0; depth <= MOST_OPEN && part[end] > ' '; end++) {
      if (part[end] === '(') depth += 1;
      else if (part[end] === ')' && depth-- === 0) break;
      else if (part[end] === '\\' && ESCAPABLE.test(part[end + 1] ?? '')) end += 1;
    }
    address = part.slice(start, end);
  }
  end += TITLE.exec(part.slice(end))?.[0].length ?? 0;
  const rest = part.slice(end).trimStart();
  return rest[0] === ')' ? { address: unescaped(address), end: at + 2 + part.length - rest.length } : null;
}

/** @param {string} address @param {boolean} [image] @returns {Shown} */
function linkTo(address, image = false) {
  return { tag: 'a', props: { href: address, target: '_blank', rel: 'noopener noreferrer nofollow', ...(image ? { className: 'image' } : {}) } };
}

/** @param {string} address */
function isLink(address) {
  return URL.canParse(address) && /^(https?|mailto):$/.test(new URL(address).protocol);
}

/** An address without what belongs to the sentence around it: its last marks, and parentheses that it does not open. @param {string} found */
function withoutSentence(found) {
  let end = found.length;
  let unopened = found.split(')').length - found.split('(').length;
  for (; /[.,;:!?'*_~)]/.test(found[end - 1]); end--) {
    if (found[end - 1] === ')' && unopened-- <= 0) break;
  }
  return found.slice(0, end);
}

/** The character that an entity stands for; one that is not known stays as it is. @param {RegExpExecArray} match of `ENTITY` */
function entity([whole, hex, decimal, name]) {
  if (name) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
  const code = hex ? parseInt(hex, 16) : Number(decimal);
  return code > 0 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : '\ufffd';
}

/** @param {string} text */
function unescaped(text) {
  return text.replaceAll(ESCAPES, (whole, character) => {
    ENTITY.lastIndex = 0;
    return character ?? entity(/** @type {RegExpExecArray} */ (ENTITY.exec(whole)));
  });
}
