/**
 * What can be done where an answer has failed: in words, and when.
 */

import { element } from '../dom.js';
import { moment, number, say } from './language.js';

/** @typedef {import('../seseragi.js').StreamFailure} StreamFailure */

const SOON_S = 120; // what is waited for so long is counted down
const SECOND = 1000;

/** Whether other settings may help, where there are some. @param {StreamFailure} failure */
export function mayBeAdjusted({ code }) {
  return ['invalid_request', 'upstream_invalid_request'].includes(code);
}

/** Whether the same request may soon be taken. @param {StreamFailure} failure */
export function mayBeRetried({ code, retryable, retry_after_s: wait }) {
  return retryable || (code === 'budget_exceeded' && wait !== undefined && wait <= SOON_S);
}

/**
 * Return what to say of the next step.
 * @param {StreamFailure} failure
 * @param {number} left milliseconds until it may be tried again
 * @param {boolean} keyed whether a key was shown
 */
export function nextStep({ code, retryable, retry_after_s: wait }, left, keyed) {
  if (code === 'forbidden' && keyed) return say('This key may not do that. Choose another model, or forget the key and enter another.');
  const budget = code === 'budget_exceeded';
  if (wait && (retryable || budget) && left > 0) {
    if (left > SOON_S * SECOND) {
      const time = moment(new Date(Date.now() + left));
      return budget ? say('There is room again from {time}.', { time }) : say('It may work again from {time}.', { time });
    }
    const seconds = number(Math.ceil(left / SECOND));
    return budget ? say('There may be room again in {seconds} s.', { seconds }) : say('It may work again in {seconds} s.', { seconds });
  }
  if (retryable || (budget && wait)) return say('It may work if you try again.');
  return say('The same request will fail again.');
}

/**
 * Make what says the next step, and counts down to it.
 * @param {StreamFailure} failure
 * @param {number} at when it failed
 * @param {boolean} keyed
 */
export function makeNextStep(failure, at, keyed) {
  const until = at + (failure.retry_after_s ?? 0) * SECOND;
  const root = element('span', { className: 'next-step' });
  const tick = () => {
    const left = until - Date.now();
    root.textContent = nextStep(failure, left, keyed);
    if (left > 0 && left <= SOON_S * SECOND) setTimeout(tick, left % SECOND || SECOND);
  };
  tick();
  return root;
}
