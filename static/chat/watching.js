/**
 * Streams across pages: a link that shares an answer, and what the page is when it came by one.
 */

import { byId } from '../dom.js';
import { showing } from '../key.js';
import { copyText } from './clipboard.js';
import { say } from './language.js';
import { tell, tellCopied } from './status.js';
import { STREAMS_URL } from './transports.js';

/** @typedef {import('./turn.js').Turn} Turn */

const NO_LINK = say('This link has expired, or is not whole. Ask whoever gave it to you for another.');
const NO_STREAM = say('The stream of this link is not kept any more.');

const link = new URLSearchParams(location.hash.slice(1));

/** The stream that is watched and nothing else; null on a page of one's own. */
export const watched = link.get('watch');
export const watchedUrl = `${STREAMS_URL}/${encodeURIComponent(watched ?? '')}/events${
  link.has('token') ? `?token=${encodeURIComponent(link.get('token') ?? '')}` : ''}`; // an open relay gives none

/** Make the page one that watches. */
export function showWatching() {
  document.body.dataset.watching = '';
  byId('composer', HTMLFormElement).hidden = true;
  byId('watching', HTMLElement).hidden = false;
}

/**
 * Say plainly why a link shows nothing, or no more.
 * @param {Turn} turn
 * @param {number} code the status that the relay answered with
 */
export function notToBeWatched(turn, code) {
  const problem = code === 401 || code === 403 ? NO_LINK : NO_STREAM;
  byId('watching-note', HTMLElement).textContent = problem;
  if (turn.kept.cursor) {
    turn.answer.receive({ type: 'stream.end', status: 'interrupted' });
  } else {
    byId('watching-title', HTMLElement).textContent = say('This link shows nothing any more');
    byId('log', HTMLElement).replaceChildren();
  }
  return problem;
}

/** @param {Turn} turn */
export function offerSharing({ kept, answer }) {
  if (watched || !kept.stream) return;
  const { stream } = kept;
  answer.offerSharing(() => share(stream).catch((error) => {
    tell(say('Could not share: {problem}', { problem: error.message }));
    return null;
  }));
}

/** Have a link made to a stream, and copy it. @param {string} stream */
async function share(stream) {
  const response = await fetch(`${STREAMS_URL}/${stream}/share`, { method: 'POST', headers: { accept: 'application/json', ...showing() } });
  if (!response.ok) throw new Error(await problemOf(response));
  const { page_url, expires_at } = await response.json();
  const url = new URL(new URL(page_url, document.baseURI).hash, document.baseURI).href; // of this page, below a path prefix too
  await tellCopied(copyText(url), say('Copied a link to the answer'));
  return { url, until: new Date(expires_at * 1000) };
}

/** What an answer with an error status says, in whichever dialect. @param {Response} response */
export async function problemOf(response) {
  const body = await response.json().catch(() => null);
  return body?.detail ?? body?.error?.message ?? say('the server answered {status}', { status: response.status });
}
