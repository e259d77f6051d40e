// A relay as a `fetch`: it keeps streams of ready frames, and cuts bodies as told. No sockets, no time.

import { STREAM, head } from './relay.mjs';

/** The frames of one stream in a dialect: each object, or text such as `[DONE]`, is one. */
export function framesIn(letter, objects, stream = STREAM) {
  return objects.map((object, at) => `${at === 0 ? 'retry: 0\n' : ''}data: ${typeof object === 'string' ? object : JSON.stringify(object)}\n`
    + `id: ${stream}.${letter}${at + 1}\n\n`);
}

/**
 * `answers` are the frames of the streams, in the order in which they are asked for; the same
 * key is given the same stream. `cut` is asked for each body: how many bytes of it come before
 * it breaks. What stands in `refuse` for a call is given instead.
 */
export function scriptedRelay(answers, { cut = () => Infinity, refuse = () => null } = {}) {
  const relay = { posts: [], gets: [], cancels: [], keys: new Map(), held: null };
  const idOf = (at) => (at === 0 ? STREAM : `st_${at}`);
  const body = (frames, after) => {
    const bytes = new TextEncoder().encode(frames.slice(after).join(''));
    const size = cut(bytes.length, relay);
    let given = false;
    // What has been given is read before the break is seen.
    return new ReadableStream({
      async pull(controller) {
        if (!given && size > 0) {
          given = true;
          return controller.enqueue(bytes.subarray(0, size));
        }
        if (relay.held) await relay.held;
        if (size < bytes.length) controller.error(new TypeError('network error'));
        else controller.close();
      },
    }, { highWaterMark: 0 });
  };
  relay.fetch = async (url, init = {}) => {
    init.signal?.throwIfAborted();
    const { pathname } = new URL(String(url), 'http://relay.test');
    const headers = new Headers(init.headers);
    const refused = refuse(relay, pathname, init);
    if (refused) return refused;
    let at;
    let after = 0;
    if (/\/(cancel|stop)$/.test(pathname)) {
      relay.cancels.push(pathname);
      return new Response('{}', { status: 202 });
    }
    if (init.method === 'POST') {
      const key = headers.get('idempotency-key') ?? `none ${relay.posts.length}`;
      relay.posts.push({ key, body: JSON.parse(init.body) });
      if (!relay.keys.has(key)) relay.keys.set(key, relay.keys.size);
      at = relay.keys.get(key);
    } else {
      relay.gets.push({ path: String(url), cursor: headers.get('last-event-id') });
      const id = /streams\/([^/]+)\/events/.exec(pathname)?.[1];
      at = id ? answers.findIndex((_, index) => idOf(index) === id) : relay.keys.size - 1;
      after = Number(/(\d+)$/.exec(headers.get('last-event-id') ?? '0')[1]);
      if (at < 0 || answers[at].length === after) return new Response(null, { status: 204 });
    }
    const response = new Response(body(answers[at], after), { headers: head(idOf(at)) });
    init.signal?.addEventListener('abort', () => response.body.cancel().catch(() => {}));
    return response;
  };
  return relay;
}

/** Options with which nothing waits. */
export const AT_ONCE = { retryMs: 0, maxDelayMs: 0 };

export async function until(condition, what = String(condition)) {
  const end = Date.now() + 30_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => { setTimeout(resolve, 1); });
  }
}
