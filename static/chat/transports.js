/**
 * Two ways to read one generation: the client over `fetch`, and an EventSource on a stream started before.
 *
 * Both give each event once over any number of connections, and can be cut on purpose. Both stop by
 * asking the relay: the events then go on to a `stream.end` with `cancelled`.
 */

import { storedKey } from '../key.js';
import { EVENT_TYPES, cancel, chat, resume, startAsync } from '../seseragi.js';

// Relative to the page, so that it works below a path prefix too.
export const CHAT_URL = new URL('v1/chat', document.baseURI).href;
export const STREAMS_URL = new URL('v1/streams', document.baseURI).href;
const RETRY_MS = 2000; // how long an EventSource that was cut stays away; it does not tell the relay's own

/** @typedef {import('../seseragi.js').ChatOptions} ChatOptions */
/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('../seseragi.js').ChatStream} ChatStream */
/** @typedef {import('../seseragi.js').ReadyState} ReadyState */
/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {import('../seseragi.js').SeseragiError} SeseragiError */
/** @typedef {(state: ReadyState) => void} OnState */
/**
 * Told whenever the next attempt is waited for, and when it is made; `at` is its time, null where
 * it is being made or the browser does not tell.
 * @typedef {(wait: {problem: SeseragiError|null, at: number|null}) => void} OnWait
 */

/**
 * `stop` ends the generation, `leave` only the reading, `cut` breaks the connection, `retry` makes
 * the next attempt now.
 * @typedef {{events: AsyncIterable<Received>, stop(): Promise<void>, leave(): void, cut(): void, retry(): void}} Reading
 */

/**
 * `ask` sends a request; asked again under the same key, it finds the generation that it started.
 * `resume` reads a stream that exists, by its id or its URL, after a cursor.
 * @typedef {object} Transport
 * @property {(request: ChatRequest, key: string, onState: OnState, onWait?: OnWait) => Reading} ask
 * @property {(stream: string, after: string|null, onState: OnState, onWait?: OnWait) => Reading} resume
 */

/**
 * @param {(options: ChatOptions) => ChatStream} begin
 * @param {OnState} onState
 * @param {OnWait} [onWait]
 * @returns {Reading}
 */
function overFetch(begin, onState, onWait = () => {}) {
  let connection = new AbortController();
  const stream = begin({
    url: CHAT_URL,
    streamsUrl: STREAMS_URL,
    credential: storedKey(),
    // The client is not told of a cut: it finds its connection broken, as on any bad network.
    fetch: (url, init = {}) => {
      if (!init.signal) return fetch(url, init); // the call that stops
      const own = connection = new AbortController();
      init.signal.addEventListener('abort', ({ target }) => own.abort(/** @type {AbortSignal} */ (target).reason));
      return fetch(url, { ...init, signal: own.signal });
    },
  });
  stream.addEventListener('statechange', () => onState(stream.readyState));
  stream.addEventListener('wait', () => onWait({ problem: stream.problem, at: stream.retryAt }));
  return {
    events: stream,
    stop: () => stream.cancel(),
    leave: () => stream.disconnect(),
    cut: () => connection.abort(),
    retry: () => stream.retryNow(),
  };
}

/** An EventSource that can be cut. It ends after `stream.end`, or when it was closed for good. */
class Listening {
  /** @type {MessageEvent<string>[]} */
  #messages = [];
  #closed = false;
  #wake = () => {};
  #url;
  #onState;
  #onWait;
  #source;
  #cut = 0;

  /**
   * @param {string} url
   * @param {string|null} after
   * @param {OnState} onState
   * @param {OnWait} onWait
   */
  constructor(url, after, onState, onWait) {
    this.#url = url;
    this.lastEventId = after;
    this.#onState = onState;
    this.#onWait = onWait;
    this.#source = this.#open();
  }

