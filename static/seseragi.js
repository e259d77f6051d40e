/**
 * The browser client of Seseragi: one async iterator of events that outlives its connections.
 *
 *     import { chat } from './seseragi.js';
 *
 *     const request = { model: 'demo', messages: [{ role: 'user', content: 'こんにちは' }] };
 *     for await (const { event } of chat(request)) {
 *       if (event.type === 'text.delta') output.append(event.text);
 *     }
 *
 * An ES module without dependencies, for browsers and Node 20 or later: copy it where you need it.
 * The types are in seseragi.d.ts beside it.
 *
 * Its rules: each event is handed over once and in order, whatever happens to the connection.
 * A stream that was cut never looks finished: the loop ends by itself only after `stream.end`.
 * A generation is never started twice: a lost connection is continued by GET from the last id,
 * and a POST is sent again only under an `idempotencyKey`. The document is not touched.
 * A `credential` stands in the header `authorization` and nowhere else.
 *
 * @module seseragi
 */

/** @typedef {import('./seseragi.d.ts').CallOptions} CallOptions */
/** @typedef {import('./seseragi.d.ts').ChatOptions} ChatOptions */
/** @typedef {import('./seseragi.d.ts').ChatRequest} ChatRequest */
/** @typedef {import('./seseragi.d.ts').ClientSecret} ClientSecret */
/** @typedef {import('./seseragi.d.ts').ClientStorage} ClientStorage */
/** @typedef {import('./seseragi.d.ts').Dialect<any>} Dialect */
/** @typedef {import('./seseragi.d.ts').FetchCredential} FetchCredential */
/** @typedef {import('./seseragi.d.ts').ListOptions} ListOptions */
/** @typedef {import('./seseragi.d.ts').Message} Message */
/** @typedef {import('./seseragi.d.ts').ReadyState} ReadyState */
/** @typedef {import('./seseragi.d.ts').Received} Received */
/** @typedef {import('./seseragi.d.ts').ResumeOptions} ResumeOptions */
/** @typedef {import('./seseragi.d.ts').StartedStream} StartedStream */
/** @typedef {import('./seseragi.d.ts').StreamEvent} StreamEvent */
/** @typedef {import('./seseragi.d.ts').StreamList} StreamList */
/** @typedef {import('./seseragi.d.ts').Watched} Watched */
/** @typedef {import('./seseragi.d.ts').WatchOptions} WatchOptions */

// What a relay serves knows that relay; what a bundler or Node has asks the page's own host. (As
// `new URL(..., import.meta.url)` a bundler would take it for a file.)
const RELAY = /^(https?:(?!.*\/@fs\/).*)\/static\/seseragi\.js$/.exec(import.meta.url)?.[1] ?? '';
const CHAT_URL = `${RELAY}/v1/chat`;

// ---- The events ---------------------------------------------------------------------------------

/** The name of every native event: what an EventSource has to listen for, one by one. */
export const EVENT_TYPES = Object.freeze(/** @type {const} */ ([
  'stream.start', 'stream.target',
  'text.start', 'text.delta', 'text.end',
  'reasoning.start', 'reasoning.delta', 'reasoning.end',
  'refusal.start', 'refusal.delta', 'refusal.end',
  'tool_call.start', 'tool_call.delta', 'tool_call.end',
  'opaque', 'source', 'media', 'logprobs', 'content_filter', 'provider_tool', 'provider_data',
  'notice', 'choice.end', 'usage', 'stream.end',
]));

// ---- Errors -------------------------------------------------------------------------------------

/**
 * What went wrong outside the stream of events. `code` is the relay's (`rate_limited`,
 * `model_not_found`, ...) or one of the client's own:
 *
 *     connection_failed   no answer came at all
 *     connection_lost     the body ended or broke before `stream.end`, and did not come back
 *     events_missing      a number was left out between two events
 *     end_missing         there is nothing after the cursor, and it was not a `stream.end`: how the
 *                         answer ended is not known here, and the stream's own JSON may say it
 *     invalid_response    an answer that is not what a relay sends
 *     credential_failed   the function of the `credential` option gave none: nothing was sent
 *     http_error          an error status without a problem document, from a proxy perhaps
 *
 * A failure inside a stream is no exception: it is `stream.end` with its `status` and `error`.
 */
export class SeseragiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, retryable?: boolean, retryAfterS?: number|null, requestId?: string|null, stream?: string|null, cause?: unknown}} [about]
   */
  constructor(code, message, { status = 0, retryable = false, retryAfterS = null, requestId = null, stream = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'SeseragiError';
    this.code = code;
    /** The HTTP status, 0 when there was none. */
    this.status = status;
    /** Whether the same request may succeed later. */
    this.retryable = retryable;
    /** Seconds to wait before that, where the relay said so. */
    this.retryAfterS = retryAfterS;
    this.requestId = requestId;
    /** The running stream of the chat, where that is why (`overlap: 'refuse'`). */
    this.stream = stream;
  }
}

/** @param {Response} response */
async function errorOf(response) {
  const { status, headers } = response;
  const about = { status, retryAfterS: retryAfter(headers.get('retry-after')), requestId: headers.get('x-request-id') };
  const problem = await response.json().catch(() => null);
  if (typeof problem?.code !== 'string') {
    const message = `the server answered ${status} ${response.statusText}`.trim();
    const code = status === 401 ? 'unauthenticated' : 'http_error';
    return new SeseragiError(code, message, { ...about, retryable: status === 429 || status >= 500 });
  }
  return new SeseragiError(problem.code, problem.detail ?? problem.message ?? problem.title ?? problem.code, {
    status,
    retryable: problem.retryable === true,
    retryAfterS: problem.retry_after_s ?? about.retryAfterS,
    requestId: problem.request_id ?? about.requestId,
    stream: problem.stream ?? null,
  });
}

