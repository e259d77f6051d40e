// How the client waits, wakes, gives up, stops and remembers. Time is fake where it matters.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import * as client from '../../static/seseragi.js';
import { SeseragiError, chat, resume, resumeFrom, startAsync } from '../../static/seseragi.js';
import { EVENTS, REQUEST, STREAM, WHOLE, drain, framesOf, head, memoryStorage, serveRelay, settle } from './relay.mjs';

const LAST = EVENTS.length;
const FRAMES = framesOf(EVENTS);
const first = (count) => framesOf(EVENTS.slice(0, count)).length;

/** A `fetch` that answers from a list, one answer a call, and notes the calls. */
function scripted(...answers) {
  const calls = [];
  const fetch = async (url, init) => {
    calls.push({ url: String(url), method: init.method ?? 'GET', headers: Object.fromEntries(init.headers), body: init.body });
    const answer = answers[calls.length - 1] ?? answers.at(-1);
    return typeof answer === 'function' ? answer(init) : answer.clone();
  };
  return { fetch, calls };
}

function sse(body, headers = head()) {
  return new Response(body, { headers });
}

function refuse() {
  throw new TypeError('fetch failed');
}

/** An answer of which the body stays open after `text`. */
function open(text) {
  return ({ signal }) => sse(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      signal.addEventListener('abort', () => controller.error(signal.reason));
    },
  }));
}

/** Fake `setTimeout`; `Math.random` gives the least wait unless told. */
function fakeTime(t, { random = 0 } = {}) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(Math, 'random', () => random);
  return async (ms) => {
    await settle();
    t.mock.timers.tick(ms);
    await settle();
  };
}

/** A window and a document for the time of a test. */
function fakePage(t) {
  const window = new EventTarget();
  globalThis.addEventListener = window.addEventListener.bind(window);
  globalThis.removeEventListener = window.removeEventListener.bind(window);
  globalThis.document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  t.after(() => {
    for (const name of ['addEventListener', 'removeEventListener', 'document']) delete globalThis[name];
  });
  return {
    online: () => window.dispatchEvent(new Event('online')),
    see: (visibilityState) => {
      document.visibilityState = visibilityState;
      document.dispatchEvent(new Event('visibilitychange'));
    },
  };
}

function problem(status, code, more = {}) {
  return Response.json({ code, detail: `the ${code}`, retryable: true, ...more }, { status, headers: more.headers });
}

// ---- What is asked for

test('the GET carries the cursor, the headers and a way past caches, and no POST follows', async () => {
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(3))), sse(framesOf(EVENTS, { after: 3 })));
  const stream = chat(REQUEST, { fetch, url: 'https://relay.example/api/v1/chat', headers: { authorization: 'Bearer k' } });
  const { events, error } = await drain(stream);

  assert.equal(error, null);
  assert.deepEqual(events, EVENTS);
  assert.deepEqual(calls.map(({ method, url }) => `${method} ${url}`), [
    'POST https://relay.example/api/v1/chat',
    `GET https://relay.example/api/v1/streams/${STREAM}/events`,
  ]);
  assert.deepEqual(calls[1].headers, { accept: 'text/event-stream', authorization: 'Bearer k', 'last-event-id': `${STREAM}.3` });
  assert.deepEqual([stream.reconnects, stream.streamId, stream.lastEventId], [1, STREAM, `${STREAM}.${LAST}`]);
});

for (const [url, streamsUrl, expected] of [
  ['/v1/chat', undefined, '/v1/streams'],
  ['/ai/v1/chat?tenant=1', undefined, '/ai/v1/streams'],
  ['v1/chat', undefined, 'v1/streams'],
  ['https://a.example/ask', undefined, 'https://a.example/v1/streams'],
  ['/ask', undefined, '/v1/streams'],
  ['/ask', '/relay/streams', '/relay/streams'],
  [new URL('https://a.example/v1/chat#x'), undefined, 'https://a.example/v1/streams'],
]) {
  test(`the streams of ${url} are at ${expected}`, async () => {
    const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(1))), new Response(null, { status: 204 }));
    await drain(chat(REQUEST, { fetch, url, ...(streamsUrl && { streamsUrl }) }));

    assert.equal(calls[1].url, `${expected}/${STREAM}/events`);
  });
}

test('headers given as a function are asked for at each connection', async () => {
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), sse(framesOf(EVENTS, { after: 2 })));
  let token = 0;
  await drain(chat(REQUEST, { fetch, headers: async () => ({ authorization: `Bearer ${token += 1}` }) }));

  assert.deepEqual(calls.map(({ headers }) => headers.authorization), ['Bearer 1', 'Bearer 2']);
});

for (const [after, cursor] of [[undefined, undefined], [null, undefined], [0, undefined], ['0', undefined], [3, `${STREAM}.3`], ['3', `${STREAM}.3`], [`${STREAM}.3`, `${STREAM}.3`]]) {
  for (const stream of [STREAM, `https://a.example/v1/streams/${STREAM}/events`]) {
    test(`resume(${stream.slice(0, 8)}…) after ${after} sends the cursor ${cursor}`, async () => {
      const { fetch, calls } = scripted(sse(framesOf(EVENTS, { after: cursor ? 3 : 0 })));
      const { events } = await drain(resume(stream, { after, fetch }));

      assert.deepEqual(events, EVENTS.slice(cursor ? 3 : 0));
      assert.deepEqual([calls.length, calls[0].method, calls[0].headers['last-event-id']], [1, 'GET', cursor]);
      assert.equal(calls[0].url, `${stream.includes('/') ? 'https://a.example' : ''}/v1/streams/${STREAM}/events`);
    });
  }
}

