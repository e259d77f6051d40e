/**
 * The page's status: the line below the composer, the state of the connection, and which buttons there are.
 */

import { byId } from '../dom.js';
import { focusField } from './composer.js';
import { say } from './language.js';

/** @typedef {import('../seseragi.js').ReadyState} ReadyState */

const line = byId('status', HTMLElement);
const stop = byId('stop', HTMLButtonElement);
const send = byId('send', HTMLButtonElement);
const cut = byId('cut', HTMLButtonElement);
const retry = byId('retry-now', HTMLButtonElement);
const tab = byId('tab', HTMLAnchorElement);

/** @param {string} text */
export function tell(text) {
  line.textContent = text;
}

/** @type {Record<ReadyState, string>} */
const STATES = { connecting: say('connecting'), open: say('open'), reconnecting: say('reconnecting'), closed: say('closed') };

/** @param {ReadyState} state */
export function showReady(state) {
  document.body.dataset.ready = state;
  byId('ready', HTMLElement).textContent = STATES[state];
  showButtons();
}

/** Link to a stream, for a second tab. @param {string|null} stream */
export function showTab(stream) {
  tab.hidden = stream === null;
  if (stream !== null) tab.href = `#stream=${stream}`;
}

/** @param {boolean} busy */
export function setBusy(busy) {
  document.body.dataset.state = busy ? 'busy' : 'idle';
  showButtons();
}

function showButtons() {
  const focused = document.activeElement;
  const busy = document.body.dataset.state === 'busy';
  const away = document.body.dataset.ready === 'reconnecting';
  send.hidden = busy;
  stop.hidden = !busy;
  cut.hidden = !busy || away;
  retry.hidden = !busy || !away;
  if (focused === send && busy) stop.focus();
  else if (focused === cut && away) retry.focus();
  else if (focused === retry && !away && busy) cut.focus();
  else if (focused instanceof HTMLElement && focused.hidden) focusField(); // its button has gone
}
