/**
 * The watch of an owner's streams, over one connection of all tabs of a browser. A part of store.js.
 *
 * The tab that leads watches, and tells the others what it is told. Each tab keeps the cursor: another that leads goes on from there.
 *
 * @module
 */

import { userOf } from './kept.js';
import { readCredential, watchStreams } from './seseragi.js';
import { Tabs } from './tabs.js';

/**
 * What readers are told: an event of a stream and its number, a number up to which all were told, or that nothing is told for now, perhaps for want of a connection.
 * @typedef {{stream?: string, number?: number, event?: object, isDown?: boolean, isLate?: boolean}} Told
 */

const AGAIN_MS = 2000;
const LATE_MS = 2500; // an attempt that takes longer may wait for a connection, of which the readers have all
const OVER = new Set(['stream.ended', 'stream.removed', 'events.lost']);

export class OwnerWatch {
  isOpen = false;
  /** @type {Set<(told: Told) => void>} */
  readers = new Set();
  #options;
  #notice;
  #tabs;
  #after = '';
  /** Streams that run: their entries in the list, and the numbers of the last events that were told. @type {Map<string, {entry?: any, number?: number}>} */
  #streams = new Map();
  #attempt = new AbortController();

  /**
   * @param {string} name of the owner at the relay, the same in all tabs
   * @param {import('./seseragi.d.ts').WatchOptions} options
   * @param {(entry: any) => void} notice is told of a stream that runs or has ended, by its entry in the list
   */
  constructor(name, options, notice) {
    this.#options = options;
    this.#notice = notice;
    this.#tabs = new Tabs(name, {
      lead: () => { this.#watch(); },
      yield_: () => this.#attempt.abort(),
      state: () => ({ after: this.#after, isOpen: this.isOpen, streams: [...this.#streams] }),
      hear: (message) => this.#hear(message),
      see: () => this.#tabs.lead(),
      isAwaited: () => this.readers.size > 0,
    });
    this.#tabs.follow();
  }

  close() {
    this.#attempt.abort();
    this.#tabs.close();
  }

  /** The number of the last event of a stream that was told, if the next one will be. @param {string} stream */
  numberOf(stream) {
    return this.isOpen ? this.#streams.get(stream)?.number : undefined;
  }

  async #watch() {
    this.#attempt.abort();
    const { signal } = this.#attempt = new AbortController();
    const tell = (/** @type {object} */ message) => {
      this.#tabs.post(message);
      this.#hear(message);
    };
    while (!signal.aborted) {
      const late = setTimeout(() => { if (!signal.aborted) tell({ isOpen: false, isLate: true }); }, LATE_MS);
      try {
        const shown = await readCredential(this.#options.credential);
        if (shown !== null && userOf(shown) === undefined) return this.close(); // a key may be everybody's
        const onLoss = () => tell({ isOpen: false });
        const watch = watchStreams({ ...this.#options, events: true, after: this.#after, maxAttempts: 1, onLoss, signal });
        for await (const { id, event } of watch) {
          clearTimeout(late);
          tell({ after: id, event });
        }
      } catch (/** @type {any} */ error) {
        if (signal.aborted) return;
        tell({ isOpen: false });
        if (!error.retryable) return this.close(); // an older relay, or streams that are nobody's
      } finally {
        clearTimeout(late);
      }
      await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS * (1 + Math.random())); });
    }
  }

  /** @param {{after?: string, isOpen?: boolean, isLate?: boolean, event?: any, streams?: [string, {entry?: any, number?: number}][]}} message */
  #hear({ after, isOpen = true, isLate, event, streams = [] }) {
    this.#after = after || this.#after;
    const isChanged = isOpen !== this.isOpen;
    this.isOpen = isOpen;
    if (isChanged || isLate) this.#tell({ isDown: !isOpen, isLate });
    for (const [stream, known] of streams) {
      this.#streams.set(stream, known);
      this.#tell({ stream, number: known.number });
      if (known.entry) this.#notice(known.entry);
    }
    if (event) this.#take(event, after);
  }

  /** @param {any} event @param {string|undefined} id */
  #take(event, id) {
    const { stream, ...rest } = event;
    const known = this.#streams.get(stream);
    if (event.type === 'stream.started') this.#streams.set(stream, { ...known, entry: event });
    else if (OVER.has(event.type)) {
      this.#streams.delete(stream);
      this.#tell({ stream, number: Infinity }); // who waits for more reads itself
    } else if (event.type !== 'watch.ready') {
      const number = Number(/\d+$/.exec(id ?? '')?.[0]);
      this.#streams.set(stream, { ...known, number });
      this.#tell({ stream, number, event: event.type === 'stream.start' ? event : rest });
    }
    if (event.type === 'stream.started' || event.type === 'stream.ended') this.#notice(event);
  }

  /** @param {Told} told */
  #tell(told) {
    for (const reader of [...this.readers]) reader(told);
  }
}
