/**
 * One reader of an answer in a browser, which has six connections to a site over HTTP/1.1. A part of store.js.
 *
 * The tab that leads reads, and tells the others each event. Who misses some, such as a page that is loaded while it is read, leads and reads on from its own cursor.
 * Once the watch of the owner's streams has come to the cursor, nobody reads: the watch tells.
 *
 * @module
 */

import { abortError } from './seseragi.js';
import { Tabs } from './tabs.js';

/** @typedef {import('./seseragi.d.ts').Received} Received */
/** @typedef {import('./watch.js').OwnerWatch} OwnerWatch */

const ENDING_MS = 100; // the lock outlives the end by so long, of which the others hear first
const YIELD_MS = 500; // so long a connection is left to a watch that has none
const [SEEN_MS, HIDDEN_MS] = [3000, 6000]; // so long a page waits for a watch that is down, which has the first connection

/** @param {string|null|undefined} id */
const numberOf = (id) => Number(/\d+$/.exec(id ?? '')?.[0] ?? 0);

/** @param {string|null} id */
const streamOf = (id) => id?.slice(0, id.lastIndexOf('.'));

export class SharedReading extends EventTarget {
  /** What reads in this tab. @type {import('./seseragi.d.ts').ChatStream|null} */
  #stream = null;
  /** What another tab has read, or the watch. @type {Received[]} */
  #heard = [];
  #begin;
  #cursor;
  #tabs;
  #watch;
  #isWatched = false; // the watch tells all that comes after the cursor
  /** @type {{reason: unknown}|null} */
  #left = null;
  #ended = false;
  #wake = () => {};

  /**
   * @param {string} name of the answer, the same in all tabs
   * @param {(after: string|null) => import('./seseragi.d.ts').ChatStream} begin
   * @param {string|null} after
   * @param {boolean} isOwn whether it was asked for or found in this tab, and is not followed
   * @param {OwnerWatch|null} [watch]
   */
  constructor(name, begin, after, isOwn, watch = null) {
    super();
    this.#begin = begin;
    this.#cursor = after;
    this.#watch = watch;
    this.#tabs = new Tabs(name, {
      lead: () => { if (!this.#isWatched) this.#read(); },
      yield_: () => this.#drop(),
      state: () => ({}),
      hear: ({ received }) => this.#hear(received),
      see: () => { if (!this.#stream && !this.#isWatched) this.#lead(); },
      isAwaited: () => !this.#isWatched,
    });
    watch?.readers.add(this.#follow);
    if (isOwn) this.#tabs.lead();
    else {
      this.#tabs.follow();
      this.#compare();
    }
  }

  get readyState() { return this.#stream?.readyState ?? (this.#isWatched && !this.#watch?.isOpen ? 'reconnecting' : 'open'); }

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
              this.#tabs.post({ received });
              yield received;
              this.#compare();
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
    this.#watch?.readers.delete(this.#follow); // who stops it reads its end
    this.#watch = null;
    if (!this.#stream) {
      const begun = new Promise((resolve) => { this.addEventListener('statechange', resolve, { once: true }); });
      this.#lead();
      await begun;
      await new Promise((resolve) => { setTimeout(resolve); }); // its loop has begun then
    }
    await this.#stream?.cancel();
  }

  disconnect(reason = abortError('the stream was disconnected')) {
    if (this.#left) return;
    this.#left = { reason };
    this.#stream?.disconnect(reason);
    this.#watch?.readers.delete(this.#follow);
    this.#tabs.close(this.#ended ? ENDING_MS : 0);
    this.#wake();
  }

  /** Read in this tab, and not by the watch. */
  #lead() {
    this.#isWatched = false;
    this.#tabs.lead();
  }

  #read() {
    this.#stream = this.#begin(this.#cursor);
    this.#stream.addEventListener('statechange', () => this.dispatchEvent(new Event('statechange')));
    this.#turnTo();
    this.#compare();
  }

  #drop() {
    const stream = this.#stream;
    this.#stream = null;
    stream?.disconnect();
  }

  /** Say that something else reads now. */
  #turnTo() {
    this.dispatchEvent(new Event('statechange'));
    this.#wake();
  }

  /** @param {Received} [received] */
  #hear(received) {
    const [at, last] = [numberOf(received?.id), numberOf(this.#cursor)];
    if (this.#isWatched) return;
    if (at > last + 1) return this.#lead(); // some were missed
    if (received && at > last) this.#take(received);
  }

  /** @param {Received} received */
  #take(received) {
    this.#cursor = received.id;
    this.#heard.push(received);
    this.#wake();
  }

  // ---- The watch

  /** Leave the reading to the watch, if that is not behind. */
  #compare() {
    const stream = streamOf(this.#cursor);
    if (stream && !this.#left) this.#follow({ stream, number: this.#watch?.numberOf(stream) });
  }

  /** @param {import('./watch.js').Told} told */
  #follow = ({ stream, number, event, isDown, isLate }) => {
    if (isDown !== undefined && this.#isWatched) {
      this.#turnTo();
      setTimeout(() => this.#leaveWatch(), globalThis.document?.visibilityState === 'hidden' ? HIDDEN_MS : SEEN_MS);
    }
    if (isLate && this.#stream && this.#cursor) {
      this.#drop();
      setTimeout(() => this.#tabs.isLeader && !this.#isWatched && !this.#left && this.#read(), YIELD_MS);
    }
    if (number === undefined || stream !== streamOf(this.#cursor)) return;
    const last = numberOf(this.#cursor);
    if (number > last + 1 || (number > last && !event)) {
      if (!this.#stream) this.#lead(); // some were missed; else they come
      return;
    }
    if (number > last) this.#take({ id: `${stream}.${number}`, event: /** @type {any} */ (event), data: JSON.stringify(event) });
    if (this.#isWatched) return;
    this.#isWatched = true;
    this.#drop();
    this.#turnTo();
  };

  #leaveWatch() {
    if (!this.#isWatched || this.#left || this.#watch?.isOpen) return;
    this.#isWatched = false;
    if (this.#tabs.isLeader) this.#read();
    else this.#tabs.ask();
  }
}
