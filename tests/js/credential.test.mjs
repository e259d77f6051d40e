// Who asks: what is sent, when it is fetched again, and where it never stands.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import test from 'node:test';
import { inspect } from 'node:util';

import { SeseragiError, cancel, chat, resume, resumeFrom, startAsync } from '../../static/seseragi.js';
import { EVENTS, REQUEST, STREAM, WHOLE, drain, framesOf, memoryStorage, serveRelay, settle } from './relay.mjs';

const first = (count) => Buffer.byteLength(framesOf(EVENTS.slice(0, count)));
const inSeconds = (seconds) => Date.now() / 1000 + seconds;
const TYPE = 'application/problem+json';

function refusal(status, code) {
  return { status, headers: { 'content-type': TYPE }, body: JSON.stringify({ code, detail: `the ${code}`, retryable: false }) };
}
const UNAUTHENTICATED = refusal(401, 'unauthenticated');

/** Give `ek_1`, `ek_2`... that end after so many seconds, and count. */
function issuer(seconds = 600) {
  const fetchOne = async () => {
    fetchOne.count += 1;
    return { value: `ek_${fetchOne.count}`, expires_at: inSeconds(seconds) };
  };
  return Object.assign(fetchOne, { count: 0 });
}

/** Serve the relay to those who show one of `good`; `plan` is for the others it lets in. */
async function serveGuarded(t, good, { plan = () => WHOLE, ...options } = {}) {
  const shown = [];
  const relay = await serveRelay(t, {
    ...options,
    plan: (count, request) => {
      const credential = request.headers.authorization?.replace('Bearer ', '') ?? null;
      shown.push(credential);
      return good(credential) ? plan(count, request) : UNAUTHENTICATED;
    },
  });
  return Object.assign(relay, { shown });
}

/** Serve one handler, and tell what was asked. */
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

// ---- What is sent

test('a string is sent with every request of a stream', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ssk_1', { plan: (count) => (count === 1 ? { bytes: first(2), how: 'fin' } : WHOLE) });
  const { events, error } = await drain(chat(REQUEST, { url: relay.url, credential: 'ssk_1' }));

  assert.deepEqual([events, error], [EVENTS, null]);
  assert.deepEqual(relay.shown, ['ssk_1', 'ssk_1']);
});

test('a string that is refused is an error at once, and is not sent again', async (t) => {
  const relay = await serveGuarded(t, () => false);
  const { error } = await drain(chat(REQUEST, { url: relay.url, credential: 'ssk_1', idempotencyKey: 'k' }));

  assert.deepEqual([error.code, error.status, relay.shown.length], ['unauthenticated', 401, 1]);
});

test('starting, stopping and the stop of a stream send it, and outlive the page', async (t) => {
  const seen = [];
  const base = await serve(t, (request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    const started = { id: STREAM, events_url: `/v1/streams/${STREAM}/events?token=t`, cancel_url: `/v1/streams/${STREAM}/cancel?token=c` };
    response.writeHead(202, { 'content-type': 'application/json' }).end(JSON.stringify(started));
  });
  const options = { credential: issuer() };
  const inits = [];
  const fetch = (url, init) => {
    inits.push(init);
    return globalThis.fetch(url, init);
  };
  const started = await startAsync(REQUEST, { ...options, url: `${base}/v1/chat` });
  await cancel(STREAM, { ...options, fetch, streamsUrl: `${base}/v1/streams` });
  await cancel(started.cancel_url, { ...options, fetch });

  assert.equal(started.events_url, `${base}/v1/streams/${STREAM}/events?token=t`);
  assert.deepEqual(seen, [
    'POST /v1/chat Bearer ek_1',
    `POST /v1/streams/${STREAM}/cancel Bearer ek_1`,
    `POST /v1/streams/${STREAM}/cancel?token=c undefined`, // two in one request are refused
  ]);
  assert.deepEqual(inits.map(({ keepalive }) => keepalive), [true, true]);
});

