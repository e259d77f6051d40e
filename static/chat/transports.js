/**
 * Two transports for one stream: the client over `fetch`, and an EventSource on a stream started before.
 *
 * Both hand over each event once over any number of connections, can be cut on purpose, and stop by
 * asking the relay: the events then go on to a `stream.end` with `cancelled`.
 */

import { storedKey } from '../key.js';
import { EVENT_TYPES, cancel, chat, resume, startAsync } from '../seseragi.js';

// Relative to the page, so that it works below a path prefix too.
export const CHAT_URL = new URL('v1/chat', document.baseURI).href;
export const STREAMS_URL = new URL('v1/streams', document.baseURI).href;
const RETRY_MS = 2000; // how long an EventSource that was cut stays away

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {(state: import('../seseragi.js').ReadyState) => void} OnState */
/**
 * `stop` ends the generation, `leave` only the reading, `cut` breaks the connection, `retry` makes
 * the next attempt now.
 * @typedef {{events: AsyncIterable<Received>, stop(): Promise<void>, leave(): void, cut(): void, retry(): void}} Reading
 */
/**
 * `ask` sends a request; sent again under the same key, it finds the stream that it started.
 * `resume` reads a stream from the beginning or after a cursor, by its id or its URL.
 * @typedef {object} Transport
 * @property {(request: ChatRequest, key: string, onState: OnState) => Reading} ask
 * @property {(stream: string, after: string|null, onState: OnState) => Reading} resume
 */

/**
 * @param {(options: import('../seseragi.js').ChatOptions) => import('../seseragi.js').ChatStream} begin
 * @param {OnState} onState
 * @returns {Reading}
 */
function overFetch(begin, onState) {
  let connection = new AbortController();
  const stream = begin({
    url: CHAT_URL,
    streamsUrl: STREAMS_URL,
    credential: storedKey(),
    // The client does not know that it is cut on purpose: its connection breaks, as on any bad network.
    fetch: (url, init = {}) => {
      if (!init.signal) return fetch(url, init); // the call that stops
      const own = connection = new AbortController();
      init.signal.addEventListener('abort', ({ target }) => own.abort(/** @type {AbortSignal} */ (target).reason));
      return fetch(url, { ...init, signal: own.signal });
    },
  });
  stream.addEventListener('statechange', () => onState(stream.readyState));
  return {
    events: stream,
    stop: () => stream.cancel(),
    leave: () => stream.disconnect(),
    cut: () => connection.abort(),
    retry: () => stream.retryNow(),
  };
}

/**
 * @param {Promise<{id: string, query: string}>} started the stream, and the query of its URL with the token
 * @param {string|null} after
 * @param {OnState} onState
 * @returns {Reading}
 */
function overEventSource(started, after, onState) {
  /** @type {Received[]} */
  const queue = [];
  /** @type {EventSource|null} */
  let source = null;
  /** @type {Reading|null} */
  let behind = null; // what reads on where the browser has given up
  let url = '';
  let last = after;
  let timer = 0;
  let ended = false;
  let closed = false;
  let left = false;
  let wake = () => {};

  const open = () => {
    timer = 0;
    const address = new URL(url);
    if (last) address.searchParams.set('after', last);
    const opened = source = new EventSource(address);
    for (const type of EVENT_TYPES) {
      opened.addEventListener(type, ({ data, lastEventId: id }) => {
        queue.push({ id, event: JSON.parse(data), data });
        last = id;
        ended = type === 'stream.end';
        if (ended) close(); // or the browser comes back once the body has ended
        else wake();
      });
    }
    opened.addEventListener('open', () => onState('open'));
    opened.addEventListener('error', () => {
      if (opened.readyState === EventSource.CLOSED) close();
      else onState('reconnecting'); // by itself, with the last id it has seen
    });
  };
  const close = () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
    wake();
  };
  async function* events() {
    const { id, query } = await started;
    url = `${STREAMS_URL}/${id}/events${query}`;
    if (!left) open();
    try {
      while (!closed || queue.length) {
        const received = queue.shift();
        if (received) yield received;
        else await new Promise((resolve) => { wake = () => resolve(undefined); });
      }
    } finally {
      close();
    }
    if (left) throw new DOMException('the stream was left', 'AbortError');
    if (!ended) {
      // The browser gave up, and does not say why. The client knows what to do.
      behind = TRANSPORTS.fetch.resume(id, last, onState);
      yield* behind.events;
    }
    onState('closed');
  }
  return {
    events: events(),
    stop: async () => cancel((await started).id, { streamsUrl: STREAMS_URL, credential: storedKey() }),
    leave() {
      left = true;
      behind?.leave();
      close();
    },
    cut() {
      if (behind) return behind.cut();
      if (closed || timer) return;
      // A page cannot break an EventSource: it closes it, and later opens another where that one was.
      source?.close();
      onState('reconnecting');
      timer = setTimeout(open, RETRY_MS);
    },
    retry() {
      if (behind) return behind.retry();
      if (closed || source?.readyState === EventSource.OPEN) return;
      clearTimeout(timer);
      source?.close();
      open();
    },
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
    ask: (request, key, onState) => overFetch((options) => chat(request, { ...options, idempotencyKey: key }), onState),
    resume: (stream, after, onState) => overFetch((options) => resume(stream, { ...options, after }), onState),
  },
  eventsource: {
    ask: (request, key, onState) => overEventSource(start(request, key), null, onState),
    // An EventSource sends no headers, and the URL with a token was lost with the page before.
    resume: (stream, after, onState) => (storedKey() === null ? overEventSource(Promise.resolve({ id: stream, query: '' }), after, onState)
      : TRANSPORTS.fetch.resume(stream, after, onState)),
  },
};
