// The SSE decoder of the browser client: one table of bodies, fed in every way a network can cut them.
// Expected messages follow WHATWG HTML 9.2.6.

import assert from 'node:assert/strict';
import test from 'node:test';

import { SseDecoder } from '../../static/seseragi.js';

const encoder = new TextEncoder();

/** Bytes of strings and of raw byte lists, joined. */
function bytes(...parts) {
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? encoder.encode(part) : Uint8Array.from(part))));
}

function message(data, { event = 'message', id = '', retry = null } = {}) {
  return { event, data, id, retry };
}

const BOM = [0xef, 0xbb, 0xbf];

// name, body, messages
const CASES = [
  ['LF', bytes('data: a\n\ndata: b\n\n'), [message('a'), message('b')]],
  ['CR', bytes('data: a\r\rdata: b\r\r'), [message('a'), message('b')]],
  ['CRLF', bytes('data: a\r\n\r\ndata: b\r\n\r\n'), [message('a'), message('b')]],
  ['mixed line ends', bytes('data: a\r\n\rdata: b\n\r\ndata: c\r\n\ndata: d\r\r\n'), [message('a'), message('b'), message('c'), message('d')]],
  ['LF CR is two line ends', bytes('data: a\n\rdata: b\n\r'), [message('a'), message('b')]],
  ['data lines join with LF', bytes('data: a\ndata: b\r\ndata: c\rdata: d\n\n'), [message('a\nb\nc\nd')]],
  ['one leading space is stripped', bytes('data:  a \ndata:b\ndata:\tc\n\n'), [message(' a \nb\n\tc')]],
  ['a value with colons', bytes('data: a: b:c\n\n'), [message('a: b:c')]],
  ['data with an empty value', bytes('data:\n\ndata: \n\ndata\n\ndata\ndata\n\n'), [message(''), message(''), message(''), message('\n')]],
  ['no data, no message', bytes('event: a\n\nid: 7\n\n\n\ndata: b\n\n'), [message('b', { id: '7' })]],
  ['event names', bytes('event: a\ndata: 1\n\ndata: 2\n\nevent: x\nevent: b\ndata: 3\n\nevent\ndata: 4\n\n'),
    [message('1', { event: 'a' }), message('2'), message('3', { event: 'b' }), message('4')]],
  ['the id stays until the next', bytes('id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n'), [message('a', { id: '1' }), message('b', { id: '1' }), message('c')]],
  ['an id with NUL is ignored', bytes('id: 1\nid: 2\0\ndata: a\n\n'), [message('a', { id: '1' })]],
  ['retry takes ASCII digits only', bytes('retry: 10\nretry: 1s\nretry: -1\nretry: 1.5\nretry:\nretry: ５\nretry:  5\ndata: a\n\nretry: 0020\n\ndata: b\n\n'),
    [message('a', { retry: 10 }), message('b', { retry: 20 })]],
  ['retry is bounded', bytes(`retry: ${'9'.repeat(400)}\ndata: a\n\n`), [message('a', { retry: 2 ** 31 - 1 })]],
  ['comments', bytes(': hb\ndata: a\n:\n:data: no\ndata: b\n\n'), [message('a\nb')]],
  ['unknown fields and case', bytes('foo: 1\nData: no\n data: no\ndata : no\ndata: a\nfoo\n\n'), [message('a')]],
  ['a heartbeat line between frames', bytes(': hb\nretry: 2000\nid: s.1\nevent: a\ndata: 1\n\n: hb\n: hb\nid: s.2\nevent: b\ndata: 2\n\n: hb\n'),
    [message('1', { event: 'a', id: 's.1', retry: 2000 }), message('2', { event: 'b', id: 's.2', retry: 2000 })]],
  ['one BOM is dropped', bytes(BOM, 'data: a\n\n'), [message('a')]],
  ['a second BOM stays', bytes(BOM, BOM, 'data: no\ndata: a\n\n'), [message('a')]],
  ['a BOM later stays', bytes('data: a\n\n', BOM, 'data: no\ndata: ', BOM, 'b\n\n'), [message('a'), message('\ufeffb')]],
  ['a BOM alone on the first line', bytes(BOM, '\ndata: a\n\n'), [message('a')]],
  ['half a BOM is a bad character', bytes([0xef, 0xbb], 'data: no\ndata: a\n\n'), [message('a')]],
  ['a BOM after a line end is none', bytes('\n', BOM, 'data: no\n\n'), []],
  ['other separators end no line', bytes('data: a\u2028b\u2029c\u0085d\ve\ff\u001cg\n\n'), [message('a\u2028b\u2029c\u0085d\ve\ff\u001cg')]],
  ['Japanese and emoji', bytes('data: せせらぎ🏞️ 👩‍👧‍👦 𠮷\n\n'), [message('せせらぎ🏞️ 👩‍👧‍👦 𠮷')]],
  ['bad UTF-8 becomes U+FFFD', bytes('data: a', [0xff], 'b', [0xe3, 0x81], 'c', [0xc0, 0x80], [0xed, 0xa0, 0x80], '\n\n'),
    [message('a\ufffdb\ufffdc\ufffd\ufffd\ufffd\ufffd\ufffd')]],
  ['a character cut off by a line end', bytes('data: a', [0xf0, 0x9f, 0x8f], '\n\ndata: b\n\n'), [message('a\ufffd'), message('b')]],
  ['NUL in data', bytes('data: a\0b\n\n'), [message('a\0b')]],
  ['an unfinished message is not dispatched', bytes('data: a\n\ndata: b\n'), [message('a')]],
  ['an unfinished line is not dispatched', bytes('data: a\n\ndata: b'), [message('a')]],
  ['nothing', bytes(''), []],
  ['blank lines only', bytes('\n\r\n\r\r\n\n'), []],
];

