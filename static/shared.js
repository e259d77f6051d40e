/**
 * One reader of an answer in a browser, which has six connections to a site over HTTP/1.1. A part of store.js.
 *
 * The tab with the lock reads, and tells the others each event. Whatever they miss, who gets the lock reads on from its own cursor.
 *
 * @module
 */

import { abortError } from './seseragi.js';

/** @typedef {import('./seseragi.d.ts').Received} Received */
/** An answer up to a cursor. @typedef {{cursor: string, stream: string, parts: import('./parts.d.ts').AnswerPart[]}} Snapshot */

const SILENCE_MS = 4000; // without a word of the reader it is asked, and then replaced: its tab may be frozen
const ENDING_MS = 100; // the lock outlives the end by so long, of which the others hear first

/** @param {string|null|undefined} id */
const numberOf = (id) => Number(/\d+$/.exec(id ?? '')?.[0] ?? 0);

export class SharedReading extends EventTarget {
  /** What reads in this tab. @type {import('./seseragi.d.ts').ChatStream|null} */
  #stream = null;
  /** What another tab has read. @type {(Received|Snapshot)[]} */
  #heard = [];
  #name;
  #begin;
  #look;
  #cursor;
  #channel;
  /** @type {{reason: unknown}|null} */
  #left = null;
  #ended = false;
  #pending = new AbortController();
  #release = () => {};
  #wake = () => {};
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;

  /**
   * @param {string} name of the answer, the same in all tabs
   * @param {(after: string|null) => import('./seseragi.d.ts').ChatStream} begin
   * @param {() => Snapshot|null} look at what was read
   * @param {string|null} after
   * @param {boolean} isFirst whether it is asked for in this tab, just now
   */
  constructor(name, begin, look, after, isFirst) {
    super();
    this.#name = name;
    this.#begin = begin;
    this.#look = look;
    this.#cursor = after;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    globalThis.document?.addEventListener('visibilitychange', this.#see);
    if (isFirst) this.#read();
    else this.#ask();
    this.#take(isFirst);
  }

  get readyState() { return this.#stream?.readyState ?? 'open'; }

  get problem() { return this.#stream?.problem ?? null; }

  /** @returns {AsyncGenerator<Received|Snapshot, void, void>} */
  async *[Symbol.asyncIterator]() {
    try {
      while (!this.#ended) {
        if (this.#left) throw this.#left.reason;
        const stream = this.#stream;
        const heard = this.#heard.shift();
        if (heard) {
          this.#ended = 'event' in heard && heard.event.type === 'stream.end';
          yield heard;
        } else if (!stream) await new Promise((resolve) => { this.#wake = () => resolve(undefined); });
        else {
          try {
            for await (const received of stream) {
              if (numberOf(received.id) <= numberOf(this.#cursor)) continue;
              this.#cursor = received.id;
              this.#channel.postMessage({ received });
              yield received;
            }
            this.#ended = true;
          } catch (error) {
            if (stream === this.#stream) throw error;
          }
        }
      }
    } finally {
      this.disconnect();
    }
  }

  async cancel() {
    if (!this.#stream) {
      const begun = new Promise((resolve) => { this.addEventListener('statechange', resolve, { once: true }); });
      this.#take(true); // who stops it reads its end
      await begun;
      await new Promise((resolve) => { setTimeout(resolve); }); // its loop has begun then
    }
    await this.#stream?.cancel();
  }

  disconnect(reason = abortError('the stream was disconnected')) {
    if (this.#left) return;
    this.#left = { reason };
    this.#stream?.disconnect(reason);
    clearTimeout(this.#timer);
    globalThis.document?.removeEventListener('visibilitychange', this.#see);
    this.#channel.close();
    this.#pending.abort();
    setTimeout(this.#release, this.#ended ? ENDING_MS : 0);
    this.#wake();
  }

  // A page that is seen again trusts no other's connection: a hidden page does not learn that its own is dead.
  #see = () => { if (globalThis.document.visibilityState === 'visible' && !this.#stream) this.#take(true); };

  /** Read once no other tab does, or instead of it. @param {boolean} [steal] */
  #take(steal = false) {
    this.#pending.abort();
    const pending = this.#pending = new AbortController();
    const isCurrent = () => !this.#left && pending === this.#pending;
    globalThis.navigator.locks.request(this.#name, steal ? { steal } : { signal: pending.signal }, () => {
      if (!isCurrent()) return undefined;
      if (!this.#stream) this.#read();
      this.#channel.postMessage({});
      return new Promise((resolve) => { this.#release = () => resolve(undefined); });
    }).catch(() => {
      if (!isCurrent()) return;
      const taken = this.#stream; // by another tab
      this.#stream = null;
      taken?.disconnect();
      this.#take();
      this.#ask();
    });
  }

  #read() {
    clearTimeout(this.#timer);
    this.#stream = this.#begin(this.#cursor);
    this.#stream.addEventListener('statechange', () => this.dispatchEvent(new Event('statechange')));
    this.dispatchEvent(new Event('statechange'));
    this.#wake();
  }

  /** Ask how far the reader is, now or after a silence. */
  #ask(isNow = true) {
    if (isNow) this.#channel.postMessage({ asked: this.#cursor });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (isNow ? this.#take(true) : this.#ask()), SILENCE_MS);
  }

  /** @param {{received?: Received, snapshot?: Snapshot|null, asked?: string|null}} message of another tab */
  #hear({ received, snapshot, asked }) {
    if (this.#stream) {
      const read = this.#look();
      if (asked !== undefined) this.#channel.postMessage({ snapshot: numberOf(read?.cursor) > numberOf(asked) ? read : null });
    } else if (asked === undefined) {
      const [at, last] = [snapshot?.cursor ?? received?.id, numberOf(this.#cursor)];
      if (received && numberOf(at) > last + 1) return this.#ask(); // some were missed
      this.#ask(false);
      const news = snapshot ?? received;
      if (!at || !news || numberOf(at) <= last) return;
      this.#cursor = at;
      this.#heard.push(news);
      this.#wake();
    }
  }
}
