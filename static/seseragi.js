/**
 * The browser client of Seseragi: one async iterator of events over `fetch`.
 *
 *     import { chat } from './seseragi.js';
 *
 *     const request = { model: 'demo', messages: [{ role: 'user', content: 'こんにちは' }] };
 *     for await (const { event } of chat(request)) {
 *       if (event.type === 'text.delta') output.append(event.text);
 *     }
 *
 * An ES module without dependencies, for browsers and Node 20 or later: copy it where you need it.
 * Its rule: a stream that was cut never looks finished. The loop ends by itself only after
 * `stream.end`; a body that ends before it throws a SeseragiError with the code `connection_lost`.
 * It reads a stream once. It does not reconnect and does not touch the document.
 *
 * @module seseragi
 */

// ---- The events ---------------------------------------------------------------------------------

/** The name of every native event: what an EventSource has to listen for, one by one. */
export const EVENT_TYPES = Object.freeze(/** @type {const} */ ([
  'stream.start', 'stream.target',
  'text.start', 'text.delta', 'text.end',
  'reasoning.start', 'reasoning.delta', 'reasoning.end',
  'refusal.start', 'refusal.delta', 'refusal.end',
  'tool_call.start', 'tool_call.delta', 'tool_call.end',
  'opaque', 'source', 'media', 'logprobs', 'content_filter', 'provider_tool', 'notice',
  'choice.end', 'usage', 'stream.end',
]));

/** @typedef {'stop'|'length'|'tool_calls'|'content_filter'|'refusal'|'pause'|'error'|'cancelled'|'unknown'} FinishReason */
/** @typedef {'completed'|'cancelled'|'failed'|'interrupted'} Status */

/**
 * What a stream cost. A number that the provider did not give is absent, never 0.
 * @typedef {object} Usage
 * @property {number} [input_tokens]
 * @property {number} [output_tokens]
 * @property {number} [total_tokens]
 * @property {number} [cached_input_tokens]
 * @property {number} [cache_write_tokens]
 * @property {number} [reasoning_tokens]
 */

/** @typedef {{code: string, message: string, retryable: boolean, retry_after_s?: number}} StreamFailure */

/**
 * `choice` is absent for choice 0; blocks are numbered across the whole stream.
 * @typedef {{block: number, choice?: number}} InBlock
 */

/** @typedef {{type: 'stream.start', stream: string, model: string, created: number}} StreamStart */
/** @typedef {{type: 'stream.target', upstream: string, model: string, attempt: number, upstream_id?: string}} StreamTarget */
/** @typedef {InBlock & {type: 'text.start'}} TextStart */
/** @typedef {InBlock & {type: 'text.delta', text: string}} TextDelta */
/** @typedef {InBlock & {type: 'text.end'}} TextEnd */
/** @typedef {InBlock & {type: 'reasoning.start'}} ReasoningStart */
/** @typedef {InBlock & {type: 'reasoning.delta', text: string}} ReasoningDelta */
/** @typedef {InBlock & {type: 'reasoning.end', signature?: string, encrypted?: string}} ReasoningEnd */
/** @typedef {InBlock & {type: 'refusal.start'}} RefusalStart */
/** @typedef {InBlock & {type: 'refusal.delta', text: string}} RefusalDelta */
/** @typedef {InBlock & {type: 'refusal.end'}} RefusalEnd */
/** @typedef {InBlock & {type: 'tool_call.start', id: string, name: string}} ToolCallStart */
/** @typedef {InBlock & {type: 'tool_call.delta', arguments: string}} ToolCallDelta a piece of JSON text */
/** @typedef {InBlock & {type: 'tool_call.end', arguments: string}} ToolCallEnd the whole JSON text */
/** @typedef {Partial<InBlock> & {type: 'opaque', format: string, data: unknown}} Opaque to be sent back on the next turn */
/** @typedef {Partial<InBlock> & {type: 'source', url?: string, document?: unknown, title?: string, cited_text?: string, start?: number, end?: number}} Source */
/** @typedef {InBlock & {type: 'media', media_type: string, url?: string, data?: string}} Media `data` is base64 */
/** @typedef {InBlock & {type: 'logprobs', content: unknown}} Logprobs */
/** @typedef {{type: 'content_filter', choice?: number, scope: 'prompt'|'completion', categories: unknown, filtered: boolean}} ContentFilter */
/** @typedef {InBlock & {type: 'provider_tool', name: string, input?: unknown, output?: unknown}} ProviderTool a tool that the provider ran itself */
/** @typedef {{type: 'notice', code: string, message: string}} Notice */
/** @typedef {{type: 'choice.end', choice?: number, finish_reason: FinishReason, finish_reason_raw?: string, stop_sequence?: string}} ChoiceEnd */
/** @typedef {Usage & {type: 'usage'}} UsageEvent */
/** @typedef {{type: 'stream.end', status: Status, finish_reason?: FinishReason, usage?: Usage, error?: StreamFailure}} StreamEnd always the last */