test('resume refuses what is neither an id nor an events_url', () => {
  assert.throws(() => resume('/v1/streams/st_x'), TypeError);
});

test('a stream that another client started is read by its events_url', async (t) => {
  const relay = await serveRelay(t, { plan: (number) => (number === 1 ? { bytes: 200, how: 'fin' } : WHOLE) });
  const { events } = await drain(resume(`${relay.streamsUrl}/${STREAM}/events`));

  assert.deepEqual(events, EVENTS);
  assert.deepEqual([relay.posts.length, relay.gets.length], [0, 2]);
});

// ---- The answers to a GET

test('204 where no end was seen is no end', async (t) => {
  const relay = await serveRelay(t);
  const stream = resume(STREAM, { after: LAST, streamsUrl: relay.streamsUrl });
  const { events, error } = await drain(stream);

  assert.deepEqual([events, error.code, error.status, error.retryable], [[], 'end_missing', 204, false]);
  assert.deepEqual([stream.readyState, relay.gets.length], ['closed', 1]);
});

test('204 in the middle of an answer does not make it look whole', async () => {
  const storage = memoryStorage();
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(3))), new Response(null, { status: 204 }));
  const stream = chat(REQUEST, { fetch, storage, retryMs: 1 });
  const { events, error } = await drain(stream);

  assert.ok(error instanceof SeseragiError);
  assert.deepEqual([error.code, events.length, calls.length, stream.readyState, stream.reconnects], ['end_missing', 3, 2, 'closed', 0]);
  assert.equal(resumeFrom(storage), null, 'there is nothing to come back to');
});

for (const [status, code] of [[400, 'invalid_request'], [401, 'unauthenticated'], [403, 'forbidden'], [404, 'not_found'], [409, 'conflict'], [410, 'stream_expired']]) {
  test(`${status} is final and throws ${code}`, async () => {
    const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), problem(status, code));
    const stream = chat(REQUEST, { fetch, retryMs: 1 });
    const { events, error } = await drain(stream);

    assert.ok(error instanceof SeseragiError);
    assert.deepEqual([error.code, error.status, events.length, calls.length, stream.readyState], [code, status, 2, 2, 'closed']);
  });
}

for (const answer of [429, 500, 502, 503, 504, 'refused', 'closed at once']) {
  test(`${answer}, then 200: the answer goes on`, async () => {
    const failing = answer === 'refused' ? refuse : answer === 'closed at once' ? sse('retry: 1\n\n') : new Response('', { status: answer });
    const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), failing, failing, sse(framesOf(EVENTS, { after: 2 })));
    const { events, error } = await drain(chat(REQUEST, { fetch }));

    assert.equal(error, null);
    assert.deepEqual(events, EVENTS);
    assert.deepEqual(calls.map(({ method }) => method), ['POST', 'GET', 'GET', 'GET']);
  });
}

test('a head that was cut, which Chromium takes for a whole one, is a lost connection', async () => {
  const cut = [new Response(null), new Response('', { headers: { 'content-type': 'text/eve' } }), { ok: false, status: 20, statusText: '', headers: new Headers(), json: async () => null }];
  const { fetch } = scripted(sse(FRAMES.slice(0, first(2))), cut[0], cut[1], () => cut[2], sse(framesOf(EVENTS, { after: 2 })));

  assert.deepEqual((await drain(chat(REQUEST, { fetch }))).events, EVENTS);
});

test('an id that was cut in the head is not taken for a stream that is gone', async () => {
  const cut = { 'content-type': 'text/event-stream', 'stream-id': STREAM.slice(0, 5) };
  const { error } = await drain(chat(REQUEST, { fetch: scripted(sse('', cut), problem(404, 'not_found')).fetch, retryMs: 1 }));
  assert.equal(error.code, 'connection_lost');

  const { fetch, calls } = scripted(sse('', cut), problem(404, 'not_found'), sse(FRAMES));
  assert.deepEqual((await drain(chat(REQUEST, { fetch, retryMs: 1, idempotencyKey: 'k' }))).events, EVENTS);
  assert.deepEqual(calls.map(({ method }) => method), ['POST', 'GET', 'POST']);
});

// ---- POST, never twice

test('a POST without an answer is not sent again', async (t) => {
  const relay = await serveRelay(t, { plan: () => ({ reset: true }) });
  const { error } = await drain(chat(REQUEST, { url: relay.url, retryMs: 1 }));

  assert.deepEqual([error.code, error.retryable, relay.posts.length, relay.gets.length], ['connection_failed', true, 1, 0]);
});

