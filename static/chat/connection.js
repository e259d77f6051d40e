/**
 * What is known of a connection that is away: whose fault it is, when the next attempt is, and a
 * button that makes it now.
 */

import { byId } from '../dom.js';
import { focusField } from './composer.js';
import { number, say } from './language.js';

/**
 * What a connection waits for. `at` is the time of the next attempt; null where one is being made,
 * or the browser does not tell.
 * @typedef {{problem: {code: string, status: number}|null, at: number|null, retry?: () => void}} Wait
 */

const SECOND = 1000;

/** @param {Wait['problem']} problem */
function reason(problem) {
  if (!navigator.onLine) return say('You are offline.');
  if (problem?.code === 'connection_failed') return say('The relay cannot be reached.');
  if (problem && problem.status >= 400) return say('The relay answered {status}.', { status: problem.status });
  return say('The connection was lost.');
}

export class ConnectionNotice {
  #root = byId('connection', HTMLElement);
  #reason = byId('connection-reason', HTMLElement);
  #next = byId('connection-next', HTMLElement);
  #button = byId('retry-now', HTMLButtonElement);
  /** @type {Wait|null} */
  #wait = null;
  #timer = 0;

  constructor() {
    this.#button.addEventListener('click', () => {
      const wait = this.#wait;
      if (wait) this.show({ ...wait, at: null });
      wait?.retry?.();
    });
    // The browser may know better meanwhile; and what nothing waits for is said as well.
    addEventListener('offline', () => this.show(this.#wait ?? { problem: null, at: null }));
    addEventListener('online', () => (this.#wait?.retry ? this.show(this.#wait) : this.hide()));
    if (!navigator.onLine) this.show({ problem: null, at: null });
  }

  /** @param {Wait} wait */
  show(wait) {
    this.#wait = wait;
    this.#root.hidden = false;
    this.#reason.textContent = reason(wait.problem);
    this.#button.hidden = !wait.retry;
    this.#tick();
  }

  hide() {
    const focused = this.#root.contains(document.activeElement);
    clearTimeout(this.#timer);
    this.#wait = null;
    this.#root.hidden = true;
    if (focused) focusField();
  }

  #tick() {
    clearTimeout(this.#timer);
    const { at, retry } = this.#wait ?? {};
    const left = at ? at - Date.now() : 0;
    if (left > 0) {
      this.#next.textContent = say('Next attempt in {seconds} s.', { seconds: number(Math.ceil(left / SECOND)) });
      this.#timer = setTimeout(() => this.#tick(), left % SECOND || SECOND);
    } else {
      this.#next.textContent = navigator.onLine ? (retry ? say('Trying again…') : '')
        : retry ? say('It goes on by itself when the network is back.') : say('What is sent now waits for the network.');
    }
  }
}
