// What the page says of the next step where an answer has failed.

import assert from 'node:assert/strict';
import test from 'node:test';

import { mayBeAdjusted, mayBeRetried, nextStep } from '../../static/chat/failure.js';

const failure = (code, retryable, wait) => ({ code, message: '', retryable, retry_after_s: wait });
const told = (one, { left = (one.retry_after_s ?? 0) * 1000, keyed = false } = {}) => nextStep(one, left, keyed);

test('a wait is counted down while it is short, and has its end named where it is long', () => {
  assert.equal(told(failure('rate_limited', true, 8)), 'It may work again in 8 s.');
  assert.equal(told(failure('rate_limited', true, 8), { left: 1500 }), 'It may work again in 2 s.');
  assert.equal(told(failure('rate_limited', true, 8), { left: -5 }), 'It may work if you try again.');
  assert.match(told(failure('upstream_rate_limited', true, 7200)), /^It may work again from .*\d:\d\d/);
  assert.equal(told(failure('upstream_timeout', true)), 'It may work if you try again.');
});

test('a budget has room again', () => {
  assert.match(told(failure('budget_exceeded', false, 86_400)), /^There is room again from .*\d:\d\d.*\.$/);
  assert.equal(told(failure('budget_exceeded', false, 2)), 'There may be room again in 2 s.');
  assert.equal(told(failure('budget_exceeded', false, 2), { left: 0 }), 'It may work if you try again.');
  assert.equal(told(failure('budget_exceeded', false)), 'The same request will fail again.'); // the price is not known
  assert.deepEqual([2, 86_400, undefined].map((wait) => mayBeRetried(failure('budget_exceeded', false, wait))), [true, false, false]);
});

test('what stays as it is says so, and what may change it', () => {
  assert.equal(told(failure('invalid_request', false)), 'The same request will fail again.');
  assert.match(told(failure('forbidden', false), { keyed: true }), /another model/);
  assert.equal(told(failure('forbidden', false)), 'The same request will fail again.');
  assert.deepEqual(['upstream_invalid_request', 'model_not_found'].map((code) => mayBeAdjusted(failure(code, false))), [true, false]);
});
