/**
 * What is going on, as the page shows it: the line below the composer, the state of the connection,
 * and which buttons there are.
 */

import { byId } from '../dom.js';
import { focusField } from './composer.js';
import { say } from './language.js';

const line = byId('status', HTMLElement);
const stop = byId('stop', HTMLButtonElement);
const send = byId('send', HTMLButtonElement);
const cut = byId('cut', HTMLButtonElement);
const tab = byId('tab', HTMLAnchorElement);

/** @param {string} text */
export function tell(text) {
  line.textContent = text;
}

/** What was told last. */
export function told() {
  return line.textContent ?? '';
}

/**
 * @param {Promise<void>} copying
 * @param {string} done what to say of it
 */
export async function tellCopied(copying, done) {
  tell(await copying.then(() => done, () => say('The browser did not allow copying')));
}

/** @type {Record<import('../seseragi.js').ReadyState, string>} */
const STATES = { connecting: say('connecting'), open: say('open'), reconnecting: say('reconnecting'), closed: say('closed') };

/** @param {import('../seseragi.js').ReadyState} state */
export function showReady(state) {
  document.body.dataset.ready = state;
  byId('ready', HTMLElement).textContent = STATES[state];
}

/** @param {string|null} stream */
export function showTab(stream) {
  tab.hidden = stream === null;
  if (stream !== null) tab.href = `#stream=${stream}`;
}

/** @param {boolean} busy */
export function setBusy(busy) {
  const focused = document.activeElement;
  document.body.dataset.state = busy ? 'busy' : 'idle';
  send.hidden = busy;
  stop.hidden = !busy;
  cut.hidden = !busy;
  if (focused === stop || focused === cut) focusField(); // its button has gone
  if (focused === send) stop.focus();
}
