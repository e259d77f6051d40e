// Conversations as files: what is saved comes back, and of anybody's file only what is known is taken.

import assert from 'node:assert/strict';
import test from 'node:test';

import { asJson, fromJson, partsOf } from '../../static/chat/export.js';

const said = (text, block = 0) => [{ type: 'text.start', block }, { type: 'text.delta', block, text }, { type: 'text.end', block }];
const EVENTS = [
  { type: 'stream.start', stream: 'st_1' },
  { type: 'reasoning.start', block: 0 }, { type: 'reasoning.delta', block: 0, text: 'one\ntwo' }, { type: 'reasoning.end', block: 0 },
  ...said('Half \n', 1), { type: 'stream.end', status: 'completed', finish_reason: 'length' },
  { type: 'seam' },
  ...said(' and ``` whole'), { type: 'tool_call.start', block: 1, id: 'c', name: 'look' }, { type: 'tool_call.delta', block: 1, arguments: '{' }, { type: 'tool_call.end', block: 1, arguments: '{}' },
  { type: 'source', url: 'https://a.example/', title: 'A' },
  { type: 'stream.end', status: 'completed', finish_reason: 'stop' },
];
const PARTS = [
  { type: 'reasoning', text: 'one\ntwo' }, { type: 'text', text: 'Half and ``` whole' },
  { type: 'tool_call', name: 'look', arguments: '{}' }, { type: 'source', url: 'https://a.example/', title: 'A' },
];
const turn = (id, after, prompt, events) => ({ id, after, prompt, files: [], model: 'm', events, stopped: false, failure: null });
const CONVERSATION = {
  id: 'x', revision: 'r', at: 5, shown: 3, settings: { system: 'Be brief.' },
  turns: [turn(1, 0, 'first', EVENTS), turn(2, 1, 'left', said('unseen')), { ...turn(3, 1, 'second', said('cut')), stopped: true, files: [{ kind: 'image', name: 'a.png', size: 10, data: 'data:,', thumb: 'data:,' }] }],
};

test('what is saved as JSON comes back, with all versions and without files', () => {
  const json = asJson('A name', CONVERSATION);
  assert.ok(!json.includes('data:'));
  const { title, conversation } = fromJson(json);

  assert.equal(title, 'A name');
  assert.deepEqual([conversation.at, conversation.shown, conversation.settings, conversation.revision], [5, 3, { system: 'Be brief.' }, null]);
  assert.notEqual(conversation.id, 'x');
  assert.deepEqual(conversation.turns.map(({ id, after, prompt }) => [id, after, prompt]), [[1, 0, 'first'], [2, 1, 'left'], [3, 1, 'second']]);
  assert.deepEqual(partsOf(conversation.turns[0].events), PARTS);
  assert.deepEqual(conversation.turns.map(({ events }) => events.at(-1).status), ['completed', 'interrupted', 'cancelled']);
  assert.deepEqual(conversation.turns[2].files, [{ kind: 'image', name: 'a.png', size: 10, data: '', thumb: '' }]);
  assert.equal(asJson('A name', conversation), json);
});

test('of a file only texts and known words are taken', () => {
  const evil = { format: 'seseragi.conversation', version: 1, title: { a: 1 }, at: 1e300, settings: { system: 3, temperature: 'hot', model: 'x' }, shown: '__proto__', key: 'k', turns: [{
    id: 1, after: 0, question: 'q', model: ['m'], key: 'k', stream: 'st_1', request: {}, transport: 'x', failure: {}, status: 'constructor', finish_reason: 'constructor', files: [{ kind: 'image', name: 3, size: -1, data: 'https://evil.example/', thumb: 'https://evil.example/' }, { kind: 'x' }, null],
    parts: [null, 3, { type: 'media', url: 'https://evil.example/' }, { type: 'constructor' }, { type: 'text', text: { toString: 1 } }, { type: 'source', url: 7 }],
  }] };
  const { title, conversation: { turns: [{ key, ...kept }], shown, settings } } = fromJson(JSON.stringify(evil));

  assert.deepEqual([title, shown, settings], ['', 0, {}]);
  assert.notEqual(key, 'k');
  assert.deepEqual(kept, { id: 1, after: 0, prompt: 'q', files: [{ kind: 'image', name: '', size: 0, data: '', thumb: '' }], model: '', events: [
    ...said('', 4), { type: 'source', url: '', title: '' }, { type: 'stream.end', status: 'interrupted' },
  ] });
});

test('what is no conversation is refused', () => {
  const one = (turns) => JSON.stringify({ format: 'seseragi.conversation', version: 1, turns });
  const q = { id: 1, after: 0, question: 'q' };
  for (const wrong of ['', 'null', '[]', '{}', one([]), one({}), one([null]), one([{ ...q, question: '' }]), one([{ ...q, id: 1.5 }]), one([{ ...q, after: 1 }]),
    one([q, q]), one([{ ...q, after: 2 }, { ...q, id: 2 }]), one(Array.from({ length: 1001 }, (_, at) => ({ ...q, id: at + 1 }))), one([q]).replace('"version":1', '"version":2')]) {
    assert.throws(() => fromJson(wrong), /no conversation/, wrong.slice(0, 80));
  }
  assert.equal(fromJson(one([q])).conversation.turns.length, 1);
});
