// The settings of a conversation: only what can be sent, and in the wire's own fields.

import assert from 'node:assert/strict';
import test from 'node:test';

import { MOST_SYSTEM, areSame, isSet, settingsOf, withSettings } from '../../static/chat/settings.js';

test('what is kept is read as settings, and nothing else of it', () => {
  for (const none of [null, undefined, 'text', 3, [], { system: ' ', temperature: '1', max_tokens: 0 }, { temperature: 2.1, max_tokens: 1.5, system: 7 }, { temperature: NaN }]) {
    assert.deepEqual(settingsOf(none), {});
  }
  assert.deepEqual(settingsOf({ system: 'x', temperature: 0, max_tokens: 1, model: 'm' }), { system: 'x', temperature: 0, max_tokens: 1 });
  assert.equal(settingsOf({ system: 'x'.repeat(MOST_SYSTEM + 1) }).system.length, MOST_SYSTEM);
  assert.ok(!isSet(settingsOf(null)));
  assert.ok(areSame(settingsOf({}), {}));
});

test('a request has what is set, in place of what was', () => {
  const question = { role: 'user', content: 'hi' };
  const first = withSettings({ model: 'm', messages: [question] }, { system: 'one', temperature: 0 });
  assert.deepEqual(first, { model: 'm', temperature: 0, messages: [{ role: 'system', content: 'one' }, question] });
  assert.deepEqual(withSettings(first, { system: 'two', max_tokens: 5 }), { model: 'm', max_tokens: 5, messages: [{ role: 'system', content: 'two' }, question] });
  assert.deepEqual(withSettings(first, {}), { model: 'm', messages: [question] });
});
