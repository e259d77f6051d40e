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
  #frame = 0;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;
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
    if (!text.startsWith(this.#text.slice(0, this.#shown))) this.#shown = text.length;
    this.#text = text;
    if (!this.#frame) this.#schedule();
  }

  /** Wait until all of it is painted. @returns {Promise<void>} */
  end() {
    if (!this.#frame) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#done;
      this.#done = () => { before(); resolve(); };
    });
  }

  /** Paint no more. */
  stop() {
    this.#cancel();
    this.#done();
    this.#done = () => {};
  }

  #schedule() {
    if (this.#atOnce()) {
      this.#shown = this.#text.length;
      this.#paint(this.#text);
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
    const left = this.#text.length - this.#shown;
    const due = Math.ceil(left * Math.min(1, passedMs / this.#lagMs));
    this.#shown += this.#wholeCharacters(Math.max(1, due));
    this.#paint(this.#text.slice(0, this.#shown));
    if (this.#shown < this.#text.length) this.#schedule();
    else this.stop();
  }

  /** Return the length of about so much of what comes next, up to the end of a character. @param {number} length */
  #wholeCharacters(length) {
    const next = this.#text.slice(this.#shown, this.#shown + length + LONGEST_CHARACTER);
    if (length >= next.length) return next.length;
    const last = this.#segmenter?.segment(next).containing(length - 1);
    return last ? last.index + last.segment.length : length + Number(/[\udc00-\udfff]/.test(next[length]));
  }
}