test('a POST without an answer is sent again under its key, the same each time', async (t) => {
  let read; // in Bun a reset takes the head too
  const cut = { bytes: first(1), how: 'rst', when: new Promise((resolve) => { read = resolve; }) };
  const relay = await serveRelay(t, { plan: (number) => (number < 3 ? { reset: true } : number === 3 ? cut : WHOLE) });
  const { events } = await drain(chat(REQUEST, { url: relay.url, retryMs: 1, idempotencyKey: 'key-1' }), () => read());

  assert.deepEqual(events, EVENTS);
  assert.deepEqual(relay.posts.map(({ key, body }) => [key, body]), Array(3).fill(['key-1', JSON.stringify(REQUEST)]));
  assert.equal(relay.gets.length, 1);
});

test('an answer that was lost before it named its stream is asked for again under a key only', async () => {
  const nameless = sse('', { 'content-type': 'text/event-stream' });
  const { fetch, calls } = scripted(nameless, sse(FRAMES));
  const { error } = await drain(chat(REQUEST, { fetch, retryMs: 1 }));
  assert.deepEqual([error.code, calls.length], ['connection_lost', 1]);

  const again = scripted(nameless, sse(FRAMES));
  assert.deepEqual((await drain(chat(REQUEST, { fetch: again.fetch, retryMs: 1, idempotencyKey: 'k' }))).events, EVENTS);
  assert.equal(again.calls.length, 2);
});

for (const [name, answer, posts] of [
  ['502 of a proxy', new Response('', { status: 502 }), 2],
  ['503 overloaded', problem(503, 'overloaded'), 2],
  ['502 of the upstream', problem(502, 'upstream_unavailable'), 1],
  ['404 model_not_found', problem(404, 'model_not_found'), 1],
  ['422 for another body', problem(422, 'idempotency_mismatch'), 1],
]) {
  test(`${name}: ${posts} POST under a key, one without`, async () => {
    const keyed = scripted(answer, sse(FRAMES));
    const { error } = await drain(chat(REQUEST, { fetch: keyed.fetch, retryMs: 1, idempotencyKey: 'k' }));
    assert.deepEqual([keyed.calls.length, error === null], [posts, posts === 2]);

    const bare = scripted(answer, sse(FRAMES));
    const { error: thrown } = await drain(chat(REQUEST, { fetch: bare.fetch, retryMs: 1 }));
    assert.deepEqual([bare.calls.length, thrown.status], [1, answer.status]);
  });
}

test('startAsync sends its key', async () => {
  const urls = { id: STREAM, events_url: `https://a.example/v1/streams/${STREAM}/events`, cancel_url: `https://a.example/v1/streams/${STREAM}/cancel` };
  const { fetch, calls } = scripted(() => Response.json(urls, { status: 202 }));

  assert.deepEqual(await startAsync(REQUEST, { fetch, idempotencyKey: 'k' }), urls);
  assert.equal(calls[0].headers['idempotency-key'], 'k');
});

// ---- The waiting

test('the wait is never shorter than the relay\'s retry', async (t) => {
  const pass = fakeTime(t);
  const { fetch, calls } = scripted(sse(framesOf(EVENTS.slice(0, 2), { retryMs: 2000 })), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await pass(1999);
  assert.equal(calls.length, 1);
  await pass(1);
  assert.equal(calls.length, 2);
  assert.deepEqual((await reading).events, EVENTS);
});

test('the ceiling of the wait doubles with each failure, up to its cap, and an event resets it', async (t) => {
  const pass = fakeTime(t, { random: 1 });
  const failures = Array(6).fill(refuse);
  const { fetch, calls } = scripted(sse(framesOf(EVENTS.slice(0, 2), { retryMs: 2000 })), ...failures,
    sse(framesOf(EVENTS.slice(0, 3), { after: 2, retryMs: 2000 })), sse(framesOf(EVENTS, { after: 3 })));
  const reading = drain(chat(REQUEST, { fetch }));

  const waits = [];
  let waited = 0;
  await settle();
  for (let known = calls.length; calls.length < 9; ) {
    await pass(500);
    waited += 500;
    if (calls.length === known) continue;
    waits.push(waited);
    waited = 0;
    known = calls.length;
  }
  assert.deepEqual(waits, [3000, 6000, 12_000, 24_000, 30_000, 30_000, 30_000, 3000]);
  assert.deepEqual((await reading).events, EVENTS);
});

test('a longer retry, or one that comes without an event, is the new floor', async (t) => {
  const pass = fakeTime(t);
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), sse('retry: 40000\n\n'), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await pass(1);
  assert.equal(calls.length, 2);
  await pass(39_999);
  assert.equal(calls.length, 2);
  await pass(1);
  assert.deepEqual((await reading).events, EVENTS);
});

test('Retry-After is honoured, and what wakes the client does not shorten it', async (t) => {
  const page = fakePage(t);
  const pass = fakeTime(t);
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), new Response('', { status: 503, headers: { 'retry-after': '7' } }), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await pass(1);
  assert.equal(calls.length, 2);
  await pass(6999);
  page.online();
  await settle();
  assert.equal(calls.length, 2);
  await pass(1);
  assert.deepEqual((await reading).events, EVENTS);
});

for (const [name, wake, sleep] of [
  ['the network is back', (page) => page.online(), () => {}],
  ['the page is seen again', (page) => page.see('visible'), (page) => page.see('hidden')],
]) {
  test(`it tries at once when ${name}`, async (t) => {
    const page = fakePage(t);
    fakeTime(t);
    const { fetch, calls } = scripted(sse(framesOf(EVENTS.slice(0, 2), { retryMs: 30_000 })), sse(framesOf(EVENTS, { after: 2 })));
    const reading = drain(chat(REQUEST, { fetch }));

    await settle();
    sleep(page);
    await settle();
    assert.equal(calls.length, 1);
    wake(page);
    assert.deepEqual((await reading).events, EVENTS);
    assert.equal(calls.length, 2);
  });
}

