/**
 * Markdown as nodes of the document, for text that grows: CommonMark with tables, strikethrough,
 * task lists and bare web addresses. HTML is text, a picture is a link, and there are no
 * reference definitions. Blocks are found line by line, then the text in each is parsed.
 */

import { element } from '../dom.js';
import { makeCode } from './clipboard.js';
import { say } from './language.js';

/** @typedef {{tag?: keyof HTMLElementTagNameMap, props?: Record<string, any>, kids?: Shown[], text?: string, dom?: any}} Shown an element, or text */
/** @typedef {{type: string, kids: Block[], start: number, end: number, lines: string[], indent: number, mark: string, level: number, info: string, aligned: string[]}} Block */
/** A run of marks for emphasis. @typedef {{mark: string, length: number, left: number, canOpen: boolean, canClose: boolean}} Run */
/** @typedef {Shown & {run?: Run}} Piece */

const MOST_OPEN = 30; // quotes, lists and items within each other; a mark beyond is text
const MOST_MARKS = 6; // in a run, and DEEPEST such runs that wait for another: the bounds of nesting
const DEEPEST = 9;
const LONGEST_ADDRESS = 2000; // characters of an address with its title
const MOST_EMPTY = 50; // cells that a row of a table is filled up to
const REDRAW = 256; // a redraw waits until the open block has grown by one part of so many