function decode(pieces) {
  const decoder = new SseDecoder();
  return pieces.flatMap((piece) => decoder.feed(piece));
}

/** A deterministic stand-in for Math.random (mulberry32). */
function randomFrom(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

for (const [name, body, expected] of CASES) {
  test(`decodes ${name}, whole and at every cut`, () => {
    assert.deepEqual(decode([body]), expected, 'whole');
    assert.deepEqual(decode([...body].map((byte) => Uint8Array.of(byte))), expected, 'byte by byte');
    for (let at = 0; at <= body.length; at++) {
      assert.deepEqual(decode([body.subarray(0, at), body.subarray(at)]), expected, `cut at ${at}`);
    }
    const random = randomFrom(body.length);
    for (let round = 0; round < 50; round++) {
      const pieces = [];
      for (let at = 0; at < body.length;) {
        const end = at + Math.floor(random() * 7);
        pieces.push(body.subarray(at, end));
        at = end;
      }
      assert.deepEqual(decode(pieces), expected, `random cuts ${round}`);
    }
  });
}

test('a CR at the end of a read dispatches at once', () => {
  const decoder = new SseDecoder();

  assert.deepEqual(decoder.feed(bytes('data: a\r\n\r')), [message('a')]);
  assert.deepEqual(decoder.feed(bytes('\ndata: b\r')), []);
  assert.deepEqual(decoder.feed(bytes('\r')), [message('b')]);
});

test('close returns the unfinished message', () => {
  for (const [body, expected] of [['data: a\ndata: b', message('a\nb')], ['id: 1\ndata: a\n', message('a', { id: '1' })], ['data: a\n\nevent: x', null], ['', null]]) {
    const decoder = new SseDecoder();
    decoder.feed(bytes(body));

    assert.deepEqual(decoder.close(), expected, body);
  }
});

test('the caller may reuse its buffer after feed', () => {
  const decoder = new SseDecoder();
  const buffer = bytes('data: abc');
  decoder.feed(buffer);
  buffer.fill(0x78);

  assert.deepEqual(decoder.feed(bytes('d\n\n')), [message('abcd')]);
});

test('time is linear in one-byte reads and megabyte lines', () => {
  const line = 'あ'.repeat(1_000_000);
  const body = bytes(`data: ${line}\n\n`);
  const started = performance.now();
  const oneByte = new SseDecoder();
  const messages = [];
  for (let at = 0; at < body.length; at++) messages.push(...oneByte.feed(body.subarray(at, at + 1)));
  const many = decode([bytes('data: a\n'.repeat(500_000) + '\n')]);

  assert.equal(messages.length, 1);
  assert.equal(messages[0].data, line);
  assert.equal(many[0].data.length, 999_999);
  assert.ok(performance.now() - started < 60_000, 'three million one-byte reads take about 0.3 s; a quadratic decoder takes minutes');
});