test('an open connection that did not survive a change of network is noticed soon', async (t) => {
  const page = fakePage(t);
  const pass = fakeTime(t);
  t.mock.method(Date, 'now', () => 0);
  const { fetch, calls } = scripted(open(FRAMES.slice(0, first(2))), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await pass(20_000);
  page.online();
  await pass(10_999);
  assert.equal(calls.length, 1);
  await pass(1);
  await pass(1);
  assert.deepEqual((await reading).events, EVENTS);
});

test('a connection that was silent for a heartbeat before the page was seen again is noticed at once', async (t) => {
  const page = fakePage(t);
  const pass = fakeTime(t);
  let now = 0;
  t.mock.method(Date, 'now', () => now);
  t.mock.method(performance, 'now', () => 0); // as where a device sleeps
  const { fetch, calls } = scripted(open(FRAMES.slice(0, first(2))), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await settle();
  page.see('hidden');
  await pass(now = 12_000);
  page.see('visible');
  await pass(2999);
  assert.equal(calls.length, 1);
  await pass(1);
  await pass(1);
  assert.deepEqual((await reading).events, EVENTS);
});

test('a GET without a head is given up after 2.5 s, and then after twice as long each time', async (t) => {
  const pass = fakeTime(t);
  const hang = ({ signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), ...Array(6).fill(hang), sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await pass(1);
  for (const [index, ms] of [2500, 5000, 10_000, 20_000, 40_000, 45_000].entries()) {
    await pass(ms - 1);
    assert.equal(calls.length, 2 + index);
    await pass(1);
    await pass(1);
  }
  assert.deepEqual((await reading).events, EVENTS);
});

test('an answer is back 15 s after a page is seen again whose connection died just then, with the next one', async (t) => {
  const page = fakePage(t);
  const pass = fakeTime(t, { random: 0.999 });
  const hang = ({ signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  const { fetch, calls } = scripted(open(framesOf(EVENTS.slice(0, 2), { retryMs: 2000 })), hang, sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch }));

  await settle();
  page.see('visible');
  for (let ms = 0; ms < 15_000; ms += 100) await pass(100);
  assert.equal(calls.length, 3);
  assert.deepEqual((await reading).events, EVENTS);
});

test('a POST without an answer is sent again under its key after the page is seen again, and without a key never', async (t) => {
  for (const idempotencyKey of ['k', undefined]) {
    const page = fakePage(t);
    const pass = fakeTime(t);
    const hang = ({ signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
    const { fetch, calls } = scripted(hang, sse(FRAMES));
    const stream = chat(REQUEST, { fetch, idempotencyKey });
    const reading = drain(stream);

    await pass(20_000);
    page.see('visible');
    for (let ms = 0; ms < 15_000; ms += 500) await pass(500);
    assert.deepEqual(calls.map(({ method }) => method), idempotencyKey ? ['POST', 'POST'] : ['POST']);
    stream.disconnect();
    assert.deepEqual((await reading).events, idempotencyKey ? EVENTS : []);
    t.mock.timers.reset();
  }
});

test('no listener is left behind', async (t) => {
  fakePage(t);
  let listening = 0;
  const { addEventListener: add, removeEventListener: remove } = globalThis;
  globalThis.addEventListener = (...all) => { listening += 1; add(...all); };
  globalThis.removeEventListener = (...all) => { listening -= 1; remove(...all); };
  const abort = new AbortController();
  await drain(chat(REQUEST, { fetch: scripted(sse(FRAMES)).fetch, signal: abort.signal }));

  assert.equal(listening, 0);
});

test('silence is a lost connection; heartbeats are not silence', async (t) => {
  let beats;
  const answers = (body) => () => sse(new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(body));
      beats = () => controller.enqueue(new TextEncoder().encode(': hb\n'));
    },
  }));
  const pass = fakeTime(t);
  const { fetch, calls } = scripted(answers(FRAMES.slice(0, first(2))), sse(framesOf(EVENTS, { after: 2 })));
  const stream = chat(REQUEST, { fetch });
  const reading = drain(stream);

  for (let beat = 0; beat < 20; beat++) {
    await pass(10_000);
    beats();
  }
  assert.deepEqual([calls.length, stream.readyState], [1, 'open']);
  await pass(44_999);
  assert.equal(calls.length, 1);
  await pass(1);
  assert.equal(stream.readyState, 'reconnecting');
  assert.match(String(stream.problem?.cause), /not a byte came for 45000 ms/);
  await pass(1);
  assert.deepEqual((await reading).events, EVENTS);
});

test('a GET that gets no answer is given up after stallMs', async (t) => {
  const pass = fakeTime(t);
  const hang = ({ signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), hang, sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch, stallMs: 500 }));

  await pass(1);
  await pass(500);
  await pass(2);
  assert.deepEqual((await reading).events, EVENTS);
  assert.equal(calls.length, 3);
});

