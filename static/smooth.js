/**
 * Text that comes in bursts, painted at an even pace.
 *
 *     const smooth = new Smooth((text) => { output.textContent = text; });
 *     for await (const { event } of chat(request)) if (event.type === 'text.delta') smooth.push(event.text);
 *     await smooth.end();
 *
 * It lags behind by about `lagMs`, and paints whole characters only, as people see them. Where
 * motion is to be reduced, where nobody looks, and outside of browsers it paints what there is.
 *
 * @module seseragi/smooth
 */

const LAG_MS = 250;
const FRAMELESS_MS = 500; // a tab that was hidden gets no frames
const LONGEST_CHARACTER = 64; // in UTF-16: a family of emoji has 11, stacked accents more

export class Smooth {
  #paint;
  #lagMs;
  #text = '';
  #shown = 0;
  #character = 0; // where the last one that is painted begins: it may go on, as 👩 does in 👩‍🚀
  #frame = 0;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;
  #ending = false;
  #done = () => {};
  /** @type {Intl.Segmenter|null} */
  #segmenter = typeof Intl.Segmenter === 'function' ? new Intl.Segmenter(undefined, { granularity: 'grapheme' }) : null;

  /**
   * @param {(text: string) => void} paint is given all the text that is to be seen now
   * @param {{lagMs?: number}} [options] 0 paints at once
   */
  constructor(paint, { lagMs = LAG_MS } = {}) {
    this.#paint = paint;
    this.#lagMs = lagMs;
  }

  /** Add to the text. @param {string} text */
  push(text) {
    this.set(this.#text + text);
  }

  /** Give the whole text so far; one that does not go on from the last is painted at once. @param {string} text */
  set(text) {
    if (text === this.#text) return;
    const goesOn = text.startsWith(this.#text.slice(0, this.#shown));
    this.#text = text;
    if (!goesOn) this.#shown = this.#character = this.#ready;
    if (!this.#frame && (!goesOn || this.#shown < this.#ready)) this.#schedule();
  }

  /** Wait until all of it is painted. @returns {Promise<void>} */
  end() {
    this.#ending = true;
    if (!this.#frame && this.#shown < this.#ready) this.#schedule();
    if (!this.#frame) {
      this.#ending = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const before = this.#done;
      this.#done = () => { before(); resolve(); };
    });
  }

  /** Paint no more. */
  stop() {
    this.#cancel();
    this.#ending = false;
    this.#done();
    this.#done = () => {};
  }

  /** The length of what can be painted: half of a surrogate pair waits for the other half, or the end. */
  get #ready() {
    return this.#text.length - Number(!this.#ending && /[\ud800-\udbff]$/.test(this.#text));
  }

  #schedule() {
    if (this.#atOnce()) {
      this.#shown = this.#character = this.#ready;
      this.#paint(this.#text.slice(0, this.#shown));
      this.stop();
      return;
    }
    const last = performance.now();
    const step = () => {
      this.#cancel();
      if (this.#atOnce()) this.#schedule();
      else this.#step(performance.now() - last);
    };
    this.#frame = requestAnimationFrame(step);
    this.#timer = setTimeout(step, FRAMELESS_MS);
  }

  #cancel() {
    if (this.#frame) globalThis.cancelAnimationFrame?.(this.#frame);
    clearTimeout(this.#timer);
    this.#frame = 0;
  }

  #atOnce() {
    const { document, matchMedia, requestAnimationFrame: frames } = globalThis;
    return !this.#lagMs || !frames || document?.visibilityState === 'hidden' || matchMedia?.('(prefers-reduced-motion: reduce)').matches;
  }

  /** @param {number} passedMs */
  #step(passedMs) {
    const left = this.#ready - this.#shown;
    const due = Math.ceil(left * Math.min(1, passedMs / this.#lagMs));
    this.#shown = this.#endOfCharacter(this.#shown + Math.max(1, due));
    this.#paint(this.#text.slice(0, this.#shown));
    if (this.#shown < this.#ready) this.#schedule();
    else this.stop();
  }

  /** Return where the character ends in which so much of the text does, or all that is there. @param {number} end */
  #endOfCharacter(end) {
    const begin = this.#character;
    const next = this.#text.slice(begin, Math.min(this.#ready, end + LONGEST_CHARACTER));
    const length = Math.min(end - begin, next.length);
    const last = this.#segmenter?.segment(next).containing(length - 1);
    if (!last) return begin + length + Number(/[\udc00-\udfff]/.test(next[length]));
    this.#character = begin + last.index;
    return begin + last.index + last.segment.length;
  }
}
