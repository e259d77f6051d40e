// The events of an answer with their times, as they are kept for a reload.

import assert from 'node:assert/strict';
import test from 'node:test';

const stored = new Map();
globalThis.sessionStorage = {
  getItem: (key) => stored.get(key) ?? null,
  removeItem: (key) => stored.delete(key),
  setItem: (key, value) => {
    if (value.length > 2_000_000) throw new Error('full');
    stored.set(key, value);
  },
};
const { Recording, forgetTimes, keepTimes, timesOf } = await import('../../static/chat/recording.js');

/** A recording of events that came at these times. */
function recorded(stream, times, from = 1) {
  const recording = new Recording();
  for (const [at, time] of times.entries()) receive(recording, stream, from + at, time);
  return recording;
}

function receive(recording, stream, number, at) {
  const event = { type: 'text.delta', block: 0, text: 'x' };
  recording.receive({ id: `${stream}.${number}`, event, data: JSON.stringify(event) }, at);
}

test('times are the same after a reload, to the millisecond', () => {
  const recording = recorded('st_a', [10.4, 30.2, 30.2, 95.9]);
  keepTimes(recording);
  const times = timesOf('st_a');

  assert.deepEqual([1, 2, 3, 4].map(times.at), [10, 30, 30, 96]);
  assert.ok(Number.isNaN(times.at(5)));
  assert.ok(Math.abs(times.sentAt - recording.sentAt) < 2);
  assert.equal(timesOf('st_other'), null);
  forgetTimes();
  assert.equal(timesOf('st_a'), null);
});

test('a cut is told by the events on both sides of it', () => {
  const recording = recorded('st_b', [1, 2, 3]);
  recording.lost();
  recording.lost(); // an EventSource says so at every attempt
  assert.deepEqual(recording.cuts.map(({ at, resumed }) => [at, resumed]), [[3, 0]]);
  assert.equal(recording.back(), true);
  assert.equal(recording.back(), true);
  receive(recording, 'st_b', 4, 900);
  assert.equal(recording.back(), false);
  recording.lost();
  receive(recording, 'st_b', 5, 1900);

  assert.deepEqual(recording.cuts.map(({ at, resumed }) => [at, resumed]), [[3, 4], [4, 5]]);
  assert.ok(recording.cuts.every(({ away_ms }) => away_ms >= 0));
});

test('nothing was lost before the first event', () => {
  const recording = new Recording();
  recording.lost();

  assert.deepEqual(recording.cuts, []);
});

test('what came before a reload stands in front', () => {
  const earlier = recorded('st_c', [10, 20]);
  const later = recorded('st_c', [520, 530], 3);
  later.follows(earlier);

  assert.deepEqual(later.entries.map(({ number, gap_ms }) => [number, gap_ms]), [[1, 10], [2, 10], [3, 500], [4, 10]]);
  assert.deepEqual(later.cuts, [{ at: 2, resumed: 3, lost_ms: 20, away_ms: 500, reload: true }]);
  assert.equal(later.deltas, 4);
  assert.equal(later.firstDelta, 10);
});

test('without times there are events all the same', () => {
  const earlier = recorded('st_d', [NaN, NaN]);
  assert.equal(earlier.timed, false);
  assert.equal(earlier.deltas, 0);
  assert.deepEqual(earlier.toJSON().map(({ at_ms, event }) => [at_ms, event.text]), [[null, 'x'], [null, 'x']]);
  const later = recorded('st_d', [5], 3);
  later.follows(earlier);

  assert.deepEqual(later.cuts, []);
  keepTimes(earlier);
  assert.equal(timesOf('st_d'), null);
});

test('what is kept has a bound, and the oldest leaves', () => {
  for (let number = 0; number < 60; number++) keepTimes(recorded(`st_${number}`, Array.from({ length: 300 }, (_, at) => at * 25)));
  assert.equal(timesOf('st_29'), null);
  assert.equal(timesOf('st_59').at(300), 299 * 25);
  keepTimes(recorded('st_long', Array.from({ length: 50_000 }, (_, at) => at * 25)));

  assert.ok(stored.get('seseragi.times').length < 110_000);
  assert.ok(Number.isNaN(timesOf('st_long').at(49_000)));
});

test('what others have stored there does no harm', () => {
  for (const value of ['', '[', '7', 'null', '{"st_x": 5}', '{"st_x": {"sent": 1, "gaps": 5, "cuts": []}}']) {
    stored.set('seseragi.times', value);

    assert.equal(timesOf('st_x'), null);
  }
});