test('silence is a wait: one after the other does not lengthen that for the next connection', async (t) => {
  const pass = fakeTime(t, { random: 0.999 });
  const hang = ({ signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  const { fetch, calls } = scripted(sse(framesOf(EVENTS.slice(0, 2), { retryMs: 100 })), hang, hang, hang, hang, sse(framesOf(EVENTS, { after: 2 })));
  const reading = drain(chat(REQUEST, { fetch, stallMs: 500 }));

  await pass(150);
  for (let silences = 1; silences <= 4; silences++) {
    assert.equal(calls.length, 1 + silences);
    await pass(500);
    await pass(50);
  }
  assert.deepEqual((await reading).events, EVENTS);
});

test('a frozen socket is left for another one', { timeout: 60_000 }, async (t) => {
  const relay = await serveRelay(t);
  let frozen = 0;
  const fetch = async (url, init) => {
    if (init.method !== 'POST') return globalThis.fetch(url, init);
    frozen += 1;
    return open(FRAMES.slice(0, first(3)))(init);
  };
  const { events } = await drain(chat(REQUEST, { url: relay.url, fetch, stallMs: 1000 }));

  assert.deepEqual(events, EVENTS);
  // Where this process stood still for as long, the next socket may have been left too.
  assert.deepEqual([frozen, relay.gets[0].cursor], [1, `${STREAM}.3`]);
});

test('it gives up after maxAttempts in a row, with the last failure as the cause', async () => {
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), new Response('', { status: 503 }));
  const stream = chat(REQUEST, { fetch, maxAttempts: 3, maxDelayMs: 2 });
  const { events, error } = await drain(stream);

  assert.deepEqual([error.code, error.retryable, error.cause.status, events.length], ['connection_lost', true, 503, 2]);
  assert.deepEqual([calls.length, stream.readyState, stream.streamId], [4, 'closed', STREAM]);
});

test('it gives up before waiting longer than maxWaitMs', async () => {
  const { fetch, calls } = scripted(sse(FRAMES.slice(0, first(2))), new Response('', { status: 503, headers: { 'retry-after': '3600' } }));
  const { error } = await drain(chat(REQUEST, { fetch }));

  assert.deepEqual([error.code, error.retryAfterS, calls.length], ['connection_lost', 3600, 2]);
});

test('attempts that bring events do not add up', async () => {
  const one = (at) => sse(framesOf(EVENTS.slice(0, at + 1), { after: at }));
  const { fetch } = scripted(...EVENTS.map((_, at) => one(at)));

  assert.deepEqual((await drain(chat(REQUEST, { fetch, maxAttempts: 1 }))).events, EVENTS);
});

// ---- States

test('readyState tells each change, and problem why', async () => {
  const { fetch } = scripted(sse(FRAMES.slice(0, first(2))), refuse, sse(framesOf(EVENTS, { after: 2 })));
  const stream = chat(REQUEST, { fetch });
  const states = [stream.readyState];
  stream.addEventListener('statechange', () => states.push(`${stream.readyState}${stream.problem ? ` ${stream.problem.code}` : ''}`));
  await drain(stream);

  assert.deepEqual(states, ['connecting', 'open', 'reconnecting connection_lost', 'open', 'closed']);
  assert.equal(stream.problem, null);
});

// ---- Stop and leave

test('cancel stops the generation and the loop goes on to its end', async (t) => {
  const cancelled = [...EVENTS.slice(0, 3), { type: 'stream.end', status: 'cancelled' }];
  let stop;
  const relay = { cancels: [] };
  const fetch = async (url, init) => {
    if (String(url).endsWith('/cancel')) {
      relay.cancels.push(`${init.method} ${url} ${init.headers.get('authorization')}`);
      stop();
      return new Response('{}', { status: 202 });
    }
    return sse(new ReadableStream({
      start(controller) {
        const send = (text) => controller.enqueue(new TextEncoder().encode(text));
        send(framesOf(cancelled.slice(0, 3)));
        stop = () => send(framesOf(cancelled, { after: 3 }));
      },
    }));
  };
  const stream = chat(REQUEST, { fetch, headers: { authorization: 'Bearer k' } });
  const { events, error } = await drain(stream, (_, received) => { if (received.length === 3) stream.cancel(); });

  assert.equal(error, null);
  assert.deepEqual(events, cancelled);
  assert.deepEqual(relay.cancels, [`POST /v1/streams/${STREAM}/cancel Bearer k`]);
});

test('cancel before the answer waits for the id, and tries again where the network is away', async () => {
  let answer;
  const cancels = [];
  const fetch = async (url, init) => {
    if (String(url).endsWith('/cancel')) {
      cancels.push(url);
      return cancels.length < 3 ? refuse() : new Response('{}', { status: 202 });
    }
    await new Promise((resolve) => { answer = resolve; });
    return open(FRAMES.slice(0, first(2)))(init);
  };
  const stream = chat(REQUEST, { fetch, retryMs: 1 });
  const reading = drain(stream);
  const cancelling = stream.cancel();
  await settle();
  assert.deepEqual(cancels, []);
  answer();
  await cancelling;

  assert.equal(cancels.length, 3);
  stream.disconnect();
  await reading;
});