test('a credential that is at hand is sent before the handler of a closing page returns to its loop', async () => {
  const sent = [];
  const fetch = async (url, init) => {
    sent.push(init.headers.get('authorization'));
    return Response.json({});
  };
  const credential = issuer();
  await cancel(STREAM, { fetch, credential });
  cancel(STREAM, { fetch, credential });
  for (let turn = 0; turn < 20; turn++) await null; // microtasks only: nothing else runs in a page that is closed

  assert.deepEqual(sent, ['Bearer ek_1', 'Bearer ek_1']);
});

test('an events_url keeps its token and the rest of its query, but not what the client says itself', async (t) => {
  const relay = await serveGuarded(t, () => true);
  const url = `${relay.streamsUrl}/${STREAM}/events?after=2&format=ui&token=eyJ.a-b_c.d&tenant=1`;
  const { events, error } = await drain(resume(url, { credential: 'ssk_1' }));

  assert.deepEqual([events, error], [EVENTS, null]);
  assert.deepEqual(relay.gets.map(({ path }) => path), [`/v1/streams/${STREAM}/events?token=eyJ.a-b_c.d&tenant=1`]);
  assert.deepEqual(relay.shown, [null]);
});

// ---- Fetched once, and again before it ends

test('it is fetched once for all requests at a time, and for those that follow', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_1');
  const credential = issuer();
  const options = { url: relay.url, credential };
  const all = await Promise.all(Array.from({ length: 8 }, () => drain(chat(REQUEST, options))));
  all.push(await drain(chat(REQUEST, options)));

  assert.deepEqual(all.map(({ error }) => error), Array(9).fill(null));
  assert.equal(credential.count, 1);
});

test('a plain string of a function may be another each time, and is asked for at each request', async (t) => {
  const relay = await serveGuarded(t, () => true, { plan: (count) => (count === 1 ? { bytes: first(2), how: 'fin' } : WHOLE) });
  let count = 0;
  await drain(chat(REQUEST, { url: relay.url, credential: () => `jwt_${count += 1}` }));

  assert.deepEqual(relay.shown, ['jwt_1', 'jwt_2']);
});

for (const [lives, after, expected] of [[600, 560, 1], [600, 575, 2], [600, 601, 2], [20, 14, 1], [20, 16, 2], [-3600, 0, 2]]) {
  test(`one of ${lives} s is fetched ${expected} times by a stream that reads on after ${after} s`, async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
    const credential = issuer(lives);
    const relay = await serveGuarded(t, () => true, {
      plan: (count) => {
        if (count > 1) return WHOLE;
        t.mock.timers.tick(after * 1000); // the answer takes its time
        return { bytes: first(2), how: 'fin' };
      },
    });
    const { events, error } = await drain(chat(REQUEST, { url: relay.url, credential }));

    assert.deepEqual([events, error], [EVENTS, null]);
    assert.equal(credential.count, expected);
    assert.equal(relay.shown.at(-1), `ek_${expected}`);
  });
}

// ---- Refused

test('a 401 in the middle of a long stream fetches another, and the stream goes on', async (t) => {
  let revoked = '';
  const relay = await serveGuarded(t, (it) => it !== revoked, {
    plan: (count) => {
      if (count === 1) revoked = 'ek_1';
      return count === 1 ? { bytes: first(3), how: 'rst' } : WHOLE;
    },
  });
  const credential = issuer();
  const stream = chat(REQUEST, { url: relay.url, credential });
  const { events, error } = await drain(stream);

  assert.deepEqual([events, error], [EVENTS, null]);
  assert.deepEqual([relay.shown, credential.count, stream.reconnects], [['ek_1', 'ek_1', 'ek_2'], 2, 1]);
});

test('a POST that was refused is sent again with another, without a key of its own', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_2');
  const { events, error } = await drain(chat(REQUEST, { url: relay.url, credential: issuer() }));

  assert.deepEqual([events, error], [EVENTS, null]);
  assert.deepEqual(relay.posts.map(({ body }) => JSON.parse(body)), [REQUEST, REQUEST]);
});

test('reading on after a reload fetches one, and another when that was refused', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_2');
  const storage = memoryStorage();
  storage.setItem('seseragi', JSON.stringify({ id: STREAM, cursor: `${STREAM}.2` }));
  const { events, error } = await drain(resumeFrom(storage, undefined, { streamsUrl: relay.streamsUrl, credential: issuer() }));

  assert.deepEqual([events, error], [EVENTS.slice(2), null]);
  assert.deepEqual(relay.shown, ['ek_1', 'ek_2']);
});

