// JSON that is still being written, and text painted at an even pace.

import assert from 'node:assert/strict';
import test from 'node:test';

import { parsePartial } from '../../static/partial-json.js';
import { Smooth } from '../../static/smooth.js';
import { seeded } from './relay.mjs';

const VALUES = [
  { city: 'Kyōto 🏞️', days: [1, -2.5e3, true, null, { deep: [[], {}] }], 'a"\\\n\u2028': '𠮷\\', __proto__: 1 },
  [], {}, 'text "quoted"', -12.5, true, null, [['']], { '': { '': '' } }, ['\ud83d'], '\\\\u12',
];

/** Whether a value says nothing that the whole one does not say. */
function isPart(part, whole) {
  if (part === undefined) return true;
  if (typeof part === 'string') return typeof whole === 'string' && whole.startsWith(part);
  if (Array.isArray(part)) return Array.isArray(whole) && part.length <= whole.length && part.every((one, at) => isPart(one, whole[at]));
  if (part && typeof part === 'object') {
    return whole && typeof whole === 'object' && Object.keys(part).every((key, at) => key === Object.keys(whole)[at] && isPart(part[key], whole[key]));
  }
  return part === whole;
}

const escaped = (text) => text.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

test('every beginning of JSON says a part of the whole, and more with each character', () => {
  for (const value of VALUES) {
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, 2), escaped(JSON.stringify(value)), JSON.stringify(value).replaceAll('k', '\\u006B')]) {
      let before;
      for (let at = 0; at <= text.length; at++) {
        const { value: part, complete } = parsePartial(text.slice(0, at));
        if (!complete) assert.ok(isPart(part, value), `${text.slice(0, at)} said ${JSON.stringify(part)}`);
        if (!complete) assert.ok(isPart(before, part), `${text.slice(0, at)} said less than before`);
        if (!complete) before = part;
      }
      assert.deepEqual(parsePartial(text), { value: JSON.parse(text), complete: true });
    }
  }
});

for (const [text, value] of [
  ['', undefined], [' ', undefined], ['{', {}], ['[', []], ['"', ''], ['{"a', {}], ['{"a"', {}], ['{"a":', {}], ['{"a":t', {}], ['{"a":true', { a: true }],
  ['{"a":12', {}], ['{"a":12,', { a: 12 }], ['{"a":12 ', { a: 12 }], ['["x\\', ['x']], ['["x\\u00', ['x']], ['["\\ud83d', ['']], ['["\\ud83d\\udc', ['']], ['["\\\\ud83d', ['\\ud83d']],
  ['{"a":"b","c', { a: 'b' }], ['[1,[2,', [1, [2]]], ['no JSON', undefined], ['}', undefined], ['{"a":1]', undefined], ['[1 2', [1]], ['{"__proto__":{"x":1}', JSON.parse('{"__proto__":{"x":1}}')],
]) {
  test(`${text} says ${JSON.stringify(value)}`, () => {
    assert.deepEqual(parsePartial(text), { value, complete: false });
  });
}

test('garbage, and a million brackets, are no exception', () => {
  const random = seeded(1);
  for (let round = 0; round < 5000; round++) {
    const text = Array.from({ length: random.below(20) }, () => '{}[]",:\\u0d8a1e-. tn'[random.below(21)]).join('');
    assert.doesNotThrow(() => parsePartial(text));
  }
  assert.doesNotThrow(() => parsePartial('['.repeat(1e6)));
});

/** Frames as told, for the time of a test. */
function frames(t) {
  let now = 0;
  const asked = new Map();
  t.mock.method(performance, 'now', () => now);
  globalThis.requestAnimationFrame = (step) => { asked.set(asked.size + 1, step); return asked.size; };
  globalThis.cancelAnimationFrame = (id) => asked.delete(id);
  t.after(() => { delete globalThis.requestAnimationFrame; delete globalThis.cancelAnimationFrame; });
  return (ms) => {
    now += ms;
    const due = [...asked.values()];
    asked.clear();
    for (const step of due) step(now);
  };
}

test('a burst is painted over many frames, in whole characters, and to its end', async (t) => {
  const next = frames(t);
  const painted = [];
  const smooth = new Smooth((text) => painted.push(text));
  const text = '👩‍👧‍👦が川🏞️e\u0301'.repeat(30);
  smooth.push(text.slice(0, 100));
  smooth.push(text.slice(100));
  const ended = smooth.end();
  for (let frame = 0; frame < 400; frame++) next(16);
  await ended;

  const ends = new Set([...new Intl.Segmenter().segment(text)].map(({ index }) => index).concat(text.length));
  assert.equal(painted.at(-1), text);
  assert.ok(painted.length > 20);
  assert.ok(painted.every((one, at) => ends.has(one.length) && one.length > (painted[at - 1]?.length ?? 0)));
});

test('another text, reduced motion and no frames are painted at once', async (t) => {
  const painted = [];
  const plain = new Smooth((text) => painted.push(text));
  plain.push('no frames');
  await plain.end();
  const next = frames(t);
  const smooth = new Smooth((text) => painted.push(text));
  smooth.push('something long enough');
  next(16);
  smooth.set('else');
  next(16);
  assert.deepEqual([painted[0], painted.at(-1)], ['no frames', 'else']);
  globalThis.matchMedia = () => ({ matches: true });
  t.after(() => { delete globalThis.matchMedia; });
  smooth.set('else, all of it at once');
  assert.equal(painted.at(-1), 'else, all of it at once');
  await smooth.end();
});
