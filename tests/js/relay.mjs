// A scripted relay on a free port: it keeps one stream's events and cuts connections as told.

import { once } from 'node:events';
import http from 'node:http';

export const REQUEST = { model: 'demo', messages: [{ role: 'user', content: 'こんにちは' }] };
export const STREAM = 'st_4fJ9qXw0V1cT8mYbR2nZkQ';

/** Events of a stream whose text is these pieces. */
export function eventsOf(...pieces) {
  return [
    { type: 'stream.start', stream: STREAM, model: 'demo', created: 1 },
    { type: 'text.start', block: 0 },
    ...pieces.map((text) => ({ type: 'text.delta', block: 0, text })),
    { type: 'text.end', block: 0 },
    { type: 'stream.end', status: 'completed', finish_reason: 'stop' },
  ];
}

export const EVENTS = eventsOf('せせらぎ', '🏞️\u2028𠮷', ' ends');

/** Frames of the events after the cursor, as one connection carries them. */
export function framesOf(events, { after = 0, retryMs = 1, stream = STREAM } = {}) {
  return events.slice(after).map((event, at) => `${at === 0 ? `retry: ${retryMs}\n` : ''}event: ${event.type}\n`
    + `data: ${JSON.stringify(event)}\nid: ${stream}.${after + at + 1}\n\n`).join('');
}

export function head(stream = STREAM) {
  return {
    'content-type': 'text/event-stream; charset=utf-8',
    'content-location': `/v1/streams/${stream}/events`,
    'stream-id': stream,
    'x-request-id': 'req_1',
  };
}

/** Small seeded random numbers (mulberry32). */
export function seeded(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (limit) => Math.floor(next() * limit), chance: (share) => next() < share };
}

/** What each connection does: all of it, or `bytes` of the body and then `how`. */
export const WHOLE = { bytes: Infinity, how: 'end' };

/** `how` a connection goes: its body ends, or its socket does. */
export const CUTS = {
  end: (response) => response.end(),
  fin: (response) => response.socket?.destroy(),
  rst: (response) => response.socket?.resetAndDestroy(),
};

/**
 * Serve the events. `plan` is asked once for each connection that reads: with `{bytes, how, when}`
 * that one is cut, once `when` is settled, with `{status, headers, body}` it is refused, with
 * `{reset: true}` it gets no answer.
 */
export async function serveRelay(t, { events = EVENTS, plan = () => WHOLE, retryMs = 1, step = Infinity } = {}) {
  const relay = { posts: [], gets: [], cancels: 0, url: '', streamsUrl: '' };
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.url.endsWith('/cancel')) {
      relay.cancels += 1;
      response.writeHead(202).end('{}');
      return;
    }
    const cursor = request.headers['last-event-id'];
    if (request.method === 'POST') relay.posts.push({ key: request.headers['idempotency-key'], body: Buffer.concat(chunks).toString(), headers: request.headers });
    else relay.gets.push({ cursor, path: request.url, headers: request.headers });
    const turn = plan(relay.posts.length + relay.gets.length, request) ?? WHOLE;
    if (turn.reset) return request.socket.resetAndDestroy();
    if (turn.status) return response.writeHead(turn.status, turn.headers).end(turn.body);
    const after = cursor ? Number(cursor.split('.').at(-1)) : 0;
    if (after === events.length) return response.writeHead(204).end();
    response.writeHead(200, head());
    response.flushHeaders();
    const body = Buffer.from(framesOf(events, { after, retryMs }));
    const sent = body.subarray(0, turn.bytes);
    for (let at = 0; at < sent.length; at += step) {
      await new Promise((resolve) => { response.write(sent.subarray(at, at + step), resolve); });
      if (response.destroyed) return;
    }
    // A reset takes with it what has not been read yet: give that a moment, or until it is read.
    await turn.when;
    if (turn.bytes < Infinity) setImmediate(() => CUTS[turn.how](response));
    else response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const base = `http://127.0.0.1:${server.address().port}`;
  return Object.assign(relay, { base, url: `${base}/v1/chat`, streamsUrl: `${base}/v1/streams` });
}

/** Read to the end: what was received, and the error if there was one. */
export async function drain(stream, onReceived = () => {}) {
  const received = [];
  try {
    for await (const one of stream) {
      received.push(one);
      onReceived(one, received);
    }
  } catch (error) {
    return { received, events: received.map(({ event }) => event), error };
  }
  return { received, events: received.map(({ event }) => event), error: null };
}

/** Let everything that can happen without the passing of time happen. */
export async function settle() {
  for (let round = 0; round < 20; round++) await new Promise(setImmediate);
}

/** A storage as browsers have it. */
export function memoryStorage() {
  const items = new Map();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => { items.set(key, String(value)); },
    removeItem: (key) => { items.delete(key); },
  };
}