test('many that were refused at once fetch one more between them', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_2');
  const credential = issuer();
  const all = await Promise.all(Array.from({ length: 8 }, () => drain(chat(REQUEST, { url: relay.url, credential }))));

  assert.deepEqual(all.map(({ error }) => error), Array(8).fill(null));
  assert.equal(credential.count, 2);
});

for (const [name, begin] of [
  ['an answer', (relay, options) => chat(REQUEST, { ...options, url: relay.url, idempotencyKey: 'k' })],
  ['a stream', (relay, options) => resume(STREAM, { ...options, streamsUrl: relay.streamsUrl })],
]) {
  test(`${name} that is refused twice is unauthenticated, and nobody goes on asking`, async (t) => {
    const relay = await serveGuarded(t, () => false);
    const credential = issuer();
    const { error } = await drain(begin(relay, { credential }));

    assert.ok(error instanceof SeseragiError);
    assert.deepEqual([error.code, error.status], ['unauthenticated', 401]);
    assert.deepEqual([relay.shown, credential.count], [['ek_1', 'ek_2'], 2]);
  });
}

test('a 401 of something in front, without a problem document, is unauthenticated too', async (t) => {
  const base = await serve(t, (request, response) => response.writeHead(401, { 'content-type': 'text/html' }).end('<h1>no</h1>'));
  const { error } = await drain(chat(REQUEST, { url: base, credential: 'ssk_1' }));

  assert.equal(error.code, 'unauthenticated');
});

test('a 403 is final, and fetches nothing', async (t) => {
  const relay = await serveGuarded(t, () => true, { plan: () => refusal(403, 'forbidden') });
  const credential = issuer();
  const { error } = await drain(resume(STREAM, { streamsUrl: relay.streamsUrl, credential }));

  assert.deepEqual([error.code, relay.shown.length, credential.count], ['forbidden', 1, 1]);
});

// ---- A function that fails

test('a function that fails is asked again at the next attempt, as the network is', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_1');
  let asked = 0;
  const credential = async () => {
    asked += 1;
    if (asked <= 2) throw new TypeError('Failed to fetch');
    return { value: 'ek_1', expires_at: inSeconds(600) };
  };
  const stream = resume(STREAM, { streamsUrl: relay.streamsUrl, credential, retryMs: 1 });
  const problems = [];
  stream.addEventListener('statechange', () => problems.push(stream.problem?.code));
  const { events, error } = await drain(stream);

  assert.deepEqual([events, error, asked, relay.shown], [EVENTS, null, 3, ['ek_1']]);
});

test('it gives up after as many attempts as with the network', async (t) => {
  const relay = await serveGuarded(t, () => true);
  let asked = 0;
  const { error } = await drain(resume(STREAM, {
    streamsUrl: relay.streamsUrl, retryMs: 1, maxDelayMs: 1, maxAttempts: 3, credential: () => { asked += 1; throw new Error('signed out'); },
  }));

  assert.deepEqual([error.code, error.retryable, asked, relay.shown.length], ['credential_failed', true, 4, 0]);
  assert.equal(error.message, 'the credential function failed: it threw');
  assert.equal(error.cause.message, 'signed out');
});

test('a request without a key is not sent later than it was asked for', async (t) => {
  const relay = await serveGuarded(t, () => true);
  const { error } = await drain(chat(REQUEST, { url: relay.url, credential: async () => { throw new Error('down'); } }));

  assert.deepEqual([error.code, error.status, relay.shown.length], ['credential_failed', 0, 0]);
});

test('a function that knows that there is no more to come says so by a SeseragiError', async (t) => {
  const relay = await serveGuarded(t, () => true);
  let asked = 0;
  const credential = () => {
    asked += 1;
    throw new SeseragiError('unauthenticated', 'signed out', { status: 401 });
  };
  const { error } = await drain(resume(STREAM, { streamsUrl: relay.streamsUrl, credential }));

  assert.deepEqual([error.message, asked], ['signed out', 1]);
});