/** Read `Retry-After`, seconds or a date, as seconds from now. @param {string|null} value */
function retryAfter(value) {
  if (!value) return null;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

/**
 * Whether the same call may succeed later. The status decides: the body may be a proxy's.
 * (A status below 200 is what Chromium reads in a head that was cut.)
 * @param {SeseragiError} error
 */
function mayPass({ code, status }) {
  if (['connection_failed', 'connection_lost', 'credential_failed'].includes(code)) return true;
  return status < 200 ? code === 'http_error' : status >= 500 || [408, 425, 429].includes(status);
}

/** @param {number} count @param {ConstructorParameters<typeof SeseragiError>[2]} about */
function lost(count, about) {
  const message = `the connection was lost before the end of the stream, after ${count} event${count === 1 ? '' : 's'}`;
  return new SeseragiError('connection_lost', message, { ...about, retryable: true });
}

/** @param {string|null} requestId */
function endMissing(requestId) {
  return new SeseragiError('end_missing', 'the stream has ended and there is nothing after the cursor, but its end was not seen',
    { status: 204, requestId });
}

// ---- Server-sent events -------------------------------------------------------------------------

const LF = 10;
const CR = 13;
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1; // setTimeout takes anything longer for 0

/**
 * Bytes in, messages out: the event stream format of WHATWG HTML 9.2.6, fed in any pieces.
 *
 * Lines are found in the bytes and decoded one by one: CR and LF are never part of another
 * character in UTF-8, and the characters that other line splitters honour (U+2028, U+0085, ...)
 * are no line ends here.
 */
export class SseDecoder {
  #text = new TextDecoder('utf-8', { ignoreBOM: true }); // keeps U+FEFF: only the stream's first is a BOM
  #line = new Uint8Array(256); // the bytes of an unfinished line; doubles, so that bytes are copied O(1) times
  #length = 0;
  #afterCr = false;
  #first = true;
  #event = '';
  /** @type {string[]} */
  #data = [];
  #id = '';
  /** @type {number|null} */
  #retry = null;

  /** The last `retry:` in milliseconds, also one that came without a message. */
  get retry() {
    return this.#retry;
  }

  /**
   * @param {Uint8Array} bytes
   * @returns {Message[]} the messages that these bytes complete
   */
  feed(bytes) {
    /** @type {Message[]} */
    const messages = [];
    let start = 0;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at];
      // A CR ended its line at once. An LF behind it, in the next read perhaps, is the same line end.
      const swallowed = this.#afterCr && byte === LF;
      this.#afterCr = byte === CR;
      if (swallowed) {
        start = at + 1;
      } else if (byte === LF || byte === CR) {
        const message = this.#endLine(bytes.subarray(start, at));
        if (message) messages.push(message);
        start = at + 1;
      }
    }
    this.#keep(bytes.subarray(start));
    return messages;
  }

  /**
   * End the input.
   * @returns {Message|null} the unfinished message, which the standard does not dispatch
   */
  close() {
    if (this.#length > 0) this.#endLine(new Uint8Array(0));
    return this.#dispatch();
  }

  /** @param {Uint8Array} bytes */
  #keep(bytes) {
    const length = this.#length + bytes.length;
    if (length > this.#line.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#line.length));
      larger.set(this.#line.subarray(0, this.#length));
      this.#line = larger;
    }
    this.#line.set(bytes, this.#length);
    this.#length = length;
  }

  /** @param {Uint8Array} rest the line, or what was still missing of it */
  #endLine(rest) {
    let line = rest;
    if (this.#length > 0) {
      this.#keep(rest);
      line = this.#line.subarray(0, this.#length);
      this.#length = 0;
    }
    if (this.#first) {
      this.#first = false;
      if (line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf) line = line.subarray(3);
    }
    if (line.length === 0) return this.#dispatch();
    this.#field(this.#text.decode(line));
    return null;
  }

  /** @param {string} line */
  #field(line) {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'retry' && /^[0-9]+$/.test(value)) this.#retry = Math.min(Number(value), LONGEST_TIMEOUT_MS);
  }

  #dispatch() {
    const message = this.#data.length === 0 ? null
      : { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id, retry: this.#retry };
    this.#event = '';
    this.#data = [];
    return message;
  }
}

// ---- Aborts ------------------------------------------------------------------------------------

/** Reasons of signals that know none: React Native's, of abort-controller 3. @type {WeakMap<AbortSignal, unknown>} */
const REASONS = new WeakMap();

/** @param {string} message */
export function abortError(message) {
  const { DOMException } = globalThis; // Hermes has none
  return DOMException ? new DOMException(message, 'AbortError') : Object.assign(new Error(message), { name: 'AbortError' });
}

/** @param {AbortController} controller @param {unknown} [reason] */
function abort(controller, reason) {
  REASONS.set(controller.signal, reason);
  controller.abort(reason);
}

/** @param {AbortSignal} signal @returns {any} */
function reasonOf(signal) {
  return signal.reason ?? REASONS.get(signal) ?? abortError('the signal was aborted');
}

/** @param {AbortSignal|undefined} signal */
export function throwIfAborted(signal) {
  if (signal?.aborted) throw reasonOf(signal);
}

// ---- Who asks -----------------------------------------------------------------------------------

const FETCH_CREDENTIAL_MS = 30_000; // a function that takes longer has failed
const RENEW_MS = 30_000; // a credential is fetched again so long before its end; a short one in its last quarter
const HEADER_TEXT = /^[!-~]+$/; // `Headers` would name what it refuses, and that would be the credential

/** What functions have fetched: each serves all the requests that name it. @type {WeakMap<FetchCredential, Fetched>} */
const FETCHED = new WeakMap();

/** The credential that one function fetches: again before it ends, and when it was refused. */
class Fetched {
  #source;
  /** @type {string|null} */
  #value = null;
  #renewAt = 0;
  /** @type {Promise<string>|null} */
  #flight = null;

  /** @param {FetchCredential} source */
  constructor(source) {
    this.#source = source;
  }