  cut() {
    if (this.#closed || this.#cut) return;
    // A page cannot break an EventSource: it closes it, and opens another where that one was.
    this.#source.close();
    this.#onState('reconnecting');
    this.#onWait({ problem: null, at: Date.now() + RETRY_MS });
    this.#cut = setTimeout(() => this.#openAgain(), RETRY_MS);
  }

  /** Connect now, whatever the browser would wait for. */
  retry() {
    if (this.#closed || this.#source.readyState === EventSource.OPEN) return;
    clearTimeout(this.#cut);
    this.#source.close();
    this.#openAgain();
  }

  #openAgain() {
    this.#cut = 0;
    this.#source = this.#open();
    this.#onWait({ problem: null, at: null });
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#cut);
    this.#source.close(); // or the browser reconnects when the finished stream ends its body
    this.#wake();
  }

  /** @returns {AsyncGenerator<Received, void, void>} */
  async *[Symbol.asyncIterator]() {
    for (;;) {
      const message = this.#messages.shift();
      if (message) {
        const { data, lastEventId: id } = message;
        this.lastEventId = id;
        yield { id, event: JSON.parse(data), data };
      } else if (this.#closed) {
        return;
      } else {
        await new Promise((resolve) => { this.#wake = () => resolve(undefined); });
      }
    }
  }

  #open() {
    // What has come but has not been taken yet counts: the new one begins behind it.
    const after = this.#messages.at(-1)?.lastEventId ?? this.lastEventId;
    const url = new URL(this.#url);
    if (after) url.searchParams.set('after', after);
    const source = new EventSource(url);
    // Every native event is a named event, so that EventSource's own `message` and `error` stay apart.
    for (const type of EVENT_TYPES) {
      source.addEventListener(type, (message) => {
        this.#messages.push(message);
        if (type === 'stream.end') this.close();
        else this.#wake();
      });
    }
    source.addEventListener('open', () => this.#onState('open'));
    source.addEventListener('error', () => {
      if (source.readyState === EventSource.CLOSED) return this.close();
      this.#onState('reconnecting'); // by itself, with the last id it has seen
      this.#onWait({ problem: null, at: null }); // when, it does not tell
    });
    return source;
  }
}

/**
 * @param {Promise<{id: string, query: string}>} started the stream, and what its URL says of who may read it
 * @param {string|null} after
 * @param {OnState} onState
 * @param {OnWait} [onWait]
 * @returns {Reading}
 */
function overEventSource(started, after, onState, onWait = () => {}) {
  /** @type {{cut(): void, close(): void, retry(): void}|null} */
  let current = null;
  let left = false;
  async function* events() {
    const { id: stream, query } = await started;
    const listening = current = new Listening(`${STREAMS_URL}/${stream}/events${query}`, after, onState, onWait);
    let ended = false;
    try {
      for await (const received of listening) {
        ended = received.event.type === 'stream.end';
        yield received;
      }
    } finally {
      listening.close();
    }
    if (!ended) {
      // It was closed for good, and does not say why. The client asks, and knows what to do.
      const { events: behind, cut, leave, retry } = TRANSPORTS.fetch.resume(stream, listening.lastEventId, onState, onWait);
      current = { cut, close: leave, retry };
      if (left) leave();
      yield* behind;
    }
    onState('closed');
  }
  return {
    events: events(),
    stop: async () => cancel((await started).id, { streamsUrl: STREAMS_URL, credential: storedKey() }),
    leave() {
      left = true;
      current?.close();
    },
    cut: () => current?.cut(),
    retry: () => current?.retry(),
  };
}

/** @param {ChatRequest} request @param {string} idempotencyKey */
async function start(request, idempotencyKey) {
  const { id, events_url } = await startAsync(request, { url: CHAT_URL, idempotencyKey, credential: storedKey() });
  return { id, query: new URL(events_url).search };
}

/** @type {Record<string, Transport>} */
export const TRANSPORTS = {
  fetch: {
    ask: (request, key, onState, onWait) => overFetch((options) => chat(request, { ...options, idempotencyKey: key }), onState, onWait),
    resume: (stream, after, onState, onWait) => overFetch((options) => resume(stream, { ...options, after }), onState, onWait),
  },
  eventsource: {
    ask: (request, key, onState, onWait) => overEventSource(start(request, key), null, onState, onWait),
    // An EventSource has no headers, and the URL with a token has gone with the page before.
    resume: (stream, after, onState, onWait) => (storedKey() === null ? overEventSource(Promise.resolve({ id: stream, query: '' }), after, onState, onWait)
      : TRANSPORTS.fetch.resume(stream, after, onState, onWait)),
  },
};
