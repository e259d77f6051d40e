// The browser client against real sockets: a scripted HTTP server on a free port.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import test from 'node:test';

import { EVENT_TYPES, SeseragiError, cancel, chat, listStreams, readEvents, startAsync, watchStreams } from '../../static/seseragi.js';

const REQUEST = { model: 'demo', messages: [{ role: 'user', content: 'こんにちは' }] };
const SSE = { 'content-type': 'text/event-stream; charset=utf-8', 'stream-id': 'st_x', 'x-request-id': 'rq_1' };

const START = { type: 'stream.start', stream: 'st_x', model: 'demo', created: 1 };
const END = { type: 'stream.end', status: 'completed', finish_reason: 'stop' };
const EVENTS = [START, { type: 'text.start', block: 0 }, { type: 'text.delta', block: 0, text: 'せせらぎ🏞️\u2028𠮷' }, { type: 'text.end', block: 0 }, END];

function frame(event, n) {
  return `${n === 1 ? 'retry: 2000\n' : ''}event: ${event.type}\ndata: ${JSON.stringify(event)}\nid: st_x.${n}\n\n`;
}

function frames(events) {
  return events.map((event, at) => frame(event, at + 1)).join('');
}

/** Serve `handler` for the time of one test and return its address. */
async function serve(t, handler) {
  const server = http.createServer(handler);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function eventsOf(stream) {
  const events = [];
  for await (const { event } of stream) events.push(event);
  return events;
}

/** The SeseragiError that reading throws, and the events read before it. */
async function failureOf(stream, onEvent = () => {}) {
  const events = [];
  try {
    for await (const { event } of stream) onEvent(events.push(event));
  } catch (error) {
    assert.ok(error instanceof SeseragiError, `${error}`);
    return { error, events };
  }
  assert.fail('the stream ended without an error');
}

test('a whole stream arrives with ids, and the loop ends by itself', async (t) => {
  let seen;
  const base = await serve(t, async (request, response) => {
    seen = { method: request.method, url: request.url, headers: request.headers, body: JSON.parse(await bodyOf(request)) };
    response.writeHead(200, SSE);
    response.end(frames(EVENTS));
  });
  const stream = chat(REQUEST, { url: `${base}/v1/chat`, headers: { authorization: 'Bearer k' } });
  const received = [];
  for await (const one of stream) received.push(one);

  assert.deepEqual(received.map(({ event }) => event), EVENTS);
  assert.deepEqual(received.map(({ id }) => id), ['st_x.1', 'st_x.2', 'st_x.3', 'st_x.4', 'st_x.5']);
  assert.equal(received[4].data, JSON.stringify(END));
  assert.deepEqual([stream.streamId, stream.lastEventId, stream.requestId], ['st_x', 'st_x.5', 'rq_1']);
  assert.deepEqual([seen.method, seen.url, seen.body], ['POST', '/v1/chat', REQUEST]);
  assert.equal(seen.headers['content-type'], 'application/json');
  assert.equal(seen.headers.accept, 'text/event-stream');
  assert.equal(seen.headers.authorization, 'Bearer k');
});

test('characters cut between reads arrive whole', async (t) => {
  const base = await serve(t, async (request, response) => {
    response.writeHead(200, SSE);
    for (const byte of Buffer.from(frames(EVENTS))) {
      response.write(Uint8Array.of(byte));
      await new Promise(setImmediate);
    }
    response.end();
  });

  assert.deepEqual(await eventsOf(chat(REQUEST, { url: base })), EVENTS);
});

test('each event is handed over before the next is sent', async (t) => {
  let sendNext;
  const base = await serve(t, async (request, response) => {
    response.writeHead(200, SSE);
    for (const [at, event] of EVENTS.entries()) {
      response.write(frame(event, at + 1));
      await new Promise((resolve) => { sendNext = resolve; });
    }
    response.end();
  });
  const events = [];
  for await (const { event } of chat(REQUEST, { url: base })) {
    events.push(event);
    sendNext();
  }

  assert.deepEqual(events, EVENTS);
});

test('heartbeat lines between frames, without a blank line, change nothing', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(200, SSE);
    response.end(': hb\n' + EVENTS.map((event, at) => frame(event, at + 1) + ': hb\n: hb\n').join(''));
  });

  assert.deepEqual(await eventsOf(chat(REQUEST, { url: base })), EVENTS);
});

