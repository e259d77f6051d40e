/**
 * TeX as MathML: the part of TeX that models write in answers. What is not known gives null, and
 * the source is shown as it is.
 */

const MATHML = 'http://www.w3.org/1998/Math/MathML';
const DEEPEST = 30; // groups within groups
const TOKEN = /\\([a-zA-Z]+\*?|[^])|\d+(?:[.,]\d+)*|\s+|[^]/gu;

/** @param {string} names @param {string} characters in their order */
const table = (names, characters) => [...characters].map((character, at) => /** @type {const} */ ([names.split(' ')[at], character]));

const LETTERS = new Map([
  ...table('alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega', 'αβγδϵεζηθϑικλμνξπϖρϱσςτυϕφχψω'),
  ...table('Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega infty partial nabla hbar ell Re Im aleph emptyset varnothing imath jmath angle top bot degree triangle prime', 'ΓΔΘΛΞΠΣΥΦΨΩ∞∂∇ℏℓℜℑℵ∅∅ıȷ∠⊤⊥°△′'),
]);
const OPERATORS = new Map([
  ...table('pm mp times div cdot ast star circ bullet oplus ominus otimes odot wedge vee land lor cap cup setminus neg lnot forall exists nexists', '±∓×÷⋅∗⋆∘∙⊕⊖⊗⊙∧∨∧∨∩∪∖¬¬∀∃∄'),
  ...table('le leq ge geq ne neq equiv approx sim simeq cong propto ll gg prec succ in notin ni subset supset subseteq supseteq subsetneq perp parallel mid nmid models vdash asymp doteq triangleq', '≤≤≥≥≠≠≡≈∼≃≅∝≪≫≺≻∈∉∋⊂⊃⊆⊇⊊⊥∥∣∤⊨⊢≍≐≜'),
  ...table('to rightarrow leftarrow gets leftrightarrow Rightarrow Leftarrow Leftrightarrow implies iff mapsto longrightarrow longleftarrow Longrightarrow uparrow downarrow nearrow searrow hookrightarrow rightharpoonup rightleftharpoons', '→→←←↔⇒⇐⇔⟹⟺↦⟶⟵⟹↑↓↗↘↪⇀⇌'),
  ...table('ldots dots cdots vdots ddots dotsc dotsb colon therefore because dagger ddagger square blacksquare checkmark', '……⋯⋮⋱…⋯:∴∵†‡□■✓'),
  ...table('{ } | % # & _ $', '{}‖%#&_$'),
]);
const FENCES = new Map([...table('langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert lbrace rbrace lbrack rbrack vert Vert { } |', '⟨⟩⌊⌋⌈⌉||‖‖{}[]|‖{}‖')]);
const LARGE = new Map([...table('sum prod coprod bigcup bigcap bigoplus bigotimes bigvee bigwedge', '∑∏∐⋃⋂⨁⨂⋁⋀')]);
const INTEGRALS = new Map([...table('int iint iiint oint', '∫∬∭∮')]);
const ACCENTS = new Map([...table('hat widehat bar overline vec overrightarrow dot ddot tilde widetilde check breve', '^^¯‾→→˙¨~~ˇ˘')]);
const SPACES = new Map(Object.entries({ ',': '.167em', ':': '.222em', '>': '.222em', ';': '.278em', '!': '-.167em', ' ': '.25em', quad: '1em', qquad: '2em', enspace: '.5em', thinspace: '.167em' }));
const FUNCTIONS = new Set('sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp det dim ker deg arg gcd hom Pr'.split(' '));
const LIMITS = new Set('lim max min sup inf limsup liminf argmax argmin'.split(' '));
const NOTHING = new Set('displaystyle textstyle scriptstyle limits nolimits nonumber notag hline big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle'.split(' '));
const TEXTS = new Set('text textrm textit textbf textsf texttt mathrm operatorname operatorname* mathit mathsf mathtt mbox'.split(' '));
/** @type {Record<string, [upper: number, lower: number, digits: number, others: Record<string, string>]>} */
const STYLES = {
  mathbf: [0x1d400, 0x1d41a, 0x1d7ce, {}],
  boldsymbol: [0x1d400, 0x1d41a, 0x1d7ce, {}],
  mathbb: [0x1d538, 0x1d552, 0x1d7d8, { C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ' }],
  mathcal: [0x1d49c, 0x1d4b6, 0, { B: 'ℬ', E: 'ℰ', F: 'ℱ', H: 'ℋ', I: 'ℐ', L: 'ℒ', M: 'ℳ', R: 'ℛ', e: 'ℯ', g: 'ℊ', o: 'ℴ' }],
  mathfrak: [0x1d504, 0x1d51e, 0, { C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ' }],
};
/** @type {Record<string, [left: string, right: string]>} */
const TABLES = {
  matrix: ['', ''], pmatrix: ['(', ')'], bmatrix: ['[', ']'], Bmatrix: ['{', '}'], vmatrix: ['|', '|'], Vmatrix: ['‖', '‖'], smallmatrix: ['', ''], cases: ['{', ''], array: ['', ''],
  aligned: ['', ''], align: ['', ''], 'align*': ['', ''], split: ['', ''], gathered: ['', ''], gather: ['', ''], 'gather*': ['', ''], equation: ['', ''], 'equation*': ['', ''],
};
const ALIGNED = /^(align|split)/;

class Unknown extends Error {}

/** @param {string} tag @param {Record<string, string>} attributes @param {...(Element|string)} children */
function make(tag, attributes, ...children) {
  const made = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** One element of several. @param {Element[]} nodes */
function row(nodes) {
  return nodes.length === 1 ? nodes[0] : make('mrow', {}, ...nodes);
}

/** @param {string} fence @param {boolean} stretchy */
function fenced(fence, stretchy = true) {
  return make('mo', { stretchy: String(stretchy) }, fence);
}

class Parser {
  #tokens;
  #at = 0;
  #depth = 0;
  #display;

  /** @param {string} tex @param {boolean} display */
  constructor(tex, display) {
    this.#tokens = tex.match(TOKEN) ?? [];
    this.#display = display;
  }

  /** All of it. Lines are those of a table. */
  whole() {
    const nodes = this.#table('', '');
    if (this.#at < this.#tokens.length) throw new Unknown();
    return nodes;
  }

  get #next() {
    return this.#tokens[this.#at] ?? '';
  }

  #skipSpace() {
    while (/^\s/.test(this.#next)) this.#at += 1;
  }

  /** @param {string} token */
  #expect(token) {
    this.#skipSpace();
    if (this.#next !== token) throw new Unknown();
    this.#at += 1;
  }

  /** The text between braces, as it stands. */
  #raw() {
    this.#expect('{');
    let text = '';
    for (let depth = 1; ; this.#at++) {
      const token = this.#next;
      if (!token) throw new Unknown();
      depth += Number(token === '{') - Number(token === '}');
      if (!depth) break;
      text += token === '\\ ' ? ' ' : token;
    }
    this.#at += 1;
    return text;
  }

  /** What a command applies to: a group, or one thing. @returns {Element} */
  #argument() {
    this.#skipSpace();
    const [digit, ...digits] = this.#next;
    if (digits.length && /\d/.test(digit)) {
      this.#tokens[this.#at] = digits.join(''); // of a number it is the first digit
      return make('mn', {}, digit);
    }
    if (++this.#depth > DEEPEST) throw new Unknown();
    const node = this.#atom() ?? make('mrow', {});
    this.#depth -= 1;
    return node;
  }

  /** Things up to one of these tokens, which stays. @param {...string} ends @returns {Element[]} */
  #row(...ends) {
    if (++this.#depth > DEEPEST) throw new Unknown();
    const nodes = [];
    for (;;) {
      this.#skipSpace();
      if (!this.#next || ends.includes(this.#next)) break;
      const node = this.#scripted();
      if (node) nodes.push(node);
    }
    this.#depth -= 1;
    return nodes;
  }

  /** One thing with what stands above and below it. @returns {Element|null} */
  #scripted() {
    const token = this.#next;
    const name = token.slice(1);
    const above = LIMITS.has(name) || name === 'underbrace' || name === 'overbrace' || (this.#display && LARGE.has(name));
    const base = /^[_^']$/.test(token) ? make('mrow', {}) : this.#atom();
    /** @type {Element|null} */
    let low = null;
    /** @type {Element|null} */
    let high = null;
    let primes = '';
    for (;;) {
      this.#skipSpace();
      if (this.#next === '\\limits' || this.#next === '\\nolimits') {
        this.#at += 1;
      } else if (this.#next === "'") {
        primes += '′';
        this.#at += 1;
      } else if (this.#next === '_' && !low) {
        this.#at += 1;
        low = this.#argument();
      } else if (this.#next === '^' && !high) {
        this.#at += 1;
        high = this.#argument();
      } else {
        break;
      }
    }
    if (/^[_^]$/.test(this.#next)) throw new Unknown(); // twice
    if (primes) high = row([make('mo', {}, primes), ...(high ? [high] : [])]);
    if (!base || !(low || high)) return base;
    const [both, under, over] = above ? ['munderover', 'munder', 'mover'] : ['msubsup', 'msub', 'msup'];
    if (low && high) return make(both, {}, base, low, high);
    return low ? make(under, {}, base, low) : make(over, {}, base, /** @type {Element} */ (high));
  }

  /** @returns {Element|null} null for what shows nothing */
  #atom() {
    const token = this.#next;
    this.#at += 1;
    if (token.startsWith('\\')) return this.#command(token.slice(1));
    if (token === '{') {
      const nodes = this.#row('}');
      this.#expect('}');
      return row(nodes);
    }
    if (/^\d/.test(token)) return make('mn', {}, token);
    if (/^\p{L}/u.test(token)) return make('mi', {}, token);
    if (token === '~') return make('mspace', { width: '.25em' });
    if (!token || /^[}&#$%_^]/.test(token)) throw new Unknown();
    if (token === '|') return make('mo', { stretchy: 'false', lspace: '.05em', rspace: '.05em' }, token);
    return /^[()[\]]/.test(token) ? fenced(token, false) : make('mo', {}, token === '-' ? '−' : token === '*' ? '∗' : token);
  }

  /** @param {string} name @returns {Element|null} */
  #command(name) {
    const letter = LETTERS.get(name);
    if (letter) return make('mi', {}, letter);
    const sign = OPERATORS.get(name) ?? LARGE.get(name) ?? INTEGRALS.get(name);
    if (sign) return make('mo', LARGE.has(name) || INTEGRALS.has(name) ? { largeop: 'true', movablelimits: 'false' } : {}, sign);
    const fence = FENCES.get(name);
    if (fence) return fenced(fence, false);
    const accent = ACCENTS.get(name);
    if (accent) return make('mover', { accent: 'true' }, this.#argument(), fenced(accent, /^(wide|over)/.test(name)));
    const space = SPACES.get(name);
    if (space) return make('mspace', { width: space });
    if (NOTHING.has(name)) return null;
    if (FUNCTIONS.has(name) || LIMITS.has(name)) return make('mo', { lspace: '.167em', rspace: '.167em', movablelimits: 'false' }, name.replace(/^(lim|arg)(?=.)/, '$1 '));
    if (TEXTS.has(name)) {
      const text = this.#raw();
      if (/[\\$]/.test(text)) throw new Unknown();
      return name.startsWith('text') || name === 'mbox' ? make('mtext', {}, text.replace(/^ | $/g, '\u00a0')) : make('mi', { mathvariant: 'normal' }, text.trim());
    }
    if (name in STYLES) return make('mi', {}, styled(this.#raw(), name));
    return this.#structure(name);
  }

  /** @param {string} name @returns {Element|null} */
  #structure(name) {
    switch (name) {
      case 'frac': case 'dfrac': case 'tfrac': case 'cfrac':
        return make('mfrac', {}, this.#argument(), this.#argument());
      case 'binom': case 'dbinom': case 'tbinom':
        return make('mrow', {}, fenced('('), make('mfrac', { linethickness: '0' }, this.#argument(), this.#argument()), fenced(')'));
      case 'sqrt': {
        this.#skipSpace();
        if (this.#next !== '[') return make('msqrt', {}, this.#argument());
        this.#at += 1;
        const degree = row(this.#row(']'));
        this.#expect(']');
        return make('mroot', {}, this.#argument(), degree);
      }
      case 'underline':
        return make('munder', {}, this.#argument(), fenced('_'));
      case 'underbrace':
        return make('munder', {}, this.#argument(), fenced('⏟'));
      case 'overbrace':
        return make('mover', {}, this.#argument(), fenced('⏞'));
      case 'overset': case 'stackrel': {
        const above = this.#argument();
        return make('mover', {}, this.#argument(), above);
      }
      case 'underset': {
        const below = this.#argument();
        return make('munder', {}, this.#argument(), below);
      }
      case 'xrightarrow': case 'xleftarrow':
        return make('mover', {}, fenced(name === 'xrightarrow' ? '→' : '←'), this.#argument());
      case 'boxed':
        return make('mrow', { class: 'boxed' }, this.#argument());
      case 'bmod': case 'mod':
        return make('mo', { lspace: '.3em', rspace: '.3em' }, 'mod');
      case 'pmod':
        return make('mrow', {}, fenced('('), make('mi', { mathvariant: 'normal' }, 'mod'), make('mspace', { width: '.3em' }), this.#argument(), fenced(')'));
      case 'not': {
        const struck = this.#argument();
        struck.append('\u0338');
        return struck;
      }
      case 'tag': case 'tag*':
        return make('mtext', {}, `\u2003(${this.#raw()})`);
      case 'label':
        this.#raw();
        return null;
      case 'left': {
        const left = this.#fence();
        const nodes = this.#row('\\right');
        this.#expect('\\right');
        const right = this.#fence();
        return make('mrow', {}, ...(left ? [fenced(left)] : []), ...nodes, ...(right ? [fenced(right)] : []));
      }
      case 'begin': {
        const environment = this.#raw();
        const fences = TABLES[environment];
        if (!fences || !Object.hasOwn(TABLES, environment)) throw new Unknown();
        if (environment === 'array') this.#raw(); // how its columns stand
        const [left, right] = fences;
        const inner = this.#table('\\end', environment);
        this.#expect('\\end');
        if (this.#raw() !== environment) throw new Unknown();
        return make('mrow', {}, ...(left ? [fenced(left)] : []), inner, ...(right ? [fenced(right)] : []));
      }
      default:
        throw new Unknown();
    }
  }

  #fence() {
    this.#skipSpace();
    const token = this.#next;
    this.#at += 1;
    if (token === '.') return '';
    if (/^[()[\]|/]$/.test(token)) return token;
    if (token === '<' || token === '>') return token === '<' ? '⟨' : '⟩';
    const fence = token.startsWith('\\') ? FENCES.get(token.slice(1)) : undefined;
    if (!fence) throw new Unknown();
    return fence;
  }

  /** Rows and cells up to a token; what has one of each is no table. @param {string} end @param {string} environment */
  #table(end, environment) {
    /** @type {Element[][]} */
    const rows = [[]];
    for (;;) {
      rows[rows.length - 1].push(row(this.#row('&', '\\\\', end)));
      if (this.#next === '\\\\') rows.push([]);
      else if (this.#next !== '&' || !environment) break;
      this.#at += 1;
    }
    if (rows.length > 1 && rows[rows.length - 1].every((cell) => !cell.childNodes.length)) rows.pop(); // a line end behind the last
    if (rows.length === 1 && rows[0].length === 1) return rows[0][0];
    const aligned = ALIGNED.test(environment);
    return make('mtable', aligned ? { displaystyle: 'true', class: 'aligned' } : environment === 'cases' ? { class: 'cases' } : {},
      ...rows.map((cells) => make('mtr', {}, ...cells.map((cell) => make('mtd', {}, cell)))));
  }
}

/** Letters of another style. @param {string} text @param {string} style */
function styled(text, style) {
  const [upper, lower, digits, others] = STYLES[style];
  return [...text.trim()].map((character) => {
    const at = character.charCodeAt(0);
    if (others[character]) return others[character];
    if (/[A-Z]/.test(character)) return String.fromCodePoint(upper + at - 65);
    if (/[a-z]/.test(character)) return String.fromCodePoint(lower + at - 97);
    if (/\d/.test(character) && digits) return String.fromCodePoint(digits + at - 48);
    const letter = /^\\([a-zA-Z]+)$/.exec(text.trim());
    if (/[\\{}$&#^_]/.test(character) || letter) throw new Unknown();
    return character;
  }).join('');
}

/**
 * Return a formula as an element; null where it is not known how.
 * @param {string} tex
 * @param {boolean} display whether it stands on a line of its own
 */
export function mathOf(tex, display) {
  try {
    const inner = new Parser(tex, display).whole();
    const math = make('math', display ? { display: 'block' } : {}, inner);
    math.setAttribute('alttext', tex.trim());
    return math;
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
}
