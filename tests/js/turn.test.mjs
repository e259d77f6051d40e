// What the page keeps for a reload: few events, and the same answer again.

import assert from 'node:assert/strict';
import test from 'node:test';

import { joined } from '../../static/chat/turn.js';

function packed(events) {
  const kept = [];
  for (const event of events) if (!joined(kept.at(-1), event)) kept.push({ ...event });
  return kept;
}

test('neighbouring deltas of a block become one', () => {
  assert.deepEqual(packed([
    { type: 'text.start', block: 0 },
    { type: 'text.delta', block: 0, text: 'せせ' },
    { type: 'text.delta', block: 0, text: 'らぎ' },
    { type: 'text.delta', block: 1, text: 'another block' },
    { type: 'reasoning.delta', block: 1, text: 'another kind' },
    { type: 'tool_call.delta', block: 2, arguments: '{"a"' },
    { type: 'tool_call.delta', block: 2, arguments: ':1}' },
    { type: 'text.end', block: 0 },
    { type: 'text.end', block: 0 },
  ]), [
    { type: 'text.start', block: 0 },
    { type: 'text.delta', block: 0, text: 'せせらぎ' },
    { type: 'text.delta', block: 1, text: 'another block' },
    { type: 'reasoning.delta', block: 1, text: 'another kind' },
    { type: 'tool_call.delta', block: 2, arguments: '{"a":1}' },
    { type: 'text.end', block: 0 },
    { type: 'text.end', block: 0 },
  ]);
});