  /**
   * Give one that is good for a while; at once where there is one, as a page that is being closed needs it.
   * @param {string} [refused] the one that got a 401
   * @returns {string|Promise<string>}
   */
  get(refused) {
    if (this.#value === refused) this.#value = null;
    if (this.#value !== null && Date.now() < this.#renewAt) return this.#value;
    this.#flight ??= this.#fetch().finally(() => { this.#flight = null; });
    return this.#flight;
  }

  async #fetch() {
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(notFetched(`it took longer than ${FETCH_CREDENTIAL_MS} ms`)), FETCH_CREDENTIAL_MS);
    });
    let given;
    try {
      given = await Promise.race([this.#source(), late]);
    } catch (cause) {
      throw cause instanceof SeseragiError ? cause : notFetched('it threw', cause);
    } finally {
      clearTimeout(timer);
    }
    const { value, expires_at } = typeof given === 'string' ? { value: given } : { ...given };
    const end = (expires_at ?? 0) * 1000;
    if (typeof value !== 'string' || !HEADER_TEXT.test(value)) throw notFetched('what it gave is neither a credential nor {value, expires_at}');
    if (Number.isNaN(end)) throw notFetched('the expires_at that it gave is no number of unix seconds');
    this.#value = value;
    this.#renewAt = end - Math.min(RENEW_MS, (end - Date.now()) / 4); // without an end it is asked each time
    return value;
  }
}

/** @param {string} why @param {unknown} [cause] */
function notFetched(why, cause) {
  return new SeseragiError('credential_failed', `the credential function failed: ${why}`, { retryable: true, cause });
}

/**
 * Wait for something that others wait for too, or for the end of one's own interest.
 * @template T
 * @param {T|Promise<T>} awaited
 * @param {AbortSignal|undefined} signal
 * @returns {T|Promise<T>}
 */