test('reading stops at stream.end and closes a connection that stays open', { timeout: 60_000 }, async (t) => {
  let closed;
  const base = await serve(t, (request, response) => {
    closed = once(response, 'close');
    response.writeHead(200, SSE);
    response.write(frames([...EVENTS, { type: 'notice', code: 'late', message: 'after the end' }]));
  });

  assert.deepEqual(await eventsOf(chat(REQUEST, { url: base })), EVENTS);
  await closed;
});

test('a problem document becomes a SeseragiError', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(429, { 'content-type': 'application/problem+json', 'retry-after': '12' });
    response.end(JSON.stringify({ type: 'about:blank', title: 'Too Many Requests', status: 429, code: 'rate_limited', detail: 'wait', retryable: true, request_id: 'rq_9' }));
  });
  const { error } = await failureOf(chat(REQUEST, { url: base }));

  assert.deepEqual(
    { code: error.code, status: error.status, message: error.message, retryable: error.retryable, retryAfterS: error.retryAfterS, requestId: error.requestId },
    { code: 'rate_limited', status: 429, message: 'wait', retryable: true, retryAfterS: 12, requestId: 'rq_9' },
  );
});

test('an error names the running stream of the chat', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(409, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ status: 409, code: 'conflict', detail: 'busy', retryable: false, stream: 'st_first' }));
  });
  const { error } = await failureOf(chat({ ...REQUEST, chat: 'c', overlap: 'refuse' }, { url: base }));

  assert.deepEqual([error.code, error.retryable, error.stream], ['conflict', false, 'st_first']);
});

test('an error page of a proxy becomes http_error', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(502, { 'content-type': 'text/html', 'x-request-id': 'rq_2', 'retry-after': new Date(Date.now() + 60_000).toUTCString() });
    response.end('<h1>Bad Gateway</h1>');
  });
  const { error } = await failureOf(chat(REQUEST, { url: base }));

  assert.deepEqual([error.code, error.status, error.retryable, error.requestId], ['http_error', 502, true, 'rq_2']);
  assert.ok(error.retryAfterS > 50 && error.retryAfterS <= 60);
});

test('a connection closed without an answer becomes connection_failed', async (t) => {
  const base = await serve(t, (request) => request.socket.destroy());
  const { error } = await failureOf(chat(REQUEST, { url: base }));

  assert.deepEqual([error.code, error.status, error.retryable], ['connection_failed', 0, true]);
});

// What the server sends before it goes, and how many whole events that is.
const CUTS = [
  ['nothing', '', 0],
  ['half a line', frames(EVENTS.slice(0, 2)) + 'event: text.delta\nda', 2],
  ['a frame without its blank line', frames(EVENTS).slice(0, -1), 4],
  ['half a character', Buffer.from(frames(EVENTS.slice(0, 3))).subarray(0, -10), 2],
  ['whole frames', frames(EVENTS.slice(0, 3)), 3],
];

for (const [name, body, count] of CUTS) {
  for (const how of ['end', 'destroy']) {
    test(`a body cut after ${name} (${how}) throws connection_lost where it may not come back`, async (t) => {
      let leave; // when all has come: what is on its way is lost with the connection
      const base = await serve(t, (request, response) => {
        leave = () => response[how]();
        response.writeHead(200, SSE);
        response.write(body || ': hb\n');
      });
      const asked = async (...words) => {
        const reply = await fetch(...words);
        if (count === 0) leave();
        return reply;
      };
      const stream = chat(REQUEST, { url: base, fetch: asked, maxAttempts: 0 });
      const { error, events } = await failureOf(stream, (read) => read === count && leave());

      assert.deepEqual([error.code, error.status, error.retryable, error.requestId], ['connection_lost', 200, true, 'rq_1']);
      assert.deepEqual(events, EVENTS.slice(0, count));
    });
  }
}

