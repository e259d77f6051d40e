/**
 * The watch of an owner's streams, over one connection of all tabs of a browser. A part of store.js.
 *
 * The tab that leads watches, and tells the others what it is told. Each tab keeps the cursor: another that leads goes on from there.
 *
 * @module
 */

import { watchStreams } from './seseragi.js';
import { Tabs } from './tabs.js';

/** @typedef {import('./seseragi.d.ts').WatchEvent} WatchEvent */

/**
 * What readers are told: an event of a stream and its number, a number up to which all were told, or that nothing is told for now.
 * @typedef {{stream?: string, number?: number, event?: object, isDown?: boolean}} Told
 */

const AGAIN_MS = 2000;
const CHANGES = new Set(['stream.started', 'stream.ended', 'stream.removed', 'events.lost', 'watch.ready']);

export class OwnerWatch {
  isOpen = false;
  #options;
  #notice;
  #tabs;
  #isRefused = false;
  #after = '';
  /** The streams that run, and the number of the last event that was told of each. @type {Map<string, {entry?: any, number?: number}>} */
  #streams = new Map();
  /** @type {Set<(told: Told) => void>} */
  #readers = new Set();
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
      see: () => { if (!this.#isRefused) this.#tabs.lead(); },
      isAwaited: () => this.#readers.size > 0,
    });
    this.#tabs.follow();
  }

  close() {
    this.#attempt.abort();
    this.#tabs.close();
  }

  /** @param {(told: Told) => void} reader */
  addReader(reader) {
    this.#readers.add(reader);
  }

  /** @param {(told: Told) => void} reader */
  removeReader(reader) {
    this.#readers.delete(reader);
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
      try {
        for await (const { id, event } of watchStreams({ ...this.#options, events: true, after: this.#after, maxAttempts: 1, signal })) {
          tell({ after: id, event });
        }
      } catch (/** @type {any} */ error) {
        if (signal.aborted) return;
        tell({ isOpen: false });
        this.#isRefused = !error.retryable;
        if (this.#isRefused) return; // an older relay, or no streams that are somebody's
        await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS * (1 + Math.random())); });
      }
    }
  }

  /** @param {{after?: string, isOpen?: boolean, event?: any, streams?: [string, {entry?: any, number?: number}][]}} message */
  #hear({ after, isOpen = true, event, streams = [] }) {
    this.#after = after || this.#after;
    this.isOpen = isOpen;
    if (!isOpen) this.#tell({ isDown: true });
    for (const [stream, known] of streams) {
      this.#streams.set(stream, known);
      this.#tell({ stream, number: known.number });
      if (known.entry) this.#notice(known.entry);
    }
    if (event && CHANGES.has(event.type)) this.#change(event);
    else if (event) {
      const number = Number(/\d+$/.exec(after ?? '')?.[0]);
      const { stream, ...rest } = event;
      this.#streams.set(stream, { ...this.#streams.get(stream), number });
      this.#tell({ stream, number, event: event.type === 'stream.start' ? event : rest });
    }
  }

  /** @param {any} entry */
  #change(entry) {
    const { type, stream } = entry;
    if (type === 'stream.started') this.#streams.set(stream, { ...this.#streams.get(stream), entry });
    else if (type !== 'watch.ready') {
      this.#streams.delete(stream);
      this.#tell({ stream, number: Infinity }); // who waits for more reads itself
    }
    if (type === 'stream.started' || type === 'stream.ended') this.#notice(entry);
  }

  /** @param {Told} told */
  #tell(told) {
    for (const reader of [...this.#readers]) reader(told);
  }
}
