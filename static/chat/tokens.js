/**
 * Light colours for code: a line is cut into comments, strings, numbers, words of the language
 * and names that are called. It knows families of languages and no grammar, and costs the same
 * for each character, whatever it holds.
 */

/** @typedef {'comment'|'string'|'number'|'keyword'|'call'|'key'|'added'|'removed'} Kind */
/** @typedef {{kind: Kind|null, text: string}} Token */
/**
 * `strings` are those that end on their line; `spans` go on over lines, from a mark to another; `lines` are told by their start.
 * @typedef {{comment?: string, spans?: Record<string, [string, Kind]>, words?: Set<string>, keys?: RegExp, lines?: [RegExp, Kind][], markup?: boolean, anyCase?: boolean}} Family
 */

const LONGEST = 2000; // characters of a line that is coloured

/** @param {string} text */
const words = (text) => new Set(text.split(' '));

/** @type {Record<string, [string, Kind]>} */
const C_SPANS = { '/*': ['*/', 'comment'] };

/** @type {Family} */
const JS = {
  comment: '//',
  spans: { ...C_SPANS, '`': ['`', 'string'] },
  words: words('abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface is keyof let namespace never new null number object of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while with yield'),
};
/** @type {Family} */
const C = {
  comment: '//',
  spans: C_SPANS,
  words: words('abstract as async auto await bool boolean break byte case catch chan char class const continue crate data defer delete do double dyn else enum export extends extern false final finally fn float fn for foreach fun func go goto if impl implements import in inline int interface internal is let long loop map match mod move mut namespace new nil null nullptr object of open operator override package private protected pub public range ref return self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typename union unsafe unsigned use using val var virtual void volatile when where while yield'),
};
/** @type {Family} */
const PYTHON = {
  comment: '#',
  spans: { '"""': ['"""', 'string'], "'''": ["'''", 'string'] },
  words: words('and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try type while with yield'),
};
/** @type {Family} */
const SHELL = {
  comment: '#',
  words: words('case cd curl do docker done echo elif else esac exit export fi for function git if in local npm npx pip python python3 read return set source sudo then until while'),
};
/** @type {Family} */
const RUBY = { comment: '#', words: words('begin break case class def do else elsif end ensure false for if in module next nil not or and redo rescue retry return self super then true unless until when while yield require') };
/** @type {Family} */
const JSON_ = { comment: '//', spans: C_SPANS, words: words('true false null'), keys: /^\s*:/ };
/** @type {Family} */
const CONFIG = { comment: '#', words: words('true false null yes no on off'), keys: /^\s*[:=]/ };
/** @type {Family} */
const CSS_ = { spans: C_SPANS, words: words('and from important in not only or to var calc'), keys: /^\s*:/ };
/** @type {Family} */
const MARKUP = { spans: { '<!--': ['-->', 'comment'] }, markup: true };
/** @type {Family} */
const SQL = {
  comment: '--',
  spans: C_SPANS,
  anyCase: true,
  words: words('add alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right rollback select set table then transaction true union unique update using values view when where with'),
};
/** @type {Family} */
const HTTP = { words: words('GET POST PUT DELETE PATCH HEAD OPTIONS HTTP'), keys: /^:/ };

/** @type {Family} */
const DIFF = { lines: [[/^(\+\+\+ |--- |@@|diff |index )/, 'comment'], [/^\+/, 'added'], [/^-/, 'removed']] };

/** @type {[string, Family][]} */
const NAMED = [
  ['js javascript mjs cjs jsx ts typescript mts tsx', JS],
  ['c h cpp c++ cc hpp cs csharp java kotlin kt swift go golang rust rs php dart scala zig', C],
  ['py python python3 pycon', PYTHON],
  ['sh bash shell zsh console shell-session dockerfile makefile', SHELL],
  ['rb ruby elixir perl', RUBY],
  ['json jsonc json5 jsonl ndjson', JSON_],
  ['yaml yml toml ini conf properties env', CONFIG],
  ['css scss less', CSS_],
  ['html xml svg vue svelte htm', MARKUP],
  ['sql postgresql mysql sqlite', SQL],
  ['http sse', HTTP],
  ['diff patch', DIFF],
];
const FAMILIES = new Map(NAMED.flatMap(([names, family]) => names.split(' ').map((name) => /** @type {[string, Family]} */ ([name, family]))));