test('another content type is refused', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{}');
  });
  const { error } = await failureOf(chat(REQUEST, { url: base }));

  assert.deepEqual([error.code, error.message], ['invalid_response', 'expected text/event-stream, got application/json']);
});

for (const type of ['text/event-stream;', 'Text/Event-Stream', 'text/event-stream;x=bogus', 'text/event-stream ; charset=windows-1252']) {
  test(`${type} is taken, as UTF-8`, async (t) => {
    const base = await serve(t, (request, response) => {
      response.writeHead(200, { ...SSE, 'content-type': type });
      response.end(frames(EVENTS));
    });

    assert.deepEqual(await eventsOf(chat(REQUEST, { url: base })), EVENTS);
  });
}

for (const type of ['text/event-stream-x', 'text/event-stream x', 'x text/event-stream', 'text/plain']) {
  test(`${type} is refused`, async (t) => {
    const base = await serve(t, (request, response) => {
      response.writeHead(200, { ...SSE, 'content-type': type });
      response.end(frames(EVENTS));
    });

    assert.equal((await failureOf(chat(REQUEST, { url: base }))).error.code, 'invalid_response');
  });
}

for (const data of ['{"type":', 'null', '{"kind":"x"}']) {
  test(`an event with the data ${data} is refused`, async (t) => {
    const base = await serve(t, (request, response) => {
      response.writeHead(200, SSE);
      response.end(`${frame(START, 1)}data: ${data}\n\n`);
    });
    const { error, events } = await failureOf(chat(REQUEST, { url: base }));

    assert.equal(error.code, 'invalid_response');
    assert.deepEqual(events, [START]);
  });
}

test('an event of an unknown type is passed on', async (t) => {
  const later = { type: 'text.annotation', block: 0, note: 'from a later version' };
  const base = await serve(t, (request, response) => {
    response.writeHead(200, SSE);
    response.end(frames([START, later, END]));
  });

  assert.deepEqual(await eventsOf(chat(REQUEST, { url: base })), [START, later, END]);
});

test('an abort throws AbortError and closes the socket', { timeout: 60_000 }, async (t) => {
  let closed;
  const base = await serve(t, (request, response) => {
    closed = once(response, 'close');
    response.writeHead(200, SSE);
    response.write(frames(EVENTS.slice(0, 3)));
  });
  const abort = new AbortController();
  const events = [];

  await assert.rejects(async () => {
    for await (const { event } of chat(REQUEST, { url: base, signal: abort.signal })) {
      events.push(event);
      if (event.type === 'text.delta') setTimeout(() => abort.abort(), 10);
    }
  }, { name: 'AbortError' });
  await closed;
  assert.deepEqual(events, EVENTS.slice(0, 3));
});

test('after an abort no event of the same read is handed over', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(200, SSE);
    response.end(frames(EVENTS));
  });
  const abort = new AbortController();
  const events = [];

  await assert.rejects(async () => {
    for await (const { event } of chat(REQUEST, { url: base, signal: abort.signal })) {
      events.push(event);
      abort.abort();
    }
  }, { name: 'AbortError' });
  assert.deepEqual(events, [START]);
});

test('an abort before the answer throws the signal\'s reason', { timeout: 60_000 }, async (t) => {
  const base = await serve(t, () => {});
  const signal = AbortSignal.timeout(20);

  await assert.rejects(() => eventsOf(chat(REQUEST, { url: base, signal })), { name: 'TimeoutError' });
});

test('leaving the loop closes the socket', { timeout: 60_000 }, async (t) => {
  let closed;
  const base = await serve(t, (request, response) => {
    closed = once(response, 'close');
    response.writeHead(200, SSE);
    response.write(frames(EVENTS.slice(0, 3)));
  });
  for await (const { event } of chat(REQUEST, { url: base })) {
    if (event.type === 'text.delta') break;
  }

  await closed;
});

