/**
 * Two ways to read one generation: a streaming fetch, and an EventSource on a stream started before.
 *
 * Both give the same events; they differ in how they stop. An aborted fetch ends here at once,
 * while a cancelled stream is read on until the relay says `stream.end` with `cancelled`.
 */

import { EVENT_TYPES, SeseragiError, cancel, chat, startAsync } from './seseragi.js';

/** @typedef {import('./seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('./seseragi.js').Received} Received */
/** @typedef {{events: AsyncIterable<Received>, stop: () => Promise<void>}} Reading */
/** @typedef {(request: ChatRequest, url: string, onReconnect: () => void) => Reading} Transport */

/** @type {Transport} */
function byFetch(request, url) {
  const abort = new AbortController();
  // Else the relay may go on for a while after the abort, for a reader who comes back.
  const body = { ...request, on_disconnect: /** @type {const} */ ('cancel') };
  return {
    events: chat(body, { url, signal: abort.signal }),
    stop: async () => abort.abort(),
  };
}

/** @type {Transport} */
function byEventSource(request, url, onReconnect) {
  const started = startAsync(request, { url });
  return {
    events: (async function* () {
      yield* listen((await started).events_url, onReconnect);
    })(),
    stop: async () => cancel((await started).cancel_url),
  };
}

/**
 * @param {string} url
 * @param {() => void} onReconnect
 * @returns {AsyncGenerator<Received, void, void>}
 */
async function* listen(url, onReconnect) {
  const source = new EventSource(url);
  /** @type {MessageEvent<string>[]} */
  const messages = [];
  let closed = false;
  let wake = () => {};
  // Every native event is a named event, so that EventSource's own `message` and `error` stay apart.
  for (const type of EVENT_TYPES) {
    source.addEventListener(type, (message) => {
      messages.push(message);
      wake();
    });
  }
  source.addEventListener('error', () => {
    closed = source.readyState === EventSource.CLOSED;
    if (closed) wake();
    else onReconnect(); // by itself, with the last id it has seen
  });
  try {
    for (;;) {
      const message = messages.shift();
      if (message) {
        const { data, lastEventId: id } = message;
        const event = JSON.parse(data);
        yield { id, event, data };
        if (event.type === 'stream.end') return;
      } else if (closed) {
        throw new SeseragiError('connection_lost', 'the EventSource was closed before the end of the stream', { retryable: true });
      } else {
        await new Promise((resolve) => { wake = () => resolve(undefined); });
      }
    }
  } finally {
    source.close(); // or the browser reconnects when the finished stream ends its body
  }
}

/** @type {Record<string, Transport>} */
export const TRANSPORTS = { fetch: byFetch, eventsource: byEventSource };