/**
 * Every native event, told apart by `type`.
 * @typedef {StreamStart | StreamTarget
 *   | TextStart | TextDelta | TextEnd
 *   | ReasoningStart | ReasoningDelta | ReasoningEnd
 *   | RefusalStart | RefusalDelta | RefusalEnd
 *   | ToolCallStart | ToolCallDelta | ToolCallEnd
 *   | Opaque | Source | Media | Logprobs | ContentFilter | ProviderTool | Notice
 *   | ChoiceEnd | UsageEvent | StreamEnd} StreamEvent
 */

/**
 * One event as it was received. The id is opaque: the cursor to read on from.
 * (It stands beside the event and not in it: `tool_call.start` has an `id` of its own.)
 * @typedef {object} Received
 * @property {string} id
 * @property {StreamEvent} event
 * @property {string} data the event's JSON as it stood on the wire
 */

/**
 * The body of POST /v1/chat: a Chat Completions request and two fields of our own.
 * @typedef {object} ChatFields
 * @property {{role: string, content?: unknown, [field: string]: unknown}[]} messages
 * @property {string} [model]
 * @property {'continue'|'cancel'|number} [on_disconnect]
 * @property {Record<string, unknown>} [provider_options]
 */
/** @typedef {ChatFields & Record<string, unknown>} ChatRequest */

/**
 * @typedef {object} CallOptions
 * @property {AbortSignal} [signal]
 * @property {typeof globalThis.fetch} [fetch] in place of the global one
 * @property {HeadersInit} [headers] sent with the request, an `authorization` for instance
 */

// ---- Errors -------------------------------------------------------------------------------------

/**
 * What went wrong outside the stream of events. `code` is the relay's (`rate_limited`,
 * `model_not_found`, ...) or one of the client's own:
 *
 *     connection_failed   no answer came at all
 *     connection_lost     the body ended or broke before `stream.end`
 *     invalid_response    an answer that is not what a relay sends
 *     http_error          an error status without a problem document, from a proxy perhaps
 *
 * A failure inside a stream is no exception: it is `stream.end` with its `status` and `error`.
 */
export class SeseragiError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{status?: number, retryable?: boolean, retryAfterS?: number|null, requestId?: string|null, cause?: unknown}} [about]
   */
  constructor(code, message, { status = 0, retryable = false, retryAfterS = null, requestId = null, cause } = {}) {
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
  }
}

/** @param {Response} response */
async function errorOf(response) {
  const { status, headers } = response;
  const about = { status, retryAfterS: retryAfter(headers.get('retry-after')), requestId: headers.get('x-request-id') };
  const problem = await response.json().catch(() => null);
  if (typeof problem?.code !== 'string') {
    const message = `the server answered ${status} ${response.statusText}`.trim();
    return new SeseragiError('http_error', message, { ...about, retryable: status === 429 || status >= 500 });
  }
  return new SeseragiError(problem.code, problem.detail ?? problem.title ?? problem.code, {
    status,
    retryable: problem.retryable === true,
    retryAfterS: problem.retry_after_s ?? about.retryAfterS,
    requestId: problem.request_id ?? about.requestId,
  });
}

/** Read `Retry-After`, seconds or a date, as seconds from now. @param {string|null} value */
function retryAfter(value) {
  if (!value) return null;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}

// ---- Server-sent events -------------------------------------------------------------------------

/**
 * One decoded message. `id` and `retry` are those in force when it was dispatched.
 * @typedef {{event: string, data: string, id: string, retry: number|null}} Message
 */

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

// ---- Calls --------------------------------------------------------------------------------------

/**
 * @param {string|URL} url
 * @param {unknown} body
 * @param {Record<string, string>} fixed
 * @param {CallOptions} options
 */
