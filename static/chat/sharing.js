/**
 * Links to an answer: making one, and the page of somebody who opened one.
 */

import { byId, element } from '../dom.js';
import { showing } from '../key.js';
import { copyButton } from './clipboard.js';
import { moment, say } from './language.js';
import { problemOf } from './relay.js';
import { tell } from './status.js';
import { STREAMS_URL } from './transports.js';

const link = new URLSearchParams(location.hash.slice(1));

/** The stream that is watched, and its URL; null on a page of one's own. */
export const watched = link.get('watch');
export const watchedUrl = `${STREAMS_URL}/${encodeURIComponent(watched ?? '')}/events${
  link.has('token') ? `?token=${encodeURIComponent(link.get('token') ?? '')}` : ''}`; // an open relay gives none

/** Make this page one that only watches. */
export function showWatching() {
  document.body.dataset.watching = '';
  byId('composer', HTMLFormElement).hidden = true;
  byId('watching', HTMLElement).hidden = false;
}

/** Say why a link shows nothing, or no more. @param {number} status of the relay's answer */
export function explainLink(status) {
  const problem = status === 401 || status === 403 ? say('This link has expired or is incomplete. Ask for a new one.') : say('The relay no longer stores this answer.');
  byId('watching-title', HTMLElement).textContent = say('The link is not valid');
  byId('watching-note', HTMLElement).textContent = problem;
  return problem;
}

/** Have the relay make a link. @param {string} stream */
async function share(stream) {
  const response = await fetch(`${STREAMS_URL}/${stream}/share`, { method: 'POST', headers: { accept: 'application/json', ...showing() } });
  if (!response.ok) throw new Error(await problemOf(response));
  const { page_url, expires_at } = await response.json();
  const url = new URL(new URL(page_url, document.baseURI).hash, document.baseURI).href; // of this page, below a path prefix too
  return { url, until: new Date(expires_at * 1000) };
}

/** Make the button that shares a stream. @param {string} stream */
export function makeSharing(stream) {
  const name = element('span', {}, say('Watch along'));
  const button = element('button', { type: 'button', className: 'quiet watch-along', title: say('A link by which others see this answer as it comes') }, name);
  const shown = element('div', { className: 'shared' });
  button.addEventListener('click', async () => {
    try {
      const { url, until } = await share(stream);
      const input = element('input', { type: 'text', readOnly: true, value: url, ariaLabel: say('Link to this answer'), onfocus: () => input.select() });
      shown.replaceChildren(element('span', { className: 'link-row' }, input, copyButton('copy-link', () => url)),
        element('p', {}, say('Anyone with this link can read this answer until {time}.', { time: moment(until) })));
    } catch (error) {
      tell(say('Could not share: {problem}', { problem: /** @type {Error} */ (error).message }));
    }
  });
  return {
    root: element('div', { className: 'actions' }, button, shown),
    /** The answer has ended: it is no longer live. */
    end: () => { name.textContent = say('Share'); },
  };
}
