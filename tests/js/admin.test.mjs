// The pure parts of the operator's page: frames, what is masked in them, how two dialects go together.

import assert from 'node:assert/strict';
import test from 'node:test';

import { Alignment, FrameDecoder } from '../../static/admin/frames.js';
import { masked } from '../../static/admin/mask.js';
import { clock, count, owner, plain, seconds, usd } from '../../static/admin/words.js';

const WIRE = 'retry: 2000\nevent: stream.start\ndata: {"type":"stream.start"}\nid: st_a.1\n\n'
  + ': hb\nevent: text.delta\ndata: {"text":"せ\u2028 : x"}\nid: st_a.2\n\n: hb\ndata: [DONE]\nid: st_a.c3\n\ndata: cut';

test('frames are the same wherever the text is cut', () => {
  const whole = new FrameDecoder().feed(WIRE);
  assert.deepEqual(whole, [
    { event: 'stream.start', data: '{"type":"stream.start"}', id: 'st_a.1' },
    { event: 'text.delta', data: '{"text":"せ\u2028 : x"}', id: 'st_a.2' },
    { event: '', data: '[DONE]', id: 'st_a.c3' },
  ]);
  for (let at = 0; at <= WIRE.length; at++) {
    const decoder = new FrameDecoder();
    assert.deepEqual([...decoder.feed(WIRE.slice(0, at)), ...decoder.feed(WIRE.slice(at))], whole);
  }
});

test('a long line in many pieces is joined once', () => {
  const decoder = new FrameDecoder();
  decoder.feed('data: ');
  for (let n = 0; n < 100_000; n++) decoder.feed('x');
  assert.equal(decoder.feed('\n\n')[0].data.length, 100_000);
});

const SAID = 'kingfisher heron trout';
const CASES = {
  native: { type: 'text.delta', block: 0, text: SAID },
  'native, a call': { type: 'tool_call.end', block: 0, arguments: `{"${SAID}":1}` },
  'native, what a tool gave': { type: 'provider_tool', block: 0, name: 'search', input: { [SAID]: 1 }, output: [{ type: 'x', title: SAID, model: SAID }] },
  'native, opaque': { type: 'opaque', format: 'f', data: { type: SAID } },
  'native, a list of words': { type: 'logprobs', block: 0, content: [{ token: SAID }] },
  "native, the provider's words": { type: 'notice', code: 'refusal', message: SAID },
  'native, a label': { type: 'stream.start', stream: 'st_a', labels: { chat: SAID } },
  openai_chat: { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: SAID, tool_calls: [{ index: 0, function: { name: 'f', arguments: SAID } }] }, logprobs: { content: [{ token: SAID }] } }] },
  openai_responses: { type: 'response.completed', response: { metadata: { [SAID]: SAID }, instructions: SAID, output: [{ type: 'message', content: [{ type: 'output_text', text: SAID, annotations: [{ type: 'x', url: SAID }] }] }] } },
  anthropic: { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: SAID } },
  ui: { type: 'tool-input-available', toolCallId: 'c', toolName: 'f', input: { [SAID]: SAID } },
  'ui, our own event': { type: 'data-seseragi', data: { type: 'source', title: SAID } },
  ag_ui: { type: 'CUSTOM', name: 'seseragi.source', value: { type: 'source', cited_text: SAID } },
  'ag_ui, an unknown one': { type: 'CUSTOM', name: 'other', value: { type: 'x', name: 'y', text: SAID } },
  'a name that is none': { type: 'text.delta', name: SAID, id: SAID, model: SAID },
  'a field of a later version': { type: 'x', later: SAID, deeper: { type: SAID }, list: [SAID] },
};

for (const [name, frame] of Object.entries(CASES)) {
  test(`nothing that was said is left in a masked frame: ${name}`, () => {
    const shown = masked(JSON.stringify(frame));
    for (const word of SAID.split(' ')) assert.ok(!shown.includes(word), shown);
    assert.equal(JSON.parse(shown).type, frame.type);
  });
}

test('a mask keeps the length and the structure', () => {
  assert.equal(masked('{"type":"text.delta","block":0,"text":"川の🌊"}'), '{"type":"text.delta","block":0,"text":"•••"}');
  assert.equal(masked(`{"type":"a","text":"${'x'.repeat(500)}"}`), `{"type":"a","text":"${'•'.repeat(80)} (500)"}`);
  assert.equal(masked('[DONE]'), '[DONE]');
  for (const odd of ['no json', '["a"]', '"text"', 'null']) assert.match(masked(odd), /^•+$/);
  const end = '{"type":"stream.end","status":"failed","error":{"code":"upstream_timeout","message":"upstream \'a\' sent nothing"},"usage":{"output_tokens":3},"cost":"0.1"}';
  assert.equal(masked(end), end);
});

const frame = (event, data) => ({ event, data: JSON.stringify(data) });
const PIECES = ['a', 'b"\n', 'a', 'せ'];
const EVENTS = [
  frame('stream.start', { type: 'stream.start' }), frame('text.start', { type: 'text.start', block: 0 }),
  ...PIECES.map((text) => frame('text.delta', { type: 'text.delta', block: 0, text })), frame('stream.end', { type: 'stream.end' }),
];
const FRAMES = [
  frame('', { role: 'assistant' }), frame('', { content: '' }), ...PIECES.map((content) => frame('', { content })), frame('', { finish: 'stop' }), { event: '', data: '[DONE]' },
];

test('a frame is due with the event that said its piece', () => {
  assert.deepEqual(new Alignment().update(EVENTS, FRAMES, true), [3, 3, 3, 4, 5, 6, 7, 7]);
});

test('it does not matter in which order events and frames come', () => {
  for (let events = 0; events <= EVENTS.length; events++) {
    for (let frames = 0; frames <= FRAMES.length; frames++) {
      const alignment = new Alignment();
      const early = alignment.update(EVENTS.slice(0, events), FRAMES.slice(0, frames), false);
      assert.ok(early.every((due, at) => due <= events && (at === 0 || due >= early[at - 1])));
      assert.deepEqual(alignment.update(EVENTS, FRAMES, true), [3, 3, 3, 4, 5, 6, 7, 7]);
    }
  }
});

test('numbers, times, money and names are written for people', () => {
  assert.deepEqual([0.3, 12.34, 100, 4000, 90_000, null].map(seconds), ['0.30 s', '12.3 s', '1 m 40 s', '1 h 6 m', '1 d 1 h', '–']);
  assert.deepEqual(['0', '0.0000001', '0.000123', '0.5', '1234.5', null].map(usd), ['$0', '< $0.000001', '$0.00012', '$0.50', '$1,234.50', '–']);
  assert.deepEqual([count(0), count(1e6), count(undefined)], ['0', '1,000,000', '–']);
  assert.equal(clock(null), '–');
  assert.equal(owner({ tenant: 'acme', key: null, user: 'a\u202eb' }), 'acme / a\\u202eb');
  assert.equal(plain('line\nnext\u0000\u2066'), 'line\\u000anext\\u0000\\u2066');
});
