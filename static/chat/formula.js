/**
 * Where a formula ends, or that it was none: `\(a\)`, `\[a\]`, `$a$` and `$$a$$`, growing piece by piece.
 *
 * A dollar is money more often than not, so one that opens must be followed by no space, and the one
 * that closes preceded by none and followed by no letter or digit; between them are no sentences.
 */

const LONGEST = 400; // characters of a formula in a line
const LONGEST_DISPLAY = 4000;
const SENTENCE = /(?:^|[^\\\p{L}])[\p{L}']{2,}[,;:]?\s+[\p{L}']{2,}[\s.,;:]$/u;
const NOT_MATHS = /[\u3000-\u30ff\uff00-\uff60`]/;

/** @type {Record<string, string>} */
export const CLOSED_BY = { '\\(': '\\)', '\\[': '\\]', $: '$', $$: '$$' };

export class Formula {
  /** The source so far, without its marks. */
  source = '';
  #mark;
  #depth = 0;
  #escaped = false;
  #closing = false; // a dollar that closes it, if the next character lets it

  /** @param {string} mark */
  constructor(mark) {
    this.#mark = mark;
    this.display = mark === '$$' || mark === '\\[';
  }

  /**
   * Take what belongs to it.
   * @param {string} text
   * @returns {{is: 'open'|'whole'|'none', taken: number}} how many characters it took
   */
  take(text) {
    const { display } = this;
    for (let at = 0; at < text.length; at++) {
      const character = text[at];
      if (this.#closing) {
        if (this.#mark === '$') return { is: /[\p{L}\p{N}]/u.test(character) ? 'none' : 'whole', taken: at };
        if (character === '$') return { is: 'whole', taken: at + 1 };
        return { is: 'none', taken: at };
      }
      if (this.#escaped) {
        this.#escaped = false;
        if (`\\${character}` === CLOSED_BY[this.#mark]) {
          this.source = this.source.slice(0, -1);
          return { is: 'whole', taken: at + 1 };
        }
      } else if (character === '\\') {
        this.#escaped = true;
      } else if (character === '$' && this.#mark[0] === '$') {
        if (this.#mark === '$' && /^$|\s$/.test(this.source)) return { is: 'none', taken: at };
        this.#closing = true;
        continue;
      } else if (character === '{' || character === '}') {
        this.#depth += character === '{' ? 1 : -1;
      }
      this.source += character;
      if (this.source.length > (display ? LONGEST_DISPLAY : LONGEST) || (character === '\n' && !display)) return { is: 'none', taken: at + 1 };
      if (this.#mark === '$' && this.#depth <= 0 && (NOT_MATHS.test(character) || (/[\s.,;:]/.test(character) && SENTENCE.test(this.source.slice(-60))))) return { is: 'none', taken: at + 1 };
    }
    return { is: 'open', taken: text.length };
  }

  /** Whether it is whole where its block ends. */
  get ended() {
    return this.#closing && this.#mark === '$';
  }

  /** What was taken and not put into the source. */
  get pending() {
    return this.#closing ? '$' : '';
  }
}