test('nothing is sent before the loop, and a second loop is refused', async (t) => {
  let requests = 0;
  const base = await serve(t, (request, response) => {
    requests += 1;
    response.writeHead(200, SSE);
    response.end(frames(EVENTS));
  });
  const stream = chat(REQUEST, { url: base });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(requests, 0);

  await eventsOf(stream);
  await assert.rejects(() => eventsOf(stream), TypeError);
  assert.equal(requests, 1);
});

test('a fetch of one\'s own is used, and readEvents takes any response', async () => {
  const fetch = async () => new Response(frames(EVENTS), { headers: SSE });

  assert.deepEqual(await eventsOf(chat(REQUEST, { fetch })), EVENTS);
  assert.deepEqual(await eventsOf(readEvents(await fetch())), EVENTS);
});

test('startAsync asks for an answer later and resolves the URLs', async (t) => {
  let seen;
  const base = await serve(t, async (request, response) => {
    seen = { prefer: request.headers.prefer, body: JSON.parse(await bodyOf(request)) };
    response.writeHead(202, { 'content-type': 'application/json', location: '/v1/streams/st_x' });
    response.end(JSON.stringify({ id: 'st_x', events_url: '/v1/streams/st_x/events', cancel_url: '/v1/streams/st_x/cancel' }));
  });
  const started = await startAsync(REQUEST, { url: `${base}/v1/chat` });

  assert.deepEqual(seen, { prefer: 'respond-async', body: REQUEST });
  assert.deepEqual(started, { id: 'st_x', events_url: `${base}/v1/streams/st_x/events`, cancel_url: `${base}/v1/streams/st_x/cancel` });
});

test('startAsync refuses an answer that is not 202', async (t) => {
  const base = await serve(t, (request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{}');
  });

  await assert.rejects(() => startAsync(REQUEST, { url: base }), { name: 'SeseragiError', code: 'invalid_response' });
});

test('watchStreams tells each event once over connections that end, break, stall and are refused', async (t) => {
  const frame = (id, event) => `retry: 1\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\nid: ${id}\n\n`;
  const started = (stream) => ({ type: 'stream.started', stream });
  const bodies = [
    (response) => response.end(frame('r1e0', started('st_1'))),
    (response) => { response.write(frame('r2e0', started('st_2'))); setTimeout(() => response.socket.destroy(), 50); }, // Bun tells of a write before it is one
    (response) => response.end('retry: 1\n\n'),
    (response) => response.write(frame('r3e0', started('st_3'))), // and nothing more
    (response) => response.write(frame('r4e0', started('st_4'))),
  ];
  const asked = [];
  const server = http.createServer((request, response) => {
    asked.push([request.url, request.headers['last-event-id']]);
    if (asked.length === 2) return response.writeHead(503).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    return bodies.shift()(response);
  }).listen(0);
  await once(server, 'listening');
  t.after(() => { server.closeAllConnections(); server.close(); });
  const streamsUrl = `http://localhost:${server.address().port}/v1/streams`;

  const told = [];
  for await (const { id, event } of watchStreams({ streamsUrl, events: true, metadata: 'chat:a', stallMs: 200 })) {
    told.push([id, event.stream]);
    if (told.length === 4) break;
  }
  assert.deepEqual(told, [['r1e0', 'st_1'], ['r2e0', 'st_2'], ['r3e0', 'st_3'], ['r4e0', 'st_4']]);
  assert.deepEqual(asked.map(([, id]) => id), [undefined, 'r1e0', 'r1e0', 'r2e0', 'r2e0', 'r3e0']);
  assert.ok(asked.every(([url]) => url === '/v1/streams/watch?metadata=chat%3Aa&events=true'));
});

