import { element } from '../dom.js';
import { follow } from './follow.js';
import { say } from './language.js';

/**
 * Follow a scroller, and offer a way back to its end where the reader has left it.
 * @param {HTMLElement} scroller
 * @param {() => boolean} grows false while it holds something that is read from its beginning
 */
export function followWithButton(scroller, grows) {
  const button = element('button', { type: 'button', className: 'quiet', id: 'latest', hidden: true }, say('Jump to the latest'));
  const following = follow(scroller, (held) => {
    if (held && document.activeElement === button) scroller.focus(); // its button goes
    button.hidden = held || !grows();
  }, grows);
  button.addEventListener('click', () => following.jump());
  scroller.after(element('div', { className: 'latest' }, button));
  return following;
}