test('cancel before the answer learns the id by the key and does not wait for the answer', async () => {
  const calls = [];
  const urls = { id: STREAM, events_url: `https://a.example/v1/streams/${STREAM}/events`, cancel_url: `https://a.example/v1/streams/${STREAM}/cancel` };
  const cancelled = [EVENTS[0], { type: 'stream.end', status: 'cancelled' }];
  const fetch = async (url, init) => {
    calls.push(`${init.method ?? 'GET'} ${url} ${init.headers.get('idempotency-key')} ${init.headers.get('prefer')}`);
    if (String(url).endsWith('/cancel')) return new Response('{}', { status: 202 });
    if (String(url).endsWith('/events')) return sse(framesOf(cancelled));
    if (init.headers.has('prefer')) return Response.json(urls, { status: 202 });
    return new Promise((_, reject) => { init.signal.addEventListener('abort', () => reject(init.signal.reason)); });
  };
  const stream = chat(REQUEST, { fetch, idempotencyKey: 'k' });
  const reading = drain(stream);
  await stream.cancel();
  const { events, error } = await reading;

  assert.equal(error, null);
  assert.deepEqual(events, cancelled);
  assert.deepEqual(calls, [
    'POST /v1/chat k null', 'POST /v1/chat k respond-async',
    `POST /v1/streams/${STREAM}/cancel null null`, `GET /v1/streams/${STREAM}/events null null`,
  ]);
});

test('cancel of a request that could not be sent gives it up, and it is not sent later', async () => {
  for (const idempotencyKey of ['k', undefined]) {
    let calls = 0;
    const fetch = async () => { calls += 1; return refuse(); };
    const stream = chat(REQUEST, { fetch, idempotencyKey, retryMs: 20 });
    const reading = drain(stream);
    await settle();
    await stream.cancel();
    const { events, error } = await reading;
    const before = calls;
    await new Promise((resolve) => { setTimeout(resolve, 60); });

    assert.deepEqual([events, error.name], [[], idempotencyKey ? 'AbortError' : 'SeseragiError']);
    assert.equal(calls, before);
  }
});

test('cancel of a stream that failed, ended or was never read asks nobody', async () => {
  const failing = scripted(problem(404, 'model_not_found'));
  const failed = chat(REQUEST, { fetch: failing.fetch });
  await Promise.all([drain(failed), failed.cancel()]);
  assert.equal(failing.calls.length, 1);

  const whole = scripted(sse(FRAMES));
  const ended = chat(REQUEST, { fetch: whole.fetch });
  await drain(ended);
  await ended.cancel();
  assert.equal(whole.calls.length, 1);

  const unread = chat(REQUEST, { fetch: whole.fetch });
  await unread.cancel();
  assert.equal((await drain(unread)).error.name, 'AbortError');
  assert.equal(whole.calls.length, 1);
});

/** A browser over HTTP/1.1 with so many connections: what is asked for beyond them waits for one, in order. */
function connections(count, answer) {
  const waiting = [];
  let free = count;
  const leave = () => {
    free += 1;
    waiting.shift()?.();
  };
  return async (url, init) => {
    if (free === 0) {
      await new Promise((resolve, reject) => {
        waiting.push(resolve);
        init.signal?.addEventListener('abort', () => {
          if (!waiting.includes(resolve)) return;
          waiting.splice(waiting.indexOf(resolve), 1);
          reject(init.signal.reason);
        });
      });
    }
    free -= 1;
    const response = answer(url, init);
    if (!response.body) return leave(), response;
    init.signal.addEventListener('abort', leave, { once: true });
    return response;
  };
}

test('cancel that waits for a connection has that of its own reader', async (t) => {
  const pass = fakeTime(t);
  const cancelled = [...EVENTS.slice(0, 2), { type: 'stream.end', status: 'cancelled' }];
  const asked = [];
  const fetch = connections(1, (url, init) => {
    asked.push(`${init.method ?? 'GET'} ${url}`);
    if (url.endsWith('/cancel')) return new Response(null, { status: 202 });
    return url.endsWith('/events') ? sse(framesOf(cancelled, { after: 2 })) : open(FRAMES.slice(0, first(2)))(init);
  });
  const stream = chat(REQUEST, { fetch });
  const reading = drain(stream);
  await settle();
  const cancelling = stream.cancel();
  await pass(2999);
  assert.deepEqual(asked, ['POST /v1/chat']);
  await pass(1);
  await cancelling;
  await pass(1500);

  assert.deepEqual((await reading).events, cancelled);
  assert.deepEqual(asked, ['POST /v1/chat', `POST /v1/streams/${STREAM}/cancel`, `GET /v1/streams/${STREAM}/events`]);
});

test('cancel that gets no connection says so, also before the answer, and nothing is sent later', async (t) => {
  const pass = fakeTime(t);
  let fetch = connections(1, (url, init) => open(FRAMES.slice(0, first(2)))(init));
  const other = await fetch('/other', { signal: new AbortController().signal });
  const waiting = chat(REQUEST, { fetch, idempotencyKey: 'k' });
  const read = drain(waiting);
  await settle();
  const states = [];
  waiting.addEventListener('statechange', () => states.push(waiting.problem?.code));
  await pass(45_000);
  assert.deepEqual(states, ['connection_failed']);
  const cancelled = waiting.cancel();
  await pass(9000);
  await cancelled;
  assert.equal((await read).error.name, 'AbortError');

  fetch = connections(2, (url, init) => open(FRAMES.slice(0, first(2)))(init));
  const [mine, queued] = [new AbortController(), new AbortController()];
  await fetch('/other', { signal: mine.signal });
  const stream = chat(REQUEST, { fetch, maxAttempts: 0 });
  const reading = drain(stream);
  await settle();
  fetch('/third', { signal: queued.signal }); // has the connection of the reader
  const refused = assert.rejects(stream.cancel(), { code: 'connection_failed', message: /9000 ms/ });
  await pass(3000);
  await pass(6000);
  await refused;
  stream.disconnect();
  await reading;
  await other.body.cancel();
});