test('watchStreams ends by its signal, and by a refusal that stays one', async () => {
  const leave = new AbortController();
  const held = { fetch: async (url, { signal }) => new Response(new ReadableStream({
    start(controller) { signal.addEventListener('abort', () => controller.error(signal.reason)); },
  }), { headers: { 'content-type': 'text/event-stream' } }) };
  setTimeout(() => leave.abort(new Error('left')), 10);
  await assert.rejects(() => watchStreams({ ...held, streamsUrl: 'http://relay.test', signal: leave.signal }).next(), /left/);
  const fetch = async () => Response.json({ code: 'forbidden', detail: 'no' }, { status: 403 });
  await assert.rejects(() => watchStreams({ fetch, streamsUrl: 'http://relay.test' }).next(), { code: 'forbidden' });
});

test('watchStreams gives up after so many attempts in vain', async () => {
  const replies = [];
  const fetch = async () => replies.shift()();
  const ends = () => new Response('retry: 1\n\n', { headers: { 'content-type': 'text/event-stream' } });
  const tells = () => new Response('retry: 1\ndata: {"type":"watch.ready"}\nid: r1e1\n\n', { headers: { 'content-type': 'text/event-stream' } });
  let losses = 0;
  const options = { fetch, streamsUrl: 'http://relay.test', maxAttempts: 1, onLoss: () => { losses += 1; } };
  replies.push(tells, tells, ends);
  const told = [];
  await assert.rejects(async () => {
    for await (const { event } of watchStreams(options)) told.push(event.type);
  }, { code: 'connection_lost' });
  assert.deepEqual([told, replies], [['watch.ready', 'watch.ready'], []]);
  replies.push(() => new Response(null, { status: 503 }));
  assert.equal(losses, 0, 'a body that ends is whole');
  await assert.rejects(() => watchStreams({ ...options, maxAttempts: 0 }).next(), { status: 503 });
  replies.push(() => new Response(new ReadableStream({ start: (body) => body.error(new TypeError('broken')) }), { headers: { 'content-type': 'text/event-stream' } }));
  await assert.rejects(() => watchStreams({ ...options, maxAttempts: 0 }).next(), { code: 'connection_lost' });
  assert.equal(losses, 2);
});

test('listStreams asks for a page of a list, and takes nothing else for one', async (t) => {
  const seen = [];
  const base = await serve(t, (request, response) => {
    seen.push([request.url, request.headers.authorization]);
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(request.url.includes('limit') ? '{"data":[],"next":"r1-st_x"}' : '{}');
  });
  const options = { streamsUrl: `${base}/v1/streams`, credential: 'ek_1' };

  assert.deepEqual(await listStreams({ ...options, status: 'running', metadata: 'chat:a b', limit: 5, after: 'r2-st_y' }), { data: [], next: 'r1-st_x' });
  await assert.rejects(() => listStreams(options), { code: 'invalid_response', status: 200 });
  assert.deepEqual(seen, [
    ['/v1/streams?status=running&metadata=chat%3Aa+b&limit=5&after=r2-st_y', 'Bearer ek_1'],
    ['/v1/streams', 'Bearer ek_1'],
  ]);
});

test('cancel takes an id or the cancel_url', async (t) => {
  const seen = [];
  const base = await serve(t, (request, response) => {
    seen.push(`${request.method} ${request.url}`);
    response.writeHead(request.url.includes('gone') ? 404 : 202, { 'content-type': 'application/problem+json' });
    response.end('{"code":"not_found","detail":"unknown stream","retryable":false}');
  });
  await cancel('st_x', { streamsUrl: `${base}/v1/streams` });
  await cancel(`${base}/v1/streams/st_y/cancel`);

  await assert.rejects(() => cancel('gone', { streamsUrl: `${base}/v1/streams` }), { code: 'not_found', status: 404 });
  assert.deepEqual(seen, ['POST /v1/streams/st_x/cancel', 'POST /v1/streams/st_y/cancel', 'POST /v1/streams/gone/cancel']);
});

test('EVENT_TYPES has no name that EventSource uses itself', () => {
  for (const name of ['error', 'open', 'message']) assert.ok(!EVENT_TYPES.includes(name));
  assert.equal(new Set(EVENT_TYPES).size, EVENT_TYPES.length);
});
