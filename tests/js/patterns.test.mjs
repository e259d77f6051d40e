// Laws of text and JSON that come in pieces, over the ways in which they arrive.

import assert from 'node:assert/strict';
import test from 'node:test';

import { parsePartial } from '../../static/partial-json.js';
import { Smooth } from '../../static/smooth.js';
import { seeded } from './relay.mjs';

const LAG_MS = 250;
const FRAME_MS = 16;
const TEXTS = {
  English: 'The murmur of a small stream — “quoted”, naïve café, 👩‍👧‍👦 and 🏞️, e\u0301 and 🇯🇵🇫🇷. '.repeat(6),
  Japanese: 'せせらぎの音が、が\u3099のように聞こえる。𠮷野家で寿司🍣を、葛󠄀城市と辻󠄁さんの話。👩🏽‍🚀は宇宙へ。'.repeat(6),
};

/** Cut a text into pieces of so many UTF-16 units. */
function cut(text, size) {
  const pieces = [];
  for (let at = 0, length; at < text.length; at += length) pieces.push(text.slice(at, at + (length = Math.max(1, size(pieces.length)))));
  return pieces;
}

const every = (pieces, pause) => {
  let now = 0;
  return pieces.map((piece, at) => ({ at: (now += at && pause(at)), piece }));
};
const splits = (text, where) => text.split(new RegExp(`(?<=${where.source})`, where.flags));

/** How a text arrives: pieces, each at its millisecond. */
const PATTERNS = {
  'steady': (text) => every(cut(text, () => 5), () => 20),
  'single characters': (text) => every([...text], () => 3),
  'single units of UTF-16': (text) => every(cut(text, () => 1), () => 2),
  'one big piece': (text) => [{ at: 0, piece: text }],
  'bursts': (text) => every(cut(text, () => 80), () => 400),
  'a burst at the beginning': (text) => every(cut(text, (n) => (n ? 3 : 300)), () => 25),
  'a burst at the end': (text) => every(cut(text, (n) => (n < 40 ? 3 : text.length)), () => 25),
  'long pauses': (text) => every(cut(text, () => 60), (n) => (n % 3 ? 10 : 3000)),
  'slower and slower': (text) => every(cut(text, () => 12), (n) => n * 4),
  'faster and faster': (text) => every(cut(text, () => 12), (n) => 400 / n),
  'surrogate pairs in two pieces': (text) => every(splits(text, /[\ud800-\udbff]/), () => 120),
  'combining marks and joiners on their own': (text) => every(splits(text, /(?=[\p{M}\u200d\u{e0100}-\u{e01ef}])/u), () => 7),
  'at random': (text) => { const dice = seeded(7); return every(cut(text, () => 1 + dice.below(40)), () => dice.below(300)); },
};

/** Paint an arriving text frame by frame; return what was painted and when. */
async function paint(t, arrivals) {
  let now = 0;
  let step;
  t.mock.method(performance, 'now', () => now);
  globalThis.requestAnimationFrame = (next) => { step = next; return 1; };
  globalThis.cancelAnimationFrame = () => { step = undefined; };
  const painted = [];
  let arrived = '';
  const smooth = new Smooth((text) => painted.push({ text, now, arrived }), { lagMs: LAG_MS });
  const waiting = [...arrivals];
  let ended;
  for (; !ended?.done; now += FRAME_MS) {
    while (waiting.length && waiting[0].at <= now) {
      const { piece } = waiting.shift();
      arrived += piece;
      smooth.push(piece);
    }
    if (!waiting.length && !ended) {
      ended = { done: false, since: now };
      smooth.end().then(() => { ended.done = true; });
    }
    step?.();
    await undefined; // what waits for the end hears it
    assert.ok(now < 60_000, 'it ends');
  }
  return { painted, tookMs: now - ended.since };
}

const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
const ends = (text) => new Set([...segmenter.segment(text)].map(({ index, segment }) => index + segment.length));