test('cancel tells when it was refused', async () => {
  const { fetch } = scripted(open(FRAMES.slice(0, first(2))), problem(410, 'stream_expired'));
  const stream = chat(REQUEST, { fetch });
  const reading = drain(stream);
  await assert.rejects(() => stream.cancel(), { code: 'stream_expired' });
  stream.disconnect();
  await reading;
});

for (const [name, leave] of [
  ['disconnect()', (stream) => stream.disconnect()],
  ['an abort of the signal', (stream, abort) => abort.abort()],
]) {
  test(`${name} while reading throws AbortError, closes the connection and asks for no stop`, async (t) => {
    const relay = await serveRelay(t, { plan: () => ({ bytes: first(3), how: 'end' }), retryMs: 60_000 });
    const abort = new AbortController();
    const stream = chat(REQUEST, { url: relay.url, signal: abort.signal });
    const { events, error } = await drain(stream, (_, received) => { if (received.length === 2) leave(stream, abort); });

    assert.deepEqual([error.name, events.length, relay.cancels, relay.gets.length], ['AbortError', 2, 0, 0]);
    assert.equal(stream.readyState, 'closed');
  });

  test(`${name} ends the waiting between two attempts`, { timeout: 60_000 }, async () => {
    const { fetch, calls } = scripted(sse(framesOf(EVENTS.slice(0, 2), { retryMs: 60_000 })));
    const abort = new AbortController();
    const stream = chat(REQUEST, { fetch, signal: abort.signal });
    stream.addEventListener('statechange', () => { if (stream.readyState === 'reconnecting') setImmediate(() => leave(stream, abort)); });
    const { error } = await drain(stream);

    assert.deepEqual([error.name, calls.length], ['AbortError', 1]);
  });
}

test('a stream that was left is resumed where it was left', async (t) => {
  const relay = await serveRelay(t);
  const stream = chat(REQUEST, { url: relay.url });
  const { events: before } = await drain(stream, (_, received) => { if (received.length === 3) stream.disconnect(); });
  const { events: behind } = await drain(resume(stream.streamId, { after: stream.lastEventId, streamsUrl: relay.streamsUrl }));

  assert.deepEqual([...before, ...behind], EVENTS);
});

test('leaving the loop closes the connection and is no error', async () => {
  let aborted = false;
  const { fetch } = scripted(() => sse(new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(FRAMES.slice(0, first(3)))),
    cancel: () => { aborted = true; },
  })));
  const stream = chat(REQUEST, { fetch });
  for await (const { event } of stream) if (event.type === 'text.start') break;

  assert.deepEqual([aborted, stream.readyState], [true, 'closed']);
});

// ---- Storage

test('the storage has id and cursor while the stream runs, and nothing after it', async () => {
  const storage = memoryStorage();
  const kept = [];
  const { fetch } = scripted(sse(FRAMES));
  await drain(chat(REQUEST, { fetch, storage, storageKey: 'k' }), () => kept.push(storage.getItem('k')));

  assert.deepEqual(kept.slice(0, -1).map((one) => JSON.parse(one)), EVENTS.slice(0, -1).map((_, at) => ({ id: STREAM, cursor: `${STREAM}.${at + 1}` })));
  assert.deepEqual([kept.at(-1), storage.items.size], [null, 0]);
});

test('after a reload resumeFrom reads on where the page was', async (t) => {
  const relay = await serveRelay(t);
  const storage = memoryStorage();
  const options = { streamsUrl: relay.streamsUrl };
  const before = [];
  for await (const { event } of chat(REQUEST, { url: relay.url, storage })) {
    before.push(event);
    if (before.length === 4) break; // the page goes
  }
  const behind = resumeFrom(storage, undefined, options);

  assert.deepEqual([...before, ...(await drain(behind)).events], EVENTS);
  assert.equal(storage.items.size, 0);
  assert.equal(resumeFrom(storage, undefined, options), null);
});

test('resumeFrom reads it all again if asked', async (t) => {
  const relay = await serveRelay(t);
  const storage = memoryStorage();
  storage.setItem('k', JSON.stringify({ id: STREAM, cursor: `${STREAM}.4` }));

  assert.deepEqual((await drain(resumeFrom(storage, 'k', { streamsUrl: relay.streamsUrl, after: null }))).events, EVENTS);
});

for (const damaged of ['', 'null', '{', '{"id":7}', '"x"']) {
  test(`resumeFrom takes ${damaged || 'an empty text'} for nothing`, () => {
    const storage = memoryStorage();
    storage.setItem('seseragi', damaged);

    assert.equal(resumeFrom(storage), null);
  });
}