for (const [name, given] of [
  ['nothing', undefined], ['null', null], ['an empty string', ''], ['a number', 7], ['an error of the backend', { error: 'sign in' }],
  ['a value that is no string', { value: 7, expires_at: 1 }], ['two lines', 'ek_secret\r\nx: y'], ['a date', { value: 'ek_secret', expires_at: '2026-11-22T10:00:00Z' }],
]) {
  test(`${name} is no credential, and the error does not repeat it`, async () => {
    const fetch = () => assert.fail('nothing may be sent');
    const { error } = await drain(chat(REQUEST, { fetch, credential: async () => given }));

    assert.equal(error.code, 'credential_failed');
    assert.doesNotMatch(inspect(error, { depth: 9 }), /secret/);
  });
}

for (const credential of ['', 'ssk_secret\n', 'ssk_secreté', 7, { value: 'ek_secret' }]) {
  test(`${typeof credential} ${String(credential).length} is refused before anything is sent`, async () => {
    const { error } = await drain(chat(REQUEST, { fetch: () => assert.fail('nothing may be sent'), credential }));

    assert.ok(error instanceof TypeError);
    assert.doesNotMatch(inspect(error), /secret/);
  });
}

test('a function that never answers is given up, and asked anew', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let asked = 0;
  const credential = () => {
    asked += 1;
    return asked === 1 ? new Promise(() => {}) : 'ek_1';
  };
  const sent = [];
  const fetch = async (url, init) => {
    sent.push(init.headers.get('authorization'));
    return new Response(framesOf(EVENTS), { headers: { 'content-type': 'text/event-stream' } });
  };
  const reading = drain(resume(STREAM, { fetch, credential, retryMs: 1 }));
  await settle();
  t.mock.timers.tick(30_000);
  await settle();
  t.mock.timers.tick(30_000); // the wait before the next attempt
  const { error } = await reading;

  assert.deepEqual([error, asked, sent], [null, 2, ['Bearer ek_1']]);
});

test('who leaves does not wait for a credential, and those who share it still get it', async (t) => {
  const relay = await serveGuarded(t, (it) => it === 'ek_1');
  let give;
  const credential = () => new Promise((resolve) => { give = () => resolve('ek_1'); });
  const leaving = chat(REQUEST, { url: relay.url, credential });
  const staying = drain(chat(REQUEST, { url: relay.url, credential }));
  const left = drain(leaving);
  await settle();
  leaving.disconnect();

  assert.equal((await left).error.name, 'AbortError');
  give();
  assert.equal((await staying).error, null);
  assert.deepEqual(relay.shown, ['ek_1']);
});

// ---- Where it never stands

test('no error, event or storage has the credential, nor a token of a URL', async (t) => {
  const storage = memoryStorage();
  const credential = () => ({ value: 'ek_secret', expires_at: inSeconds(600) });
  const failures = [];
  const relay = await serveGuarded(t, () => true, { plan: (count) => (count === 1 ? { bytes: first(3), how: 'end' } : UNAUTHENTICATED) });
  const refused = await drain(chat(REQUEST, { url: relay.url, credential, storage }));
  failures.push(refused.error);
  const closed = await serve(t, (request, response) => response.socket.destroy());
  const options = { maxAttempts: 1, retryMs: 1, maxDelayMs: 1 };
  failures.push((await drain(resume(`${closed}/v1/streams/${STREAM}/events?token=secret`, options))).error);
  failures.push((await drain(chat(REQUEST, { url: `${closed}/v1/chat`, credential }))).error);
  failures.push((await drain(resume(`/v1/streams/${STREAM}/events?token=secret`, options))).error); // no URL in Node
  failures.push(await cancel(`${closed}/v1/streams/${STREAM}/cancel?token=secret`).catch((error) => error));
  try {
    resume('https://a.example/v1/other?token=secret');
  } catch (error) {
    failures.push(error);
  }

  assert.equal(failures.length, 6);
  for (const error of failures) {
    assert.ok(error instanceof Error);
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /secret/);
  }
  assert.equal(refused.received.length, 3);
  assert.equal(storage.items.size, 1);
  assert.doesNotMatch(JSON.stringify([...storage.items, refused.received]), /secret/);
});