assert.equal(Object.keys(PATTERNS).length, 13);
for (const [language, text] of Object.entries(TEXTS)) {
  for (const [name, arrive] of Object.entries(PATTERNS)) {
    test(`${language}, ${name}: all is painted in order, in whole characters, and in time`, async (t) => {
      t.after(() => { delete globalThis.requestAnimationFrame; delete globalThis.cancelAnimationFrame; });
      const arrivals = arrive(text);
      assert.equal(arrivals.map(({ piece }) => piece).join(''), text);
      const { painted, tookMs } = await paint(t, arrivals);

      assert.equal(painted.at(-1).text, text);
      let before = '';
      let next = 0; // the first piece that is not painted whole
      let reached = 0;
      for (const { text: shown, now, arrived } of painted) {
        assert.ok(shown.startsWith(before) && shown.length > before.length, 'nothing is lost, reordered or painted again');
        assert.ok(ends(arrived).has(shown.length), `${JSON.stringify(shown.slice(-8))} ends within a character`);
        assert.ok(shown === text || !/[\ud800-\udbff]$/.test(shown), 'half of a surrogate pair');
        before = shown;
        for (; next < arrivals.length && reached + arrivals[next].piece.length <= shown.length; next++) {
          reached += arrivals[next].piece.length;
          assert.ok(now - arrivals[next].at <= longest(text), `${now - arrivals[next].at} ms late`);
        }
      }
      assert.ok(tookMs <= longest(text), `it ends ${tookMs} ms after the last piece`);
    });
  }
}

/** The longest lag: what is left shrinks by its share of the lag each frame, and then by a character. */
function longest(text) {
  return LAG_MS * (1 + Math.log(text.length)) + 2 * FRAME_MS;
}

test('half of a surrogate pair waits for the other one, and is painted if none comes', async () => {
  for (const lagMs of [0, LAG_MS]) { // neither has frames here: each paints at once
    const painted = [];
    const smooth = new Smooth((text) => painted.push(text), { lagMs });
    smooth.push('a\ud83c');
    smooth.push('\udfde');
    smooth.push('b\ud83c');
    await smooth.end();
    assert.deepEqual(painted, ['a', 'a🏞', 'a🏞b', 'a🏞b\ud83c']);
  }
});

/** Make any JSON value. */
function value(dice, depth = 0) {
  const texts = ['', 'a', 'キー', '"', '\\', '\\u', '🏞️', '𠮷', '\ud83d', '\udfde', 'é\n\u2028', '{"a":[', '__proto__x', 'k'.repeat(20)];
  const text = () => Array.from({ length: dice.below(4) }, () => texts[dice.below(texts.length)]).join('');
  switch (dice.below(depth > 3 ? 5 : 8)) {
    case 0: return text();
    case 1: return [0, -1, 12.5, -2.5e-3, 1e21, 123456789][dice.below(6)];
    case 2: return [true, false, null][dice.below(3)];
    case 3: case 4: return text();
    case 5: return Array.from({ length: dice.below(5) }, () => value(dice, depth + 1));
    default: return Object.fromEntries(Array.from({ length: dice.below(5) }, (_, at) => [`k${at}${text()}`, value(dice, depth + 1)]));
  }
}

/** Whether the first value is how the second begins. */
function begins(first, second) {
  if (first === undefined) return true;
  if (typeof first === 'string') return typeof second === 'string' && second.startsWith(first);
  if (Array.isArray(first)) return Array.isArray(second) && first.length <= second.length && first.every((one, at) => (at < first.length - 1 ? same(one, second[at]) : begins(one, second[at])));
  if (first && typeof first === 'object') {
    const keys = Object.keys(first);
    return second && typeof second === 'object' && !Array.isArray(second) && keys.every((key, at) => key === Object.keys(second)[at] && (at < keys.length - 1 ? same(first[key], second[key]) : begins(first[key], second[key])));
  }
  return first === second;
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

test('each snapshot of any JSON is how the next one begins, whatever the pieces', () => {
  const dice = seeded(55);
  const escape = (text) => text.replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  for (let round = 0; round < 600; round++) {
    const whole = [value(dice)];
    const text = dice.below(2) ? escape(JSON.stringify(whole)) : JSON.stringify(whole, null, dice.below(3));
    let before;
    for (let at = 0; at < text.length; at += 1 + dice.below(round % 3 ? 1 : 9)) {
      const { value: snapshot, complete } = parsePartial(text.slice(0, at));
      assert.equal(complete, false);
      assert.ok(begins(before, snapshot), `${text.slice(0, at)}: ${JSON.stringify(before)} is followed by ${JSON.stringify(snapshot)}`);
      before = snapshot;
    }
    assert.ok(begins(before, whole), text);
    assert.deepEqual(parsePartial(text), { value: JSON.parse(text), complete: true });
  }
});