function unlessAborted(awaited, signal) {
  if (!signal || !(awaited instanceof Promise)) return awaited;
  return new Promise((resolve, reject) => {
    const leave = () => reject(reasonOf(signal));
    signal.addEventListener('abort', leave);
    awaited.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}

/**
 * Give what can be asked for a credential; null where none is to be sent.
 * @param {string|URL} url
 * @param {CallOptions['credential']} credential
 * @returns {{get(refused?: string): string|Promise<string>, renews: boolean}|null}
 */
function credentialOf(url, credential) {
  // A signed URL says itself who may: two credentials in one request are refused.
  if (credential === undefined || credential === null || /[?&]token=/.test(`${url}`)) return null;
  if (typeof credential === 'function') {
    const fetched = FETCHED.get(credential) ?? new Fetched(credential);
    FETCHED.set(credential, fetched);
    return { get: (refused) => fetched.get(refused), renews: true };
  }
  if (typeof credential !== 'string' || !HEADER_TEXT.test(credential)) {
    throw new TypeError('credential: use a string that a header can carry, or a function that fetches one');
  }
  return { get: () => credential, renews: false };
}

/**
 * Read what is sent as a credential; that of a function is fetched as for a request, for all of them.
 * @param {CallOptions['credential']} credential
 * @returns {string|Promise<string>|null} null where none is sent
 */
export function readCredential(credential) {
  return credentialOf('', credential)?.get() ?? null;
}

/** Forget what a function has fetched: the next request asks it again. @param {CallOptions['credential']} credential */
export function forgetCredential(credential) {
  if (typeof credential === 'function') FETCHED.delete(credential);
}

// ---- One call, one response ---------------------------------------------------------------------

/**
 * Send a request; at a 401 once more, with a credential that was fetched anew.
 * @param {string|URL} url
 * @param {RequestInit} init
 * @param {Record<string, string|undefined>} fixed headers
 * @param {CallOptions} options
 */
async function call(url, init, fixed, options) {
  const { signal } = options;
  const credential = credentialOf(url, options.credential);
  /** @param {string} [refused] */
  const show = (refused) => {
    throwIfAborted(signal);
    return credential === null ? undefined : unlessAborted(credential.get(refused), signal);
  };
  const shown = await show();
  let response = await send(url, init, { ...fixed, authorization: bearer(shown) }, options);
  if (response.status === 401 && credential?.renews) {
    response.body?.cancel().catch(() => {});
    response = await send(url, init, { ...fixed, authorization: bearer(await show(shown)) }, options);
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** @param {string|undefined} credential */
function bearer(credential) {
  return credential === undefined ? undefined : `Bearer ${credential}`;
}

/**
 * @param {string|URL} url
 * @param {RequestInit} init
 * @param {Record<string, string|undefined>} fixed headers
 * @param {CallOptions} options
 */
async function send(url, init, fixed, { signal, headers, fetch = globalThis.fetch }) {
  const all = new Headers(await (typeof headers === 'function' ? headers() : headers));
  for (const [name, value] of Object.entries(fixed)) if (value !== undefined) all.set(name, value);
  try {
    return await fetch(url, { ...init, headers: all, signal });
  } catch (cause) {
    throwIfAborted(signal);
    const where = withoutQuery(url);
    if (/** @type {any} */ (cause)?.path) /** @type {any} */ (cause).path = where; // Bun says the whole URL
    if (/** @type {any} */ (cause)?.cause?.code === 'ERR_INVALID_URL') throw new TypeError(`Failed to parse URL from ${where}`); // Node: no attempt will change it
    throw new SeseragiError('connection_failed', `no answer from ${where}`, { retryable: true, cause });
  }
}

/** For messages: a query may have a token. @param {string|URL} url */
function withoutQuery(url) {
  return `${url}`.replace(/[?#].*$/s, '');
}

/**
 * @param {string|URL} url
 * @param {unknown} body
 * @param {Record<string, string|undefined>} fixed
 * @param {CallOptions} options
 */
function post(url, body, fixed, options) {
  return call(url, { method: 'POST', body: JSON.stringify(body) }, { 'content-type': 'application/json', ...fixed }, options);
}

/** @param {string} data @returns {StreamEvent} */
function parseEvent(data) {
  let event;
  try {
    event = JSON.parse(data);
  } catch (cause) {
    throw new SeseragiError('invalid_response', 'an event of the stream is not JSON', { cause });
  }
  if (typeof event?.type !== 'string') throw new SeseragiError('invalid_response', 'an event of the stream has no type');
  return event;
}

/** @type {Dialect} */
const NATIVE = { format: 'native', parse: parseEvent, ends: (event) => event.type === 'stream.end' };

/** The messages of one response, in the batches in which its bytes come. */
class Connection {
  #reader;
  #decoder = new SseDecoder();

  /** @param {Response} response */
  constructor(response) {
    this.about = { status: response.status, requestId: response.headers.get('x-request-id') };
    const type = response.headers.get('content-type') ?? '';
    if (!response.body || !/^text\/event-stream\s*(;|$)/i.test(type)) {
      response.body?.cancel().catch(() => {});
      // Chromium takes a head that was cut for a whole one.
      if ('text/event-stream'.startsWith(type.toLowerCase())) throw lost(0, this.about);
      throw new SeseragiError('invalid_response', `expected text/event-stream, got ${type}`, this.about);
    }
    this.#reader = response.body.getReader();
  }

  get retryMs() {
    return this.#decoder.retry;
  }

  /** @returns {Promise<Message[]|null>} null at the end of the body */
  async read() {
    const { done, value } = await this.#reader.read();
    return done ? null : this.#decoder.feed(value);
  }

  /** Close it; a read that waits gets the end of the body. */
  close() {
    return this.#reader.cancel().catch(() => {}); // rejects when the body broke, which its reader was told
  }
}

/**
 * Read the events of one response, up to and including `stream.end`. It does not reconnect.
 *
 * Leaving the loop early cancels the body. An abort of the signal throws its reason.
 *
 * @param {Response} response
 * @param {{signal?: AbortSignal}} [options] the signal that the request was made with
 * @returns {AsyncGenerator<Received, void, void>}
 */
export async function* readEvents(response, { signal } = {}) {
  if (!response.ok) throw await errorOf(response);
  const connection = new Connection(response);
  let count = 0;
  try {
    for (let messages; (messages = await connection.read()); ) {
      for (const { id, data } of messages) {
        throwIfAborted(signal);
        const event = parseEvent(data);
        count += 1;
        yield { id, event, data };
        if (event.type === 'stream.end') return;
      }
    }
  } catch (cause) {
    throwIfAborted(signal);
    if (cause instanceof SeseragiError) throw cause;
    throw lost(count, { ...connection.about, cause });
  } finally {
    await connection.close();
  }
  throwIfAborted(signal);
  throw lost(count, connection.about);
}

// ---- A stream over any number of connections ----------------------------------------------------

const RETRY_MS = 1000; // the floor until the relay has named its own
const LONGEST_DELAY_MS = 30_000;
const STALL_MS = 45_000; // four heartbeats of the relay
const PROBATION_MS = 11_000; // a heartbeat, after a sign that the network has changed
const OVERDUE_MS = 3000; // instead of it, where the heartbeat is missing already
const HEAD_MS = 2500; // a GET is answered at once; each try that is not doubles it, up to stallMs
const STOP_MS = 3000; // a stop that takes longer may wait for a connection, of which a browser has six a site over HTTP/1.1
const STEADY_MS = 10_000; // a connection that held so long counts as a success
const GONE = new Set([400, 404, 409, 410]); // with these there is nothing to come back to
const STORAGE_KEY = 'seseragi';
const OWN_QUERY = ['after', 'format', 'from', 'suffix']; // what a client says itself; of an events_url it takes the rest
const ENDING_STRIDE = 10 ** 8;

/**
 * One generation, read while it runs. Iterating it sends the request; it can be iterated once.
 *
 * It dispatches `statechange` whenever `readyState` has changed, and `wait` whenever `retryAt` has.
 *
 * @implements {AsyncIterable<Received>}
 */
export class ChatStream extends EventTarget {
  /** The stream's id, once the answer has begun. @type {string|null} */
  streamId = null;
  /** The id of the last event handed over: the cursor. @type {string|null} */
  lastEventId = null;
  /** @type {string|null} */
  requestId = null;
  /** How often a lost connection was replaced. */
  reconnects = 0;
  /** Why it has to connect again, else null. @type {SeseragiError|null} */
  problem = null;
  /** When the next attempt is made, in milliseconds since the epoch; null while none is waited for. @type {number|null} */
  retryAt = null;

  #request;
  #options;
  #streamsUrl;
  /** @type {Dialect} */
  #dialect;
  #query = ''; // of the events_url that was given
  /** @type {ReadyState} */
  #state = 'connecting';
  #taken = false;
  #ended = false;
  #confirmed = false; // the id of the stream is not only from a head, which may have been cut
  #opened = false; // there was a connection once
  #openedAt = 0;
  #heardAt = 0;
  #count = 0;
  #last = 0; // the number of the last event, of those of the form `<stream id>.<number>`
  #attempts = 0; // since the last success
  #waitedMs = 0;
  #isSilent = false; // the last connection was given up by the watchdog
  #retryMs;
  /** @type {{reason: unknown}|null} */
  #left = null;
  #attempt = new AbortController();
  /** @type {Connection|null} */
  #connection = null;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #watchdog;
  /** @type {((now?: boolean) => void)|null} */
  #wake = null;
  #identify = () => {};
  /** Resolves when the stream's id is known, or never will be. */
  #identified = new Promise((resolve) => { this.#identify = () => resolve(undefined); });

  /**
   * @param {ChatRequest|null} request null to read a stream that exists
   * @param {ChatOptions & ResumeOptions & {stream?: string, dialect?: Dialect}} [options]
   */
  constructor(request, options = {}) {
    super();
    const { url = CHAT_URL, streamsUrl = besides(`${url}`), stream, after, retryMs = RETRY_MS, dialect = NATIVE } = options;
    this.#request = request;
    this.#dialect = dialect;
    this.#options = options;
    this.#streamsUrl = streamsUrl;
    this.#retryMs = retryMs;
    if (stream !== undefined) this.#pointTo(stream, after);
  }

  /** `connecting`, `open`, `reconnecting` or `closed`. */
  get readyState() {
    return this.#state;
  }

  [Symbol.asyncIterator]() {
    // A second loop would end at once, and so make a stream that was left look finished.
    if (this.#taken) throw new TypeError('a ChatStream is read once: call chat() or resume() again');
    this.#taken = true;
    return this.#read();
  }

  /**
   * Stop the generation, wherever it is read. The loop goes on to its `stream.end`.
   *
   * Before the id of the stream is known it is asked for under the `idempotencyKey`; without a
   * key the answer has to begin first. A request that could not be sent yet is given up: then
   * there is no stream, and the loop throws an AbortError.
   */
  async cancel() {
    if (!this.#taken) return this.disconnect();
    if (this.streamId === null && this.#options.idempotencyKey !== undefined) await this.#findOut();
    await this.#identified;
    const { headers, fetch, credential, maxAttempts = 20 } = this.#options;
    for (let attempt = 0; this.streamId !== null && !this.#ended; attempt++) {
      try {
        await this.#through((signal) => cancel(this.#urlTo('cancel'), { headers, fetch, credential, signal }));
        this.#wake?.(); // there is a network
        return;
      } catch (error) {
        if (!(error instanceof SeseragiError) || !mayPass(error) || attempt >= maxAttempts) throw error;
        const delay = Math.max(this.#delay(attempt), (error.retryAfterS ?? 0) * 1000);
        await new Promise((resolve) => { setTimeout(resolve, Math.min(delay, LONGEST_TIMEOUT_MS)); });
      }
    }
  }

  /**
   * Stop reading and leave the generation to the relay, which keeps it going for a while.
   * The loop throws the reason, by default an AbortError; `resume()` reads on later.
   * @param {unknown} [reason]
   */
  disconnect(reason = abortError('the stream was disconnected')) {
    if (this.#left || this.#ended || this.#state === 'closed') return;
    this.#left = { reason };
    this.#drop();
    this.#wake?.();
    this.#enter('closed');
  }

  /** End the wait for the next attempt, for somebody who does not want to wait; also one that the relay asked for. */
  retryNow() {
    if (!this.#wake) return;
    this.#succeed();
    this.#wake(true);
  }

  /** Learn the id of a stream whose answer has not begun, without waiting for that. */
  async #findOut() {
    const { headers, fetch, credential, idempotencyKey, url } = this.#options;
    const unsent = abortError('stopped before the answer had begun');
    if (this.#wake) return this.disconnect(unsent); // between two attempts: no network
    try {
      const { id } = await this.#through((signal) => startAsync(/** @type {ChatRequest} */ (this.#request), { url, headers, fetch, credential, idempotencyKey, signal }));
      if (this.streamId !== null || this.#left || this.#state === 'closed') return;
      this.#identifyAs(id);
      this.#confirmed = true;
      this.#drop(lost(0, {})); // the loop reads on by the id
    } catch {
      // Nothing is known of a stream: what may have been started ends without a reader.
      if (this.streamId === null) this.disconnect(unsent);
    }
  }

  /**
   * Send what stops. Where no answer comes, the connection that is read gives way to it, and at last it is given up itself.
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} send
   */
  async #through(send) {
    const controller = new AbortController();
    const late = new SeseragiError('connection_failed', `no answer to the stop for ${3 * STOP_MS} ms`, { retryable: true });
    const timers = [setTimeout(() => this.#drop(this.#lost(late)), STOP_MS), setTimeout(() => abort(controller, late), 3 * STOP_MS)];
    try {
      return await unlessAborted(send(controller.signal), controller.signal);
    } finally {
      for (const timer of timers) clearTimeout(timer);
    }
  }

  /** @returns {AsyncGenerator<Received, void, void>} */
  async *#read() {
    const unlisten = this.#listen();
    try {
      for (;;) {
        let failure;
        try {
          await this.#connect();
          for (let messages; (messages = await this.#receive()); ) {
            for (const message of messages) {
              const received = this.#accept(message);
              if (!received) continue;
              yield received;
              if (this.#ended) return;
              this.#throwIfLeft();
            }
          }
          failure = this.#lost(this.#cause());
        } catch (error) {
          if (this.#left || !(error instanceof SeseragiError)) throw error;
          failure = error.status === 404 && this.streamId !== null && !this.#confirmed ? this.#unknown(error) : error;
        } finally {
          clearTimeout(this.#watchdog);
          this.#connection?.close();
          this.#connection = null;
        }
        await this.#recover(failure);
      }
    } catch (error) {
      this.#throwIfLeft();
      if (error instanceof SeseragiError && GONE.has(error.status) && this.streamId !== null) this.#forget();
      throw error;
    } finally {
      unlisten();
      this.#enter('closed');
      this.#identify();
    }
  }

  /** Open the next connection: by POST until the id of the stream is known, then by GET. */
  async #connect() {
    this.#throwIfLeft();
    this.#attempt = new AbortController();
    this.#isSilent = false;
    const { headers, fetch, credential, stallMs = STALL_MS, idempotencyKey } = this.#options;
    const options = { headers, fetch, credential, signal: this.#attempt.signal };
    const accept = 'text/event-stream';
    const { url = CHAT_URL } = this.#options;
    let response;
    if (this.#isPost) {
      // Not given up: a long request takes its time on a slow network, and the relay to answer.
      this.#watch(stallMs, () => {
        this.problem = new SeseragiError('connection_failed', `no answer for ${stallMs} ms: the request is slow, or waits for a connection`, { retryable: true });
        this.dispatchEvent(new Event('statechange'));
      });
      response = await post(url, this.#request, { accept, 'idempotency-key': idempotencyKey }, options);
    } else {
      this.#watch(Math.min(stallMs, HEAD_MS * 2 ** Math.max(0, this.#attempts - 1)));
      response = await call(this.streamId === null ? url : this.#urlTo('events') + this.#eventsQuery(), { cache: 'no-store' },
        { accept, 'last-event-id': this.lastEventId ?? undefined }, options);
    }
    this.#identifyAs(response.headers.get('stream-id'));
    this.requestId = response.headers.get('x-request-id');
    if (response.status === 204) {
      this.#forget(); // no attempt will bring more
      throw endMissing(this.requestId);
    }
    this.#connection = new Connection(response);
    if (this.#opened) this.reconnects += 1;
    this.#opened = true;
    this.#enter('open');
    this.#openedAt = this.#heardAt = Date.now(); // performance.now() may stand still while a device sleeps
  }

  /** Wait for bytes. @returns {Promise<Message[]|null>} null when there will be no more */
  async #receive() {
    const connection = /** @type {Connection} */ (this.#connection);
    this.#throwIfLeft();
    this.#watch(this.#options.stallMs ?? STALL_MS);
    let messages;
    try {
      messages = await connection.read();
    } catch (cause) {
      throw this.#lost(this.#cause() ?? cause);
    } finally {
      clearTimeout(this.#watchdog);
    }
    this.#throwIfLeft();
    this.#heardAt = Date.now();
    this.#retryMs = connection.retryMs ?? this.#retryMs;
    if (this.#heardAt - this.#openedAt > STEADY_MS) this.#succeed();
    return messages;
  }

  /** Check a message's number. @param {Message} message @returns {Received|null} null if it was seen before */
  #accept({ id, data }) {
    const event = this.#dialect.parse(data);
    const [, stream, digits] = /^(.+)\.[a-z]?(\d+)$/.exec(id) ?? [];
    if (!stream || (this.streamId ?? stream) !== stream) {
      throw new SeseragiError('invalid_response', `an event has the id ${JSON.stringify(id)}, which is not of this stream`);
    }
    const number = Number(digits);
    if (number <= this.#last) return null;
    // The end of a stream whose relay was lost has numbers that the lost one cannot have given:
    // as many strides on as events were kept, which frames of another dialect do not tell.
    const strides = (number - this.#last - 1) / ENDING_STRIDE;
    const ending = this.#dialect === NATIVE ? strides === this.#last + 1 : Number.isInteger(strides);
    if (number !== this.#last + 1 && !ending) {
      throw new SeseragiError('events_missing', `event ${number} of the stream came after event ${this.#last}`);
    }
    this.#identifyAs(stream);
    this.#confirmed = true;
    this.#last = number;
    this.#count += 1;
    this.#succeed();
    this.lastEventId = id;
    this.#ended = this.#dialect.ends(event);
    if (this.#ended) this.#forget();
    else this.#remember();
    return { id, event, data };
  }

  /** Wait for the time of the next attempt, or throw what makes one useless. @param {SeseragiError} failure */
  async #recover(failure) {
    const { maxAttempts = 20, maxWaitMs = 600_000 } = this.#options;
    if (this.#left || !this.#mayRetry(failure) || maxAttempts === 0) throw failure;
    const askedMs = (failure.retryAfterS ?? 0) * 1000;
    const waitMs = this.#isSilent ? (1 + Math.random()) * this.#retryMs / 8 : this.#delay(this.#attempts); // silence was a wait already
    const delay = Math.max(askedMs, waitMs);
    if (this.#attempts >= maxAttempts || this.#waitedMs + delay > maxWaitMs) throw this.#givenUp(failure);
    this.#attempts += 1;
    this.#waitedMs += delay;
    this.problem = failure;
    this.#enter(this.#opened ? 'reconnecting' : 'connecting');
    this.#waitUntil(Date.now() + delay);
    // What the relay asked for holds even when the network comes back.
    if (!await this.#sleep(askedMs)) await this.#sleep(delay - askedMs, { wakeable: true });
    this.#waitUntil(null);
  }

  /** @param {number|null} at */
  #waitUntil(at) {
    this.retryAt = at;
    this.dispatchEvent(new Event('wait'));
  }

  /**
   * A GET is repeated whatever happened. A POST is not, unless a key makes it safe and no stream
   * has failed by it: what the relay says of an upstream would be the same again.
   * @param {SeseragiError} failure
   */
  #mayRetry(failure) {
    if (!this.#isPost) return mayPass(failure);
    const begun = !['connection_failed', 'connection_lost', 'credential_failed', 'http_error', 'overloaded'].includes(failure.code);
    return this.#options.idempotencyKey !== undefined && mayPass(failure) && !begun;
  }

  /** @param {SeseragiError} failure */
  #givenUp(failure) {
    if (!this.#opened) return failure;
    const { message, status, requestId, retryAfterS } = failure;
    return new SeseragiError('connection_lost', `${message}; gave up after ${this.#attempts} more attempts`,
      { status, requestId, retryAfterS, retryable: true, cause: failure });
  }

  /** Any time between the floor, which is the relay's `retry:`, and a ceiling that doubles. @param {number} attempts */
  #delay(attempts) {
    const { maxDelayMs = LONGEST_DELAY_MS } = this.#options;
    const ceiling = Math.min(maxDelayMs, 1.5 * Math.max(1, this.#retryMs) * 2 ** attempts);
    return this.#retryMs + Math.random() * Math.max(0, ceiling - this.#retryMs);
  }

  /** @param {number} ms @param {{wakeable?: boolean}} [how] @returns {Promise<boolean|undefined>} whether somebody wants no wait at all */
  async #sleep(ms, { wakeable = false } = {}) {
    if (ms <= 0 || this.#left) return;
    const hurried = await new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(ms, LONGEST_TIMEOUT_MS));
      this.#wake = (now) => {
        if (!wakeable && !now && !this.#left) return;
        clearTimeout(timer);
        resolve(now);
      };
    });
    this.#wake = null;
    return hurried;
  }

  /** Give up the connection, or do something else, unless a byte comes within so long. @param {number} ms @param {() => void} [act] */
  #watch(ms, act = () => {
    this.#isSilent = true;
    this.#drop(new SeseragiError('connection_lost', `not a byte came for ${ms} ms`, { retryable: true }));
  }) {
    clearTimeout(this.#watchdog);
    if (ms <= LONGEST_TIMEOUT_MS) this.#watchdog = setTimeout(act, ms);
  }

  /** @param {unknown} [reason] */
  #drop(reason) {
    abort(this.#attempt, reason);
    this.#connection?.close(); // also where a fetch of the caller's own knows no signals
  }

  /** Why the connection was given up, if it was. */
  #cause() {
    const { signal } = this.#attempt;
    return signal.aborted ? reasonOf(signal) : undefined;
  }

  /** Follow the caller's signal and the signs that the network is back. @returns {() => void} */
  #listen() {
    const { signal, stallMs = STALL_MS } = this.#options;
    const { document } = globalThis;
    const leave = () => this.disconnect(signal && reasonOf(signal));
    const hurry = () => {
      if (document?.visibilityState === 'hidden') return;
      if (this.#wake) {
        this.#succeed(); // another network, another try
        this.#wake();
      } else if (!this.#isPost || this.#options.idempotencyKey !== undefined) {
        // A connection that did not survive the change does not tell.
        const overdue = Math.max(OVERDUE_MS, PROBATION_MS - Date.now() + this.#heardAt);
        this.#watch(Math.min(stallMs, this.#connection ? overdue : this.#isPost ? PROBATION_MS : HEAD_MS));
      }
    };
    if (signal?.aborted) leave();
    signal?.addEventListener('abort', leave);
    globalThis.addEventListener?.('online', hurry);
    document?.addEventListener('visibilitychange', hurry);
    return () => {
      clearTimeout(this.#watchdog);
      signal?.removeEventListener('abort', leave);
      globalThis.removeEventListener?.('online', hurry);
      document?.removeEventListener('visibilitychange', hurry);
    };
  }

  /** There is no such stream: the head that named it was cut within the name. @param {SeseragiError} cause */
  #unknown(cause) {
    this.#forget();
    this.streamId = null;
    return this.#lost(cause);
  }

  /** Whether it is asked for, and not read on. */
  get #isPost() {
    return this.#request !== null && this.streamId === null;
  }

  #throwIfLeft() {
    if (this.#left) throw this.#left.reason;
  }

  /** @param {unknown} cause */
  #lost(cause) {
    return lost(this.#count, { ...this.#connection?.about, cause });
  }

  #succeed() {
    this.#attempts = this.#waitedMs = 0;
  }

  /** @param {ReadyState} state */
  #enter(state) {
    if (state === 'open' || state === 'closed') this.problem = null;
    if (state === this.#state || this.#state === 'closed') return;
    this.#state = state;
    this.dispatchEvent(new Event('statechange'));
  }

  /** @param {string} stream an id, or an events_url @param {string|number|null} [after] */
  #pointTo(stream, after) {
    const [, base, id, query] = /^(.*)\/([^/?#]+)\/events(?:\?([^#]*))?(?:#.*)?$/.exec(stream) ?? [];
    if (base !== undefined) this.#streamsUrl = base;
    else if (stream.includes('/')) throw new TypeError(`${withoutQuery(stream)} is neither the id of a stream nor its events_url`);
    this.streamId = id === undefined ? stream : decodeURIComponent(id);
    this.#confirmed = true;
    this.#identify();
    const kept = (query ?? '').split('&').filter((pair) => pair && !OWN_QUERY.includes(pair.split('=')[0]));
    if (kept.length) this.#query = `?${kept.join('&')}`;
    const cursor = `${after ?? ''}`;
    this.#last = Number(/(?:^|\.)[a-z]?(\d+)$/.exec(cursor)?.[1] ?? 0);
    if (cursor && cursor !== '0') this.lastEventId = /^\d+$/.test(cursor) ? `${this.streamId}.${cursor}` : cursor;
  }

  /** @param {string|null} stream */
  #identifyAs(stream) {
    if (stream === null || this.streamId !== null) return;
    this.streamId = stream;
    this.#remember();
    this.#identify();
  }

  /** @param {'events'|'cancel'} what */
  #urlTo(what) {
    return `${this.#streamsUrl}/${encodeURIComponent(this.streamId ?? '')}/${what}`;
  }

  #eventsQuery() {
    const { format } = this.#dialect;
    return format === NATIVE.format ? this.#query : `${this.#query || '?'}${this.#query && '&'}format=${format}&suffix`;
  }

  // A storage that is full or forbidden costs the resumption after a reload, not the answer.
  #remember() {
    const { storage, storageKey = STORAGE_KEY } = this.#options;
    try {
      storage?.setItem(storageKey, JSON.stringify({ id: this.streamId, cursor: this.lastEventId }));
    } catch {}
  }

  #forget() {
    const { storage, storageKey = STORAGE_KEY } = this.#options;
    try {
      storage?.removeItem(storageKey);
    } catch {}
  }
}

/** Where the streams are, seen from where the chat is: `v1/streams` besides `v1/chat`. @param {string} [url] */
export function besides(url = CHAT_URL) {
  const path = url.replace(/[?#].*$/s, '');
  if (/(^|\/)chat$/.test(path)) return path.replace(/chat$/, 'streams');
  return /^https?:/i.test(path) ? new URL('/v1/streams', path).href : '/v1/streams';
}

// ---- Calls --------------------------------------------------------------------------------------

/**
 * Ask for an answer and read it as it comes.
 * @param {ChatRequest} request
 * @param {ChatOptions} [options]
 */
export function chat(request, options) {
  return new ChatStream(request, options);
}

/**
 * Read a stream that exists, from its beginning or after a cursor, and on while it runs.
 * @param {string} stream its id, or its `events_url`
 * @param {ResumeOptions} [options] `after`: the id of the last event seen, or its number
 */
export function resume(stream, options = {}) {
  return new ChatStream(null, { ...options, stream });
}

/**
 * Read on what a `storage` option has kept, after a reload for instance.
 *
 * The cursor is that of the last event handed over before. A page that has not kept what those
 * events said passes `after: null` to have them all again.
 *
 * @param {ClientStorage} storage
 * @param {string} [key]
 * @param {ResumeOptions} [options]
 * @returns {ChatStream|null} null if nothing was running
 */
export function resumeFrom(storage, key = STORAGE_KEY, options = {}) {
  let kept;
  try {
    kept = JSON.parse(storage.getItem(key) ?? 'null');
  } catch {
    return null; // not ours
  }
  if (typeof kept?.id !== 'string') return null;
  return resume(kept.id, { after: kept.cursor, ...options, storage, storageKey: key });
}

/**
 * Start a generation without reading it: for an EventSource, another tab, or later.
 * @param {ChatRequest} request
 * @param {CallOptions & {url?: string|URL, idempotencyKey?: string}} [options]
 * @returns {Promise<StartedStream>} the URLs resolved
 */
export async function startAsync(request, { url = CHAT_URL, idempotencyKey, ...options } = {}) {
  const fixed = { accept: 'application/json', prefer: 'respond-async', 'idempotency-key': idempotencyKey };
  const response = await post(url, request, fixed, options);
  const started = await response.json().catch(() => null);
  if (response.status !== 202 || typeof started?.events_url !== 'string') {
    throw new SeseragiError('invalid_response', `expected 202 with events_url, got ${response.status}`, { status: response.status });
  }
  /** @param {string} reference */
  const resolve = (reference) => new URL(reference, response.url || undefined).href;
  return { ...started, events_url: resolve(started.events_url), cancel_url: resolve(started.cancel_url) };
}

/**
 * List the streams of who asks: running ones, then ended ones, the newest first.
 * @param {ListOptions} [options]
 * @returns {Promise<StreamList>} with `next`, the `after` of the next page, if there is one
 */
export async function listStreams({ streamsUrl = besides(CHAT_URL), status, metadata, limit, after, ...options } = {}) {
  const asked = Object.entries({ status, metadata, limit, after }).filter(([, value]) => value !== undefined);
  const query = asked.length ? `?${new URLSearchParams(asked.map(([name, value]) => [name, `${value}`]))}` : '';
  const response = await call(streamsUrl + query, {}, { accept: 'application/json' }, options);
  const list = await response.json().catch(() => null);
  if (!Array.isArray(list?.data)) throw new SeseragiError('invalid_response', 'expected a list of streams', { status: response.status });
  return list;
}

/**
 * Watch the streams of who asks: their starts and ends, and with `events` what they say, over any
 * number of connections. It ends only by its signal, when the loop is left, when it is refused, or
 * after `maxAttempts` in vain.
 * @param {WatchOptions} [options]
 * @returns {AsyncGenerator<Watched, void, void>}
 */
export async function* watchStreams({ streamsUrl = besides(CHAT_URL), metadata, events, after = '', stallMs = STALL_MS, maxAttempts = Infinity, onLoss, ...options } = {}) {
  const query = new URLSearchParams({ ...(metadata && { metadata }), ...(events && { events: 'true' }) });
  const fixed = { accept: 'text/event-stream' };
  for (let retryMs = RETRY_MS, failures = 0; ; failures += 1) {
    let connection, failure;
    try {
      const response = await call(`${streamsUrl}/watch?${query}`, {}, { ...fixed, 'last-event-id': after || undefined }, options);
      const opened = connection = new Connection(response);
      for (;;) {
        const timer = setTimeout(() => opened.close(), stallMs);
        const messages = await opened.read().catch(() => undefined).finally(() => clearTimeout(timer));
        throwIfAborted(options.signal);
        if (messages === undefined) onLoss?.(); // it broke
        if (!messages) break; // it has ended, or broke
        for (const { id, data } of messages) {
          failures = 0;
          after = id;
          yield { id, event: /** @type {any} */ (parseEvent(data)) };
        }
      }
      retryMs = connection.retryMs ?? retryMs;
      failure = lost(0, connection.about);
    } catch (error) {
      throwIfAborted(options.signal);
      if (!(error instanceof SeseragiError && mayPass(error))) throw error;
      failure = error;
      onLoss?.();
    } finally {
      await connection?.close();
    }
    if (failures >= maxAttempts) throw failure;
    const waitMs = Math.max((failure.retryAfterS ?? 0) * 1000, Math.min(retryMs * 2 ** failures, LONGEST_DELAY_MS) * (1 + Math.random()) / 2);
    await unlessAborted(new Promise((resolve) => { setTimeout(resolve, Math.min(waitMs, LONGEST_TIMEOUT_MS)); }), options.signal);
  }
}

/**
 * Stop a generation. Readers still get its `stream.end`, with the status `cancelled`.
 *
 * What it sends outlives the page, so that it may be called as a page is being closed.
 * @param {string} stream its id, or its `cancel_url`
 * @param {CallOptions & {streamsUrl?: string}} [options]
 */
export async function cancel(stream, { streamsUrl = besides(CHAT_URL), ...options } = {}) {
  const url = stream.includes('/') ? stream : `${streamsUrl}/${encodeURIComponent(stream)}/cancel`;
  const response = await call(url, { method: 'POST', keepalive: true }, { accept: 'application/json' }, options);
  await response.body?.cancel();
}