// A string of one line, a number, a word, or anything else: each character is looked at once.
const PIECE = /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|\d[\w.]*|[@$]?[A-Za-z_\u00c0-\uffff][\w\u00c0-\uffff-]*|\s+|[^]/y;
const TAG = /<\/?[A-Za-z][\w:-]*|\/?>|"[^"]*"?|'[^']*'?|[A-Za-z@:][\w:.-]*(?==)|[^<>"'A-Za-z@:]+|[^]/y;

/**
 * Cuts the lines of one block of code, in their order.
 */
export class Tokens {
  #family;
  /** @type {[string, Kind]|null} what ends the span that is open */
  #open = null;
  #inTag = false;

  /** @param {string} language as a fence names it */
  constructor(language) {
    this.#family = FAMILIES.get(language.toLowerCase()) ?? null;
  }

  /** Whether the language is one that is known. */
  get known() {
    return this.#family !== null;
  }

  /**
   * Return the tokens of the next line; together they are the line.
   * @param {string} line
   * @returns {Token[]}
   */
  line(line) {
    const family = this.#family;
    if (!family || line.length > LONGEST) return [{ kind: null, text: line }];
    if (family.lines) return [{ kind: family.lines.find(([start]) => start.test(line))?.[1] ?? null, text: line }];
    /** @type {Token[]} */
    const tokens = [];
    const add = (/** @type {Kind|null} */ kind, /** @type {string} */ text) => {
      const last = tokens.at(-1);
      if (last && last.kind === kind) last.text += text;
      else if (text) tokens.push({ kind, text });
    };
    for (let at = 0; at < line.length;) {
      if (this.#open) {
        const [end, kind] = this.#open;
        const found = closing(line, end, at);
        add(kind, line.slice(at, found < 0 ? line.length : found + end.length));
        if (found < 0) return tokens;
        at = found + end.length;
        this.#open = null;
        continue;
      }
      if (family.comment && line.startsWith(family.comment, at) && (family.comment !== '#' || at === 0 || /\s/.test(line[at - 1]))) {
        add('comment', line.slice(at));
        return tokens;
      }
      const opened = Object.keys(family.spans ?? {}).find((mark) => line.startsWith(mark, at));
      if (opened) {
        this.#open = /** @type {Record<string, [string, Kind]>} */ (family.spans)[opened];
        add(this.#open[1], opened);
        at += opened.length;
        continue;
      }
      const pattern = family.markup ? TAG : PIECE;
      pattern.lastIndex = at;
      const [text] = pattern.exec(line) ?? [line[at]];
      at += text.length;
      add(family.markup ? this.#inMarkup(text) : kindOf(family, text, line, at), text);
    }
    return tokens;
  }

  /** @param {string} text @returns {Kind|null} */
  #inMarkup(text) {
    if (text.startsWith('<') && text.length > 1) {
      this.#inTag = true;
      return 'keyword';
    }
    if (text === '>' || text === '/>') {
      const was = this.#inTag;
      this.#inTag = false;
      return was ? 'keyword' : null;
    }
    if (!this.#inTag) return null;
    return /^["']/.test(text) ? 'string' : /^[A-Za-z@:]/.test(text) ? 'key' : null;
  }
}

/**
 * @param {Family} family
 * @param {string} text
 * @param {string} line
 * @param {number} end where the text ends
 * @returns {Kind|null}
 */
function kindOf(family, text, line, end) {
  const [first] = text;
  const next = line.slice(end, end + 2);
  if (first === '"' || first === "'") return family.keys?.test(next) ? 'key' : 'string';
  if (first >= '0' && first <= '9') return 'number';
  if (!/[@$A-Za-z_\u00c0-\uffff]/.test(first)) return null;
  if (family.words?.has(family.anyCase ? text.toLowerCase() : text)) return 'keyword';
  if (family.keys?.test(next)) return 'key';
  return next.startsWith('(') ? 'call' : null;
}

/** Find the mark that ends a span; one that is escaped does not. @param {string} line @param {string} end @param {number} from */
function closing(line, end, from) {
  let at = line.indexOf(end, from);
  while (end === '`' && at > 0 && line[at - 1] === '\\') at = line.indexOf(end, at + 1);
  return at;
}
