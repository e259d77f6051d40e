// What the page does with a burst of events, by counting and with a clock of its own.

import assert from 'node:assert/strict';
import test from 'node:test';

import { paced } from '../../static/chat/pace.js';

/** Take events that each cost so many ms, with a pause before each; count the rests between. */
async function take(count, { costMs, pauseMs = 0 }) {
  let time = 0;
  const rests = [];
  async function* events() {
    for (let number = 0; number < count; number++) {
      time += pauseMs;
      yield number;
    }
  }
  const taken = [];
  for await (const number of paced(events(), () => time, async () => { rests.push(taken.length); })) {
    taken.push(number);
    time += costMs;
  }
  assert.deepEqual(taken, [...Array(count).keys()]);
  return rests;
}

test('a burst is taken in tasks of some milliseconds', async () => {
  const rests = await take(5000, { costMs: 0.05 });

  assert.ok(Math.max(...rests.map((at, index) => at - (rests[index - 1] ?? 0))) * 0.05 < 9);
  assert.ok(rests.length < 5000 * 0.05 / 7);
});

test('what comes one by one never waits', async () => {
  assert.deepEqual(await take(100, { costMs: 2, pauseMs: 20 }), []);
});

test('one event that is long is followed by a rest', async () => {
  assert.deepEqual(await take(3, { costMs: 50 }), [1, 2, 3]);
});

test('others have their turn between two tasks', async () => {
  let turns = 0;
  const ticking = setInterval(() => { turns += 1; }, 0);
  async function* events() {
    for (let number = 0; number < 50; number++) yield number;
  }
  for await (const _ of paced(events())) {
    const until = performance.now() + 2;
    while (performance.now() < until);
  }
  clearInterval(ticking);

  assert.ok(turns >= 5, String(turns));
});
