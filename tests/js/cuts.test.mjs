// Every event exactly once and in order, wherever a connection is cut: real sockets, real resets.

import assert from 'node:assert/strict';
import test from 'node:test';

import { chat, resume } from '../../static/seseragi.js';
import { CUTS, EVENTS, REQUEST, STREAM, WHOLE, drain, eventsOf, framesOf, seeded, serveRelay } from './relay.mjs';

const WORDS = ['せせ', 'らぎ ', '🏞️', '👩‍👧‍👦', '\u2028', 'stream\n', '𠮷', '"\\', 'a'];

/** A stream of its own for each seed: up to sixty events, with characters of all widths. */
function randomEvents(random) {
  return eventsOf(...Array.from({ length: random.below(56) }, () => WORDS[random.below(WORDS.length)].repeat(1 + random.below(4))));
}

function assertOnceInOrder({ received, error }, events) {
  assert.equal(error, null);
  assert.deepEqual(received.map(({ id }) => id), events.map((_, at) => `${STREAM}.${at + 1}`));
  assert.deepEqual(received.map(({ event }) => event), events);
}

for (const how of Object.keys(CUTS)) {
  test(`a cut at any byte (${how}) is continued by GET from the last whole frame`, async (t) => {
    const whole = Buffer.from(framesOf(EVENTS));
    let at = 0;
    const relay = await serveRelay(t, { plan: (number, { method }) => (method === 'POST' ? { bytes: at, how } : WHOLE) });
    for (at = 0; at < whole.length; at += how === 'fin' ? 1 : 7) {
      relay.posts.length = relay.gets.length = 0;
      const stream = chat(REQUEST, { url: relay.url, retryMs: 1 });
      assertOnceInOrder(await drain(stream), EVENTS);
      assert.equal(relay.posts.length, 1);
      if (at < whole.length - 1) assert.equal(relay.gets.length, 1);
      // A reset may take frames along that were sent, and in Bun any cut: then the cursor is earlier, never later.
      const complete = whole.subarray(0, at).toString('latin1').split('\n\n').length - 1;
      const cursor = Number((relay.gets[0]?.cursor ?? `${STREAM}.0`).split('.')[1]);
      assert.ok(how === 'rst' || process.versions.bun ? cursor <= complete : cursor === complete, `${cursor} after ${complete} whole frames`);
    }
  });
}

test('hundreds of random cuts over random streams lose nothing and double nothing', async (t) => {
  let cuts = 0;
  const run = async (seed) => {
    const random = seeded(seed);
    const events = randomEvents(random);
    let left = 1 + random.below(8);
    const relay = await serveRelay(t, {
      events,
      step: 1 + random.below(200),
      plan: (number, { method }) => {
        if (left === 0) return WHOLE;
        left -= 1;
        cuts += 1;
        if (method === 'GET' && random.chance(0.1)) return { reset: true };
        if (method === 'GET' && random.chance(0.1)) return { status: [429, 500, 502, 503, 504][random.below(5)] };
        // Retries that get nowhere are cheap: let most cuts come soon, some late.
        return { bytes: random.below(random.chance(0.5) ? 300 : 6000), how: Object.keys(CUTS)[random.below(3)] };
      },
    });
    const stream = random.chance(0.5) ? chat(REQUEST, { url: relay.url, maxDelayMs: 4, retryMs: 1 }) : resume(`${relay.streamsUrl}/${STREAM}/events`, { maxDelayMs: 4, retryMs: 1 });
    const result = await drain(stream);
    assertOnceInOrder(result, events);
    assert.ok(relay.posts.length <= 1, `seed ${seed}: ${relay.posts.length} POSTs`);
    assert.equal(stream.readyState, 'closed');
  };
  for (let seed = 0; seed < 200; seed += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, at) => run(seed + at)));
  }
  assert.ok(cuts > 500, `${cuts} cuts`);
});

test('events that are sent again are not handed over again', async (t) => {
  // A relay, or something between, that ignores the cursor.
  const relay = await serveRelay(t, {
    plan: (number) => (number === 1 ? { bytes: 300, how: 'fin' } : { status: 200, headers: { 'content-type': 'text/event-stream' }, body: framesOf(EVENTS) }),
  });

  assertOnceInOrder(await drain(chat(REQUEST, { url: relay.url })), EVENTS);
});

test('a number that is left out is an error, not a gap', async (t) => {
  const frames = framesOf(EVENTS).split('\n\n');
  frames.splice(3, 1);
  const relay = await serveRelay(t, { plan: () => ({ status: 200, headers: { 'content-type': 'text/event-stream' }, body: frames.join('\n\n') }) });
  const { events, error } = await drain(chat(REQUEST, { url: relay.url }));

  assert.equal(error.code, 'events_missing');
  assert.match(error.message, /event 5 .* after event 3/);
  assert.deepEqual(events, EVENTS.slice(0, 3));
  assert.equal(relay.gets.length, 0);
});

test('a number that is left out after a reconnection is an error', async (t) => {
  const relay = await serveRelay(t, {
    plan: (number) => (number === 1 ? { bytes: framesOf(EVENTS.slice(0, 2)).length, how: 'end' }
      : { status: 200, headers: { 'content-type': 'text/event-stream' }, body: framesOf(EVENTS, { after: 3 }) }),
  });
  const { events, error } = await drain(chat(REQUEST, { url: relay.url }));

  assert.equal(error.code, 'events_missing');
  assert.deepEqual(events, EVENTS.slice(0, 2));
});

test('an event of another stream is refused', async (t) => {
  const relay = await serveRelay(t, { plan: () => ({ status: 200, headers: { 'content-type': 'text/event-stream' }, body: framesOf(EVENTS, { stream: 'st_other' }) }) });
  const { events, error } = await drain(resume(STREAM, { streamsUrl: relay.streamsUrl }));

  assert.deepEqual([error.code, events], ['invalid_response', []]);
});
