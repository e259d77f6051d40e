/**
 * "Watch along": a link by which others see an answer as it comes.
 */

import { element } from '../dom.js';
import { copying, actionButton } from './foot.js';
import { moment, say } from './language.js';

/** @typedef {{url: string, until: Date}} Link */

/**
 * Make what offers the link.
 * @param {() => Promise<Link|null>} share null where that failed
 */
export function offerWatching(share) {
  const name = element('span', {}, say('Watch along'));
  const button = element('button', { type: 'button', className: 'quiet watch-along', title: say('A link by which others see this answer as it comes') }, name);
  const shown = element('div');
  const root = element('div', { className: 'actions' }, button, shown);
  button.addEventListener('click', async () => {
    button.disabled = true;
    const link = await share().finally(() => { button.disabled = false; });
    button.focus(); // a button that is disabled loses it
    if (link) shown.replaceChildren(panel(link));
  });
  return {
    root,
    /** The answer has ended: it is shown again, and not live. */
    end: () => { name.textContent = say('Share'); },
  };
}

/** @param {Link} link */
function panel({ url, until }) {
  const problem = element('span', { className: 'refused', role: 'alert' });
  const input = element('input', { type: 'text', readOnly: true, value: url, ariaLabel: say('Link to this answer') });
  input.addEventListener('focus', () => input.select());
  const row = element('span', { className: 'link-row' }, input, actionButton(say('Copy'), 'copy-link', () => copying(url), problem));
  const data = { title: 'Seseragi', url };
  if (navigator.canShare?.(data)) {
    row.append(actionButton(say('Send…'), 'send-link', () => navigator.share(data).then(() => say('Sent'), (error) => {
      if (error.name === 'AbortError') return say('Send…'); // the sheet was closed
      throw error;
    }), problem));
  }
  return element('div', { className: 'shared' }, row,
    element('p', {}, say('Whoever has this link can watch this answer until {time}.', { time: moment(until) })), problem);
}
