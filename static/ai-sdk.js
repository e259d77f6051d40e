/**
 * `useChat` of Vercel's AI SDK over the relay, by a transport that comes back by itself.
 *
 *     const chat = new Chat({ id, transport: new SeseragiChatTransport({ api: '/v1/ui/chat' }) });
 *     useChat({ chat, resume: true });
 *
 * A connection that is lost is continued from the last chunk: the chat is not told, and is given
 * each chunk once. After a reload the answer comes again from its beginning, in the message that
 * it had. Nothing of the SDK is imported.
 *
 * @module seseragi/ai-sdk
 */

import { newId } from './ids.js';
import { ChatStream, cancel } from './seseragi.js';

/** @typedef {import('./ai-sdk.d.ts').ChatTransportOptions} ChatTransportOptions */
/** @typedef {import('./ai-sdk.d.ts').UIMessageChunk} UIMessageChunk */
/** @typedef {import('./seseragi.d.ts').CallOptions} CallOptions */

const DONE = '[DONE]';

/** @type {import('./seseragi.d.ts').Dialect<UIMessageChunk>} */
const UI = {
  format: 'ui',
  parse: (data) => (data === DONE ? { type: DONE } : JSON.parse(data)),
  ends: ({ type }) => type === DONE,
};

/** What a status means where the body is only a message: whether asking again may help is not for us to find out. */
const CODES = /** @type {Record<number, string>} */ ({
  400: 'invalid_request', 401: 'unauthenticated', 403: 'forbidden', 404: 'model_not_found', 413: 'request_too_large', 415: 'unsupported_media_type',
  422: 'idempotency_mismatch', 429: 'rate_limited', 502: 'upstream_unavailable', 503: 'upstream_overloaded', 504: 'upstream_timeout',
});

/** A `ChatTransport` of the AI SDK, versions 5, 6 and 7. */
export class SeseragiChatTransport {
  /** What `reconnectToStream` gives begins with the answer's `start`. */
  resumeStreamIsReplay = true;
  #api;
  #body;
  #options;
  /** What is being read, by chat. @type {Map<string, ChatStream>} */
  #readings = new Map();

  /** @param {ChatTransportOptions} [options] */
  constructor({ api = '/v1/ui/chat', body = {}, ...options } = {}) {
    this.#api = api;
    this.#body = body;
    const relay = /^(.*)\/ui\/chat\/?(\?.*)?$/s.exec(api)?.[1];
    this.#options = { ...(relay !== undefined && { streamsUrl: `${relay}/streams` }), ...options };
  }

  /** @type {import('./ai-sdk.d.ts').SeseragiChatTransport['sendMessages']} */
  sendMessages = async ({ chatId, messages, trigger, messageId, abortSignal, headers, body }) => {
    const own = typeof this.#body === 'function' ? await this.#body() : this.#body;
    const request = { ...own, ...body, id: chatId, messages, trigger, messageId };
    return this.#open(chatId, new ChatStream(request, { ...this.#reading(headers, abortSignal), url: this.#api, idempotencyKey: newId(), dialect: UI }));
  };

  /** @type {import('./ai-sdk.d.ts').SeseragiChatTransport['reconnectToStream']} */
  reconnectToStream = async ({ chatId, abortSignal, headers }) => {
    try {
      return await this.#open(chatId, new ChatStream(null, { ...this.#reading(headers, abortSignal), url: this.#urlOf(chatId, 'stream'), dialect: UI }));
    } catch (error) {
      if (/** @type {any} */ (error)?.code === 'end_missing') return null; // 204: nothing is kept
      throw error;
    }
  };

  /**
   * Stop the answer to a chat, wherever it is read; what came of it stays. `stop()` of the SDK only
   * leaves, so that a page that is closed or mounted twice does not end what another one reads.
   * @param {string} chatId
   */
  stop = async (chatId) => {
    const reading = this.#readings.get(chatId);
    if (reading) return reading.cancel();
    const { credential, fetch, headers } = this.#options;
    return cancel(this.#urlOf(chatId, 'stop'), { credential, fetch, headers });
  };

  /** @param {string} chatId @param {'stream'|'stop'} what */
  #urlOf(chatId, what) {
    const [, path, query] = /** @type {RegExpExecArray} */ (/^([^?]*?)\/?(\?.*)?$/s.exec(this.#api));
    return `${path}/${encodeURIComponent(chatId)}/${what}${query ?? ''}`;
  }

  /** @param {HeadersInit|undefined} more @param {AbortSignal|undefined} signal */
  #reading(more, signal) {
    const { headers, fetch = globalThis.fetch.bind(globalThis), ...options } = this.#options;
    return {
      ...options,
      signal,
      headers: async () => {
        const all = new Headers(await (typeof headers === 'function' ? headers() : headers));
        new Headers(more).forEach((value, name) => all.set(name, value));
        return all;
      },
      /** @type {typeof globalThis.fetch} */
      fetch: async (url, init) => withCode(await fetch(url, init)),
    };
  }

  /**
   * Wait for the first chunk, so that what is refused is an error of the call.
   * @param {string} chatId
   * @param {ChatStream<UIMessageChunk>} stream
   * @returns {Promise<ReadableStream<UIMessageChunk>>}
   */
  async #open(chatId, stream) {
    // The newest reader of a chat is the one: version 5 resumes twice where React mounts twice.
    this.#readings.get(chatId)?.disconnect();
    this.#readings.set(chatId, /** @type {any} */ (stream));
    const forget = () => { if (this.#readings.get(chatId) === /** @type {any} */ (stream)) this.#readings.delete(chatId); };
    stream.addEventListener('statechange', () => { if (stream.readyState === 'closed') forget(); });
    const chunks = stream[Symbol.asyncIterator]();
    let next = /** @type {Promise<IteratorResult<{event: UIMessageChunk}, void>>|null} */ (Promise.resolve(await chunks.next()));
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await (next ?? chunks.next());
        next = null;
        if (!done && value.event.type !== DONE) return controller.enqueue(value.event);
        await chunks.return(); // it has seen its end: nothing is left open
        controller.close();
      },
      cancel: () => stream.disconnect(),
    }, { highWaterMark: 0 });
  }
}

/**
 * The relay's own refusals are a message alone, since the SDK shows a whole body; the client has to
 * tell them from a proxy's, which it may send a request through again.
 * @param {Response} response
 */
async function withCode(response) {
  const { ok, status, statusText, headers } = response;
  if (ok || !headers.get('x-request-id') || !/^text\/plain/.test(headers.get('content-type') ?? '')) return response;
  const detail = await response.text();
  const kept = new Headers([...headers].filter(([name]) => !/^content-/.test(name)));
  return new Response(JSON.stringify({ code: CODES[status] ?? 'internal', detail, retryable: status === 429 || status > 501 }), { status, statusText, headers: kept });
}
