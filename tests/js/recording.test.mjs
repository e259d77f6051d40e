// The events of an answer with their times, and the cuts between them.

import assert from 'node:assert/strict';
import test from 'node:test';

import { Recording } from '../../static/chat/recording.js';

function receive(recording, number, at) {
  recording.receive({ id: `st_a.${number}`, type: 'text.delta', data: '{"type":"text.delta","block":0,"text":"x"}' }, at);
}

test('each event has its gap', () => {
  const recording = new Recording();
  for (const [at, time] of [10.44, 30.2, 30.2, 95.9].entries()) receive(recording, at + 1, time);

  assert.deepEqual(recording.toJSON().map(({ id, at_ms, gap_ms, event }) => [id, at_ms, gap_ms, event.text]),
    [['st_a.1', 10.4, 10.4, 'x'], ['st_a.2', 30.2, 19.8, 'x'], ['st_a.3', 30.2, 0, 'x'], ['st_a.4', 95.9, 65.7, 'x']]);
  assert.deepEqual([recording.deltas, recording.firstDelta, recording.lastDelta, recording.last], [4, 10.44, 95.9, 4]);
});

test('a cut has the events on both sides of it', () => {
  const recording = new Recording();
  receive(recording, 1, 1);
  recording.lost();
  recording.lost(); // an EventSource reports each attempt
  assert.deepEqual(recording.cuts.map(({ at, resumed }) => [at, resumed]), [[1, 0]]);
  recording.back();
  receive(recording, 2, 900);
  recording.lost();
  receive(recording, 3, 1900);

  assert.deepEqual(recording.cuts.map(({ at, resumed }) => [at, resumed]), [[1, 2], [2, 3]]);
  assert.ok(recording.cuts.every(({ away_ms }) => away_ms >= 0));
});

test('nothing was lost before the first event', () => {
  const recording = new Recording();
  recording.lost();

  assert.deepEqual(recording.cuts, []);
});

test('a reload is marked where it was', () => {
  const recording = new Recording();
  recording.before = { number: 2, at: Date.now() - 1000 };
  for (const number of [1, 2, 3, 4]) receive(recording, number, number);

  const [{ away_ms, ...cut }] = recording.cuts;
  assert.deepEqual(cut, { at: 2, resumed: 3, lost_ms: 3, reload: true });
  assert.ok(away_ms >= 1000 && away_ms < 5000);
});

test('frames of other formats are counted too', () => {
  const recording = new Recording();
  recording.receive({ id: 'st_a.c1', type: 'chunk', data: '{"object":"chat.completion.chunk"}' }, 1);
  recording.receive({ id: 'st_a.c2', type: '[DONE]', data: '[DONE]' }, 2);

  assert.deepEqual(recording.entries.map(({ number }) => number), [1, 2]);
  assert.equal(recording.toJSON()[1].event, '[DONE]');
});