async function post(url, body, fixed, { signal, headers, fetch = globalThis.fetch }) {
  const all = new Headers(headers);
  for (const [name, value] of Object.entries(fixed)) all.set(name, value);
  let response;
  try {
    response = await fetch(url, { method: 'POST', headers: all, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    throw new SeseragiError('connection_failed', `no answer from ${url}`, { retryable: true, cause });
  }
  if (!response.ok) throw await errorOf(response);
  return response;
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

/**
 * Read the events of a response, up to and including `stream.end`.
 *
 * Leaving the loop early cancels the body. An abort of the signal throws its reason.
 *
 * @param {Response} response
 * @param {{signal?: AbortSignal}} [options] the signal that the request was made with
 * @returns {AsyncGenerator<Received, void, void>}
 */
export async function* readEvents(response, { signal } = {}) {
  if (!response.ok) throw await errorOf(response);
  const about = { status: response.status, requestId: response.headers.get('x-request-id') };
  const type = response.headers.get('content-type') ?? 'nothing';
  if (!response.body || !/^text\/event-stream\b/i.test(type)) {
    await response.body?.cancel();
    throw new SeseragiError('invalid_response', `expected text/event-stream, got ${type}`, about);
  }
  const reader = response.body.getReader();
  const decoder = new SseDecoder();
  let count = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      signal?.throwIfAborted();
      if (done) break;
      for (const { id, data } of decoder.feed(value)) {
        const event = parseEvent(data);
        count += 1;
        yield { id, event, data };
        if (event.type === 'stream.end') return;
        signal?.throwIfAborted();
      }
    }
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    if (cause instanceof SeseragiError) throw cause;
    throw lost(count, { ...about, cause });
  } finally {
    await reader.cancel().catch(() => {}); // rejects when the body broke, which has been told above
  }
  throw lost(count, about);
}

/** @param {number} count @param {object} about */
function lost(count, about) {
  const message = `the connection was lost before the end of the stream, after ${count} event${count === 1 ? '' : 's'}`;
  return new SeseragiError('connection_lost', message, { ...about, retryable: true });
}

/**
 * One generation, read while it runs. Iterating it sends the request; it can be iterated once.
 * @implements {AsyncIterable<Received>}
 */
export class ChatStream {
  #events;
  #taken = false;
  /** The stream's id, once the answer has begun. @type {string|null} */
  streamId = null;
  /** The id of the last event read: the cursor. @type {string|null} */
  lastEventId = null;
  /** @type {string|null} */
  requestId = null;

  /**
   * @param {ChatRequest} request
   * @param {CallOptions & {url?: string|URL}} [options]
   */
  constructor(request, options = {}) {
    this.#events = this.#read(request, options);
  }

  [Symbol.asyncIterator]() {
    // A second loop would end at once, and so make a stream that was left look finished.
    if (this.#taken) throw new TypeError('a ChatStream is read once: call chat() again for another answer');
    this.#taken = true;
    return this.#events;
  }

  /**
   * @param {ChatRequest} request
   * @param {CallOptions & {url?: string|URL}} options
   * @returns {AsyncGenerator<Received, void, void>}
   */
  async *#read(request, { url = '/v1/chat', ...options }) {
    const response = await post(url, request, { 'content-type': 'application/json', accept: 'text/event-stream' }, options);
    this.streamId = response.headers.get('stream-id');
    this.requestId = response.headers.get('x-request-id');
    for await (const received of readEvents(response, options)) {
      if (received.event.type === 'stream.start') this.streamId = received.event.stream;
      this.lastEventId = received.id;
      yield received;
    }
  }
}

/**
 * Ask for an answer and read it as it comes.
 * @param {ChatRequest} request
 * @param {CallOptions & {url?: string|URL}} [options]
 */
export function chat(request, options) {
  return new ChatStream(request, options);
}

/**
 * Start a generation without reading it: for an EventSource, another tab, or later.
 * @param {ChatRequest} request
 * @param {CallOptions & {url?: string|URL}} [options]
 * @returns {Promise<{id: string, events_url: string, cancel_url: string}>} the URLs resolved
 */
export async function startAsync(request, { url = '/v1/chat', ...options } = {}) {
  const fixed = { 'content-type': 'application/json', accept: 'application/json', prefer: 'respond-async' };
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
 * Stop a generation. Readers still get its `stream.end`, with the status `cancelled`.
 * @param {string} stream its id, or its `cancel_url`
 * @param {CallOptions & {streamsUrl?: string}} [options]
 */
export async function cancel(stream, { streamsUrl = '/v1/streams', ...options } = {}) {
  const url = stream.includes('/') ? stream : `${streamsUrl}/${encodeURIComponent(stream)}/cancel`;
  const response = await post(url, undefined, { accept: 'application/json' }, options);
  await response.body?.cancel();
}