for (const [name, answer, stays] of [['410', problem(410, 'stream_expired'), false], ['404', problem(404, 'not_found'), false], ['401', problem(401, 'unauthenticated'), true], ['no network', refuse, true]]) {
  test(`after ${name} the storage ${stays ? 'keeps' : 'loses'} the stream`, async () => {
    const storage = memoryStorage();
    const { fetch } = scripted(sse(FRAMES.slice(0, first(2))), answer);
    await drain(chat(REQUEST, { fetch, storage, maxAttempts: 2, maxDelayMs: 1 }));

    assert.equal(storage.items.size, stays ? 1 : 0);
  });
}

test('a request that failed forgets nothing of another stream', async () => {
  const storage = memoryStorage();
  storage.setItem('seseragi', 'of another');
  await drain(chat(REQUEST, { fetch: scripted(problem(400, 'invalid_request')).fetch, storage }));

  assert.equal(storage.getItem('seseragi'), 'of another');
});

test('a storage that refuses does not harm the answer', async () => {
  const refuseAll = () => { throw new DOMException('full', 'QuotaExceededError'); };
  const storage = { getItem: refuseAll, setItem: refuseAll, removeItem: refuseAll };
  const { fetch } = scripted(sse(FRAMES));

  assert.deepEqual((await drain(chat(REQUEST, { fetch, storage }))).events, EVENTS);
  assert.equal(resumeFrom(storage), null);
});

// ---- The types

const DECLARED = readFileSync(new URL('../../static/seseragi.d.ts', import.meta.url), 'utf8');

test('every export is declared in seseragi.d.ts, and nothing else', () => {
  const values = [...DECLARED.matchAll(/^export (?:declare )?(?:function|class|const) (\w+)/gm)].map(([, name]) => name);

  assert.deepEqual(values.sort(), Object.keys(client).sort());
});

test('every public member of the classes is declared', () => {
  for (const [name, made] of [['ChatStream', chat(REQUEST)], ['SeseragiError', new SeseragiError('c', 'm')], ['SseDecoder', new client.SseDecoder()]]) {
    const [, body] = new RegExp(`^export class ${name}\\b.*?\\{\\n(.*?)^\\}`, 'ms').exec(DECLARED);
    const members = [...Object.keys(made), ...Object.getOwnPropertyNames(client[name].prototype)].filter((member) => member !== 'constructor');
    for (const member of members) assert.match(body, new RegExp(`\\b${member}\\b`), `${name}.${member}`);
  }
});

test('the declared events are those of EVENT_TYPES', () => {
  const types = [...DECLARED.split('export type WatchEvent')[0].matchAll(/\btype: '([\w.]+)'[; ]/g)].map(([, type]) => type);

  assert.deepEqual(types, [...client.EVENT_TYPES]);
});

test('every error code of the wire is declared', () => {
  const [, errors] = readFileSync(new URL('../../PROTOCOL.md', import.meta.url), 'utf8').split('## Errors');
  const codes = [...errors.matchAll(/^\| `([a-z_]+)` \| \d/gm)].map(([, code]) => code);

  assert.ok(codes.length > 20);
  assert.deepEqual(codes.filter((code) => !DECLARED.includes(`'${code}'`)), []);
});

test('the end of a stream whose relay was lost is read on over the gap in its numbers', async () => {
  const end = (at) => 4 * 10 ** 8 + 4 + at; // three events were kept
  const frame = (number, event) => `id: ${STREAM}.${number}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
  const ending = [{ type: 'text.end', block: 0 }, { type: 'stream.end', status: 'interrupted' }];
  const { fetch } = scripted(
    sse(framesOf(EVENTS.slice(0, 3)) + frame(end(0), ending[0])),
    sse(frame(end(1), ending[1])),
  );
  const { events, error } = await drain(chat(REQUEST, { fetch, retryMs: 1 }));

  assert.equal(error, null);
  assert.deepEqual(events, [...EVENTS.slice(0, 3), ...ending]);

  const skipped = scripted(sse(framesOf(EVENTS.slice(0, 2)) + frame(end(0), ending[0])));
  assert.equal((await drain(chat(REQUEST, { fetch: skipped.fetch, maxAttempts: 0 }))).error.code, 'events_missing');
});

test('a wait is told, and ends at once where somebody does not want to wait', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const { fetch, calls } = scripted(
    Response.json({ code: 'overloaded', detail: 'full' }, { status: 503, headers: { 'retry-after': '60' } }),
    refuse, sse(FRAMES));
  const stream = resume(STREAM, { fetch, retryMs: 5000 });
  const waits = [];
  stream.addEventListener('wait', () => waits.push(stream.retryAt && stream.retryAt - Date.now()));
  stream.retryNow(); // nothing is waited for
  const reading = drain(stream);
  await settle();
  assert.deepEqual([waits, calls.length, stream.problem?.status], [[60_000], 1, 503]);
  stream.retryNow();
  await settle();
  assert.deepEqual([waits.length, waits[1], calls.length, stream.problem?.code], [3, null, 2, 'connection_failed']);
  assert.ok(waits[2] >= 5000 && waits[2] <= 7500, String(waits[2])); // as after a first failure
  stream.retryNow();
  const { events } = await reading;

  assert.deepEqual([events.length, calls.length, stream.retryAt, waits.length], [LAST, 3, null, 4]);
});