const UNDECIDED = /^[ \t>]*(?:[-=*_+~`#|:][-=*_+~`#|: \t]*|\d{1,9}[.)]?)$/; // a last line that may still become several things
const KANA = /[\u3040-\u30ff]/;
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g; // characters that turn the direction of text: code would not be what it seems
const RULE = /^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const HEADING = /^(#{1,6})(?:[ \t]+|$)/;
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const ITEM = /^(?:([-+*])|(\d{1,9})([.)]))(?=[ \t]|$)/;
const TASK = /^\[([ xX])\](?:\s+|$)/;
const SPECIAL = new RegExp(Object.entries({
  ticks: /`+/,
  marks: /\*+|_+|~+/,
  escape: /\\(?:[!-/:-@[-`{-~]|\n)/,
  open: /!?\[/,
  close: /\]/,
  link: /<[a-z][a-z\d+.-]{1,31}:[^\s<>]{0,2000}>/,
  mail: /<[\w.!#$%&'*+/=?^`{|}~-]{1,200}@[a-z\d-]+(?:\.[a-z\d-]+)*>/,
  entity: /&(?:#x[\da-f]{1,6}|#\d{1,7}|[a-z]\w{1,9});/,
  bare: /(?<![a-z\d])https?:\/\/[\w\-.~:/?#@!$&'()*+,;=%]+/, // ASCII: an address in Japanese text ends where that goes on
  line: /(?<! ) *\n/,
}).map(([name, { source }]) => `(?<${name}>${source})`).join('|'), 'gi');
const TARGET = /^\(\s*(?:<((?:[^<>\n\\]|\\.)*)>|(?!<)((?:\\.|\((?:\\.|[^\s()\\])*\)|[^\s()\\])*))(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)/s;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const CJK = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\u3000-\u303f\uff00-\uffef]/u;
const ESCAPES = /\\([!-/:-@[-`{-~])|&(?:#x([\da-f]{1,6})|#(\d{1,7})|([a-z]\w{1,9}));/gi;
const ENTITIES = /** @type {Record<string, string>} */ ({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', trade: '™', hellip: '…', mdash: '—', ndash: '–', lsquo: '‘', rsquo: '’', ldquo: '“', rdquo: '”', laquo: '«', raquo: '»', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', times: '×', divide: '÷', plusmn: '±', ne: '≠', le: '≤', ge: '≥', deg: '°', micro: 'µ', para: '¶', sect: '§', middot: '·', bull: '•', euro: '€', pound: '£', yen: '¥', auml: 'ä', ouml: 'ö', uuml: 'ü', szlig: 'ß', eacute: 'é', check: '✓', infin: '∞', pi: 'π' });

/** Text in an element. The last block is parsed anew as it grows, and only the nodes that differ are changed, so that a selection stays. */
export class Markdown {
  #root;
  #open = ''; // the text of the blocks that may still change
  #drawn = 0; // how long that was when it was drawn
  #shown = /** @type {Shown[]} */ ([]);

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** @param {string} text */
  append(text) {
    if (!this.#root.lang && KANA.test(text)) this.#root.lang = 'ja'; // for the Japanese forms of the characters
    this.#open += text.replace(TURNING, '');
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
    const shown = kids.flatMap((block) => shownOf(block));
    draw(this.#root, this.#shown, shown);
    // A line that is not whole may still belong to the block before it.
    const done = Math.max(0, kids.findLastIndex(({ start }) => start < lines.length - 1));
    if (done) this.#open = this.#open.slice(lines.slice(0, kids[done].start).reduce((sum, line) => sum + line.length + 1, 0));
    this.#shown = shown.slice(done);
    this.#drawn = this.#open.length;
  }
}

/** Change the nodes that differ, and leave the others. @param {ParentNode} place @param {Shown[]} before @param {Shown[]} now */
function draw(place, before, now) {
  for (const [at, node] of now.entries()) {
    const { tag, props, text } = node;
    const old = before[at];
    const same = old?.tag === tag && JSON.stringify(old?.props) === JSON.stringify(props) ? old : null;
    node.dom = same?.dom ?? (!tag ? document.createTextNode('') : tag === 'pre' ? makeCode(props?.info) : element(tag, props));
    if (old && !same) old.dom.replaceWith(node.dom);
    else if (!old) place.append(node.dom);
    if (text === undefined) draw(tag === 'pre' ? node.dom.lastChild : node.dom, same?.kids ?? [], node.kids ?? []);
    else if (text.startsWith(same?.text ?? '')) node.dom.appendData(text.slice(same?.text?.length ?? 0));
    else node.dom.data = text;
  }
  for (const { dom } of before.slice(now.length)) dom.remove();
}

/** The blocks of some lines, as CommonMark finds them: first which open blocks continue, then which begin, then the text. */
class Blocks {
  root = block('root', 0);
  #open = [this.root];
  #at = 0; // the number of the line
  #line = '';
  #indent = 0; // columns of white space that the rest of the line begins with
  #body = ''; // the rest behind its white space

  /** @param {string[]} lines */
  constructor(lines) {
    for (const [at, line] of lines.entries()) {
      this.#at = at;
      this.#line = line.endsWith('\r') ? line.slice(0, -1) : line;
      this.#look(this.#line);
      this.#read();
      if (this.#open.at(-1)?.type === 'leaf') this.#open.pop();
    }
  }

  #read() {
    let depth = 1; // how many of the open blocks continue
    for (; depth < this.#open.length; depth++) {
      const continues = this.#continues(this.#open[depth]);
      if (continues === null) return void this.#open.splice(depth);
      if (!continues) break;
    }
    while (!/^(?:fence|code)$/.test(this.#open[depth - 1].type)) {
      const begins = this.#begins(depth);
      if (begins === null) return;
      if (!begins) break;
      depth = this.#open.length;
    }
    const last = this.#open[depth - 1];
    const tip = this.#open[this.#open.length - 1];
    let takes = last;
    if (last.type === 'fence' && depth === 2 && !last.indent) last.lines.push(this.#line); // with its tabs
    else if (last.type === 'fence' || last.type === 'code') last.lines.push(' '.repeat(this.#indent) + this.#body);
    else if (!this.#body) this.#open.length = depth;
    else {
      if (tip.type === 'paragraph') takes = tip; // also lazily, without the marks of what it is in
      else if (last.type !== 'table') takes = this.#add('paragraph', depth);
      takes.lines.push(this.#body);
    }
    if (this.#body || takes.type === 'fence') takes.end = this.#at;
  }

  /** Whether a block continues in this line; null if the line ends it and is used up. @param {Block} open */
  #continues(open) {
    const { type, mark } = open;
    const body = this.#body;
    if (type === 'quote') {
      if (this.#indent > 3 || body[0] !== '>') return false;
      this.#look(this.#body.slice(1));
      this.#skip(1);
      open.end = this.#at;
    } else if (type === 'item') {
      if (body ? this.#indent < open.indent : !open.kids.length) return false;
      this.#skip(open.indent);
    } else if (type === 'fence') {
      const marks = body.trimEnd();
      if (this.#indent < 4 && marks.length >= mark.length && marks === mark[0].repeat(marks.length)) {
        open.end = this.#at;
        return null;
      }
      this.#skip(open.indent);
    } else if (type === 'code') {
      if (body && this.#indent < 4) return false;
      this.#skip(4);
    } else if (type !== 'list') return body !== '';
    return true;
  }

  /** Open the block that begins here: false if none does, null if it takes the whole line. @param {number} depth */
  #begins(depth) {
    const last = this.#open[depth - 1];
    const body = this.#body;
    const inParagraph = last.type === 'paragraph';
    let match;
    if (!body) return false;
    if (this.#indent > 3) {
      if (this.#open.at(-1)?.type === 'paragraph' || last.type === 'table') return false;
      this.#add('code', depth);
      this.#skip(4);
      return true;
    }
    if (body[0] === '>' && depth < MOST_OPEN) {
      this.#add('quote', depth);
      this.#look(this.#body.slice(1));
      this.#skip(1);
      return true;
    }
    if ((match = HEADING.exec(body))) {
      const text = body.slice(match[0].length).trim().replace(/(?:^|[ \t])#+$/, '').trim();
      Object.assign(this.#add('leaf', depth), { level: match[1].length, lines: [text] });
    } else if ((match = FENCE.exec(body))) {
      Object.assign(this.#add('fence', depth), { indent: this.#indent, mark: match[1] ?? match[3], info: unescaped((match[2] ?? match[4]).trim()) });
    } else if (inParagraph && /^(?:=+|-+)[ \t]*$/.test(body)) {
      Object.assign(last, { type: 'leaf', level: body[0] === '=' ? 1 : 2, end: this.#at });
    } else if (!(inParagraph && this.#table(last, depth))) {
      if (!RULE.test(body)) return (match = ITEM.exec(body)) !== null && depth < MOST_OPEN && this.#item(match, depth);
      this.#add('leaf', depth);
    }
    return null;
  }

  /** @param {RegExpExecArray} match @param {number} depth */
  #item([marker, bullet, number, delimiter], depth) {
    const last = this.#open[depth - 1];
    if (last.type === 'paragraph' && (!this.#body.slice(marker.length).trim() || Number(number ?? 1) !== 1)) return false;
    const mark = bullet ?? delimiter;
    if (last.type !== 'list' || last.mark !== mark) Object.assign(this.#add('list', depth), { mark, level: Number(number ?? -1) });
    else this.#open.length = depth;
    const item = this.#add('item', this.#open.length);
    const before = this.#indent + marker.length;
    this.#look(this.#body.slice(marker.length));
    const padding = this.#body && this.#indent < 5 ? this.#indent : 1;
    item.indent = before + padding;
    this.#skip(padding);
    return true;
  }

  /** Make a table if the line stands below a head. @param {Block} paragraph @param {number} depth */
  #table(paragraph, depth) {
    if (!/[|:]/.test(this.#body)) return false;
    const dashes = cellsOf(this.#body);
    const head = paragraph.lines[paragraph.lines.length - 1];
    if (!dashes.every((one) => /^:?-+:?$/.test(one)) || cellsOf(head).length !== dashes.length) return false;
    paragraph.lines.pop();
    paragraph.end = this.#at - 2;
    if (!paragraph.lines.length) this.#open[depth - 2].kids.pop();
    const aligned = dashes.map((one) => (!one.endsWith(':') ? '' : one[0] === ':' ? 'center' : 'end'));
    Object.assign(this.#add('table', depth - 1), { start: this.#at - 1, lines: [head], aligned });
    return true;
  }

  /** @param {string} type @param {number} depth where it belongs */
  #add(type, depth) {
    if (this.#open[depth - 1].type === 'list' && type !== 'item') depth -= 1;
    if (/^(?:paragraph|table)$/.test(this.#open[depth - 1].type)) depth -= 1;
    this.#open.length = depth;
    const made = block(type, this.#at);
    this.#open[depth - 1].kids.push(made);
    this.#open.push(made);
    return made;
  }

  /** @param {string} rest */
  #look(rest) {
    const [white] = /** @type {RegExpExecArray} */ (/^[ \t]*/.exec(rest));
    this.#body = rest.slice(white.length);
    this.#indent = 0;
    for (const one of white) this.#indent += one === ' ' ? 1 : 4 - (this.#indent % 4);
  }

  /** Skip as many columns of white space, if there are so many. @param {number} most */
  #skip(most) {
    this.#indent -= Math.min(most, this.#indent);
  }
}

/** @param {string} type @param {number} at @returns {Block} */
const block = (type, at) => ({ type, kids: [], start: at, end: at, lines: [], indent: 0, mark: '', level: 0, info: '', aligned: [] });

/** The cells of a row. @param {string} line */
function cellsOf(line) {
  const row = line.trim().replace(/^\|/, '');
  return row.split(/(?<!\\)\|/).slice(0, /(?<!\\)\|$/.test(row) ? -1 : undefined).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/** The last line of a block and of those in it. @param {Block} block @returns {number} */
const endOf = ({ end, kids }) => (kids.length ? Math.max(end, endOf(kids[kids.length - 1])) : end);
/** Whether a blank line parts two of these. @param {Block[]} blocks */
const parted = (blocks) => blocks.some((one, at) => at > 0 && endOf(blocks[at - 1]) + 1 < one.start);

/** @param {Block} block @param {boolean} [tight] whether its list needs no paragraphs @returns {Shown[]} */
function shownOf({ type, kids, lines, level, info, aligned }, tight = false) {
  const inside = (now = tight) => kids.flatMap((kid) => shownOf(kid, now));
  const text = lines.join('\n'); // with the white space at its end: more text may follow
  switch (type) {
    case 'quote':
      return [{ tag: 'blockquote', kids: inside(false) }];
    case 'list':
      return [{ tag: level < 0 ? 'ul' : 'ol', props: { dir: 'auto', ...(level < 0 || level === 1 ? {} : { start: level }) }, kids: inside(![{ kids }, ...kids].some((one) => parted(one.kids))) }];
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
      return [{ tag: 'pre', props: { info }, kids: lines.length ? [{ text: lines.join('\n') }] : [] }];
    case 'table':
      return [{ tag: 'div', props: { className: 'table', tabIndex: 0, role: 'group', ariaLabel: say('Table') }, kids: [{ tag: 'table', kids: [{ tag: 'tbody', kids: lines.map((line, at) => rowOf(cellsOf(line), at === 0, aligned)) }] }] }];
    case 'leaf':
      return level ? [{ tag: /** @type {'h4'} */ (`h${Math.min(6, 3 + level)}`), props: { dir: 'auto' }, kids: inline(text) }] : [{ tag: 'hr' }];
    default:
      return tight ? inline(text) : [{ tag: 'p', props: { dir: 'auto' }, kids: inline(text) }];
  }
}

/** @param {string[]} texts @param {boolean} head @param {string[]} aligned @returns {Shown} */
function rowOf(texts, head, aligned) {
  return { tag: 'tr', kids: aligned.slice(0, Math.max(texts.length, MOST_EMPTY)).map((className, at) => ({
    tag: head && texts[at] ? 'th' : 'td', props: { dir: 'auto', className, ...(head && texts[at] ? { scope: 'col' } : {}) }, kids: inline((texts[at] ?? '').replaceAll(/<br *\/?>/gi, '  \n')),
  })) };
}

/** The text of a paragraph, a heading or a cell. @param {string} text @returns {Shown[]} */
function inline(text) {
  const pieces = /** @type {Piece[]} */ ([]);
  const brackets = /** @type {{at: number, image: boolean}[]} */ ([]);
  const ticked = /** @type {Record<number, number[]>} */ ({}); // where the runs of backticks of each length are, the last first
  for (const { 0: run, index } of [...text.matchAll(/`+/g)].reverse()) (ticked[run.length] ??= []).push(index);
  let at = 0;
  SPECIAL.lastIndex = 0;
  for (let found; (found = SPECIAL.exec(text)); at = SPECIAL.lastIndex) {
    const { 0: all, index } = found;
    const { ticks, marks, escape, open, close, link, mail, entity, bare, line } = found.groups ?? {};
    const end = SPECIAL.lastIndex;
    pieces.push({ text: text.slice(at, index) });
    if (line) {
      pieces.push(line.length > 2 ? { tag: 'br' } : { text: '\n' });
    } else if (escape) {
      pieces.push(escape === '\\\n' ? { tag: 'br' } : { text: escape[1] });
    } else if (ticks) {
      const ends = ticked[ticks.length];
      while (ends[ends.length - 1] <= index) ends.pop();
      const [to] = ends.slice(-1);
      const code = text.slice(end, to).replaceAll('\n', ' ');
      pieces.push(to ? { tag: 'code', kids: [{ text: /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code }] } : { text: ticks });
      if (to) SPECIAL.lastIndex = to + ticks.length;
    } else if (marks) {
      const run = { mark: marks[0], length: marks.length, left: marks.length, ...flanks(text, index, marks.length) };
      pieces.push(marks.length > MOST_MARKS || (marks[0] === '~' && marks.length !== 2) ? { text: marks } : { text: '', run });
    } else if (open) {
      brackets.push({ at: pieces.push({ text: open }) - 1, image: open.length > 1 });
      if (brackets.length > MOST_OPEN) brackets.shift();
    } else if (close) {
      const opened = brackets.pop();
      const target = opened ? TARGET.exec(text.slice(end, end + LONGEST_ADDRESS)) : null;
      const address = unescaped(target?.[1] ?? target?.[2] ?? '');
      if (opened && target && isLink(address)) {
        const [, ...inside] = pieces.splice(opened.at);
        const kids = withoutLinks(emphasize(inside));
        pieces.push(linkTo(address, kids.length ? kids : undefined, opened.image));
        if (!opened.image) brackets.length = 0; // no link in a link
        SPECIAL.lastIndex = end + target[0].length;
      } else pieces.push({ text: ']' });
    } else if (bare) {
      const address = withoutSentence(bare);
      const whole = isLink(address) && /^[^/]+\/\/(localhost|[^/]+\.[^/]+)/.test(address);
      pieces.push(whole ? linkTo(address) : { text: address });
      SPECIAL.lastIndex = index + address.length;
    } else if (entity) {
      pieces.push({ text: unescaped(entity) });
    } else {
      const address = all.slice(1, -1);
      pieces.push(isLink(link ? address : `mailto:${address}`) ? linkTo(mail ? `mailto:${address}` : address, [{ text: address }]) : { text: all });
    }
  }
  pieces.push({ text: text.slice(at) });
  return emphasize(pieces);
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

/** Put what stands between paired runs of marks into elements, as in CommonMark's appendix. @param {Piece[]} pieces @returns {Shown[]} */
function emphasize(pieces) {
  const out = /** @type {Piece[]} */ ([]);
  const openers = /** @type {{run: Run, at: number}[]} */ ([]); // with their places in `out`; few, so that a search for one is short
  for (const piece of pieces) {
    const { run } = piece;
    while (run?.canClose && run.left) {
      const found = openers.findLastIndex(({ run: { mark, canClose, length } }) => mark === run.mark
        && (!(canClose || run.canOpen) || run.length % 3 === 0 || (length + run.length) % 3 !== 0));
      const opener = openers[found];
      if (!opener) break;
      const width = opener.run.left > 1 && run.left > 1 ? 2 : 1;
      opener.run.left -= width;
      run.left -= width;
      const kids = joined(out.splice(opener.at + 1));
      out.push({ tag: run.mark === '~' ? 'del' : width > 1 ? 'strong' : 'em', kids });
      openers.length = found + (opener.run.left ? 1 : 0);
    }
    if (run?.left && run.canOpen) openers.push({ run, at: out.length });
    if (openers.length > DEEPEST) openers.shift();
    out.push(piece);
  }
  return joined(out);
}

/** Join neighbouring texts; what is left of marks is text. @param {Piece[]} pieces @returns {Shown[]} */
function joined(pieces) {
  const found = /** @type {Piece[]} */ ([]);
  for (const { run, ...piece } of pieces) {
    if (run) piece.text = run.mark.repeat(run.left);
    const last = found[found.length - 1];
    if (piece.text !== undefined && last?.text !== undefined) last.text += piece.text;
    else if (piece.text !== '') found.push(piece);
  }
  return found;
}

/** A link in a link is its text. @param {Piece[]} nodes @returns {Piece[]} */
function withoutLinks(nodes) {
  return joined(nodes.flatMap((node) => (node.tag === 'a' ? node.kids ?? [] : node.kids ? [{ ...node, kids: withoutLinks(node.kids) }] : [node])));
}

const NAMED = /^\s*(?:https?:\/\/)?(?:www\.)?([\w-]+(?:\.[\w-]+)+)(?:[/:?#].*)?\s*$/is;

/** Name the site after a text that names another. @param {string} address @param {any[]} kids */
function withSite(address, kids) {
  const named = kids.length === 1 && NAMED.exec(kids[0].text ?? '')?.[1].toLowerCase();
  const site = /^https?:\/\//i.test(address) && URL.canParse(address) ? new URL(address).hostname.replace(/^www\./, '') : null;
  return named && site && named !== site ? [...kids, { text: ` (${site})` }] : kids;
}

/** @param {string} address @param {Shown[]} [kids] @param {boolean} [image] @returns {Piece} */
function linkTo(address, kids = [{ text: address }], image = false) {
  return { tag: 'a', props: { href: address, target: '_blank', rel: 'noopener noreferrer nofollow', ...(image ? { className: 'image' } : {}) }, kids: withSite(address, kids) };
}
/** @param {string} address */
const isLink = (address) => URL.canParse(address) && /^(https?|mailto):$/.test(new URL(address).protocol);

/** An address without what belongs to the sentence around it: its last marks, and parentheses that it does not open. @param {string} found */
function withoutSentence(found) {
  let end = found.length;
  let unopened = found.split(')').length - found.split('(').length;
  for (; /[.,;:!?'*_~)]/.test(found[end - 1]); end--) if (found[end - 1] === ')' && unopened-- <= 0) break;
  return found.slice(0, end);
}

/** Text without backslashes and entities; an unknown entity stays. @param {string} text */
function unescaped(text) {
  return text.replaceAll(ESCAPES, (whole, character, hex, decimal, name) => {
    if (character) return character;
    if (name) return Object.hasOwn(ENTITIES, name) ? ENTITIES[name] : whole;
    const code = hex ? parseInt(hex, 16) : Number(decimal);
    return code > 0 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : '\ufffd';
  });
}
