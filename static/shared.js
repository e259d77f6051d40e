/**
 * One reader of an answer in a browser, which has six connections to a site over HTTP/1.1. A part of store.js.
 *
 * The tab with the lock reads, and tells the others each event. Who misses some, such as a page that is loaded while it is read, takes the lock and reads on from its own cursor.
 *
 * @module
 */

import { abortError } from './seseragi.js';

/** @typedef {import('./seseragi.d.ts').Received} Received */

const SILENCE_MS = 4000; // without a word of the reader it is asked, and then replaced: its tab may be frozen
const ENDING_MS = 100; // the lock outlives the end by so long, of which the others hear first

/** @param {string|null|undefined} id */
const numberOf = (id) => Number(/\d+$/.exec(id ?? '')?.[0] ?? 0);

export class SharedReading extends EventTarget {
  /** What reads in this tab. @type {import('./seseragi.d.ts').ChatStream|null} */
  #stream = null;
  /** What another tab has read. @type {Received[]} */
  #heard = [];
  #name;
  #begin;
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
   * @param {string|null} after
   * @param {boolean} isOwn whether it was asked for or found in this tab, and is not followed
   */
  constructor(name, begin, after, isOwn) {
    super();
    this.#name = name;
    this.#begin = begin;
    this.#cursor = after;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    globalThis.document?.addEventListener('visibilitychange', this.#see);
    if (isOwn) return void this.#lead();
    this.#ask();
    this.#take();
  }

  get readyState() { return this.#stream?.readyState ?? 'open'; }

  get problem() { return this.#stream?.problem ?? null; }

  /** @returns {AsyncGenerator<Received, void, void>} */
  async *[Symbol.asyncIterator]() {
    try {
      while (!this.#ended) {
        if (this.#left) throw this.#left.reason;
        const stream = this.#stream;
        const heard = this.#heard.shift();
        if (heard) {
          this.#ended = heard.event.type === 'stream.end';
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
      this.#lead(); // who stops it reads its end
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
  #see = () => { if (globalThis.document.visibilityState === 'visible' && !this.#stream) this.#lead(); };

  /** Read now, and not another tab. */
  #lead() {
    this.#read();
    this.#take(true);
  }

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

  /** Ask whether there is a reader, now or after a silence. */
  #ask(isNow = true) {
    if (isNow) this.#channel.postMessage({ isAsked: true });
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (isNow ? this.#lead() : this.#ask()), SILENCE_MS);
  }

  /** @param {{received?: Received, isAsked?: boolean}} message of another tab */
  #hear({ received, isAsked }) {
    if (this.#stream) {
      if (isAsked) this.#channel.postMessage({});
    } else if (!isAsked) {
      const [at, last] = [numberOf(received?.id), numberOf(this.#cursor)];
      if (at > last + 1) return this.#lead(); // some were missed
      this.#ask(false);
      if (!received || at <= last) return;
      this.#cursor = received.id;
      this.#heard.push(received);
      this.#wake();
    }
  }
}
