/**
 * What is sent for a question: the conversation before it, its words and files, the model and the
 * settings. Nothing here touches the page.
 */

import { contentOf } from './files.js';
import { withSettings } from './settings.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('./turn.js').Turn} Turn */
/** What it is asked with; "" leaves the model to the relay. @typedef {{model: string, settings: import('./settings.js').Settings}} With */

/**
 * Return the request for a question: the turns before it that have an answer, then the question.
 * @param {readonly Turn[]} before
 * @param {{text: string, files?: readonly import('./files.js').Attached[]}} question
 * @param {With} asked
 * @returns {ChatRequest}
 */
export function requestFor(before, { text, files = [] }, { model, settings }) {
  const answered = before.filter((turn) => turn.isOurs && turn.answer.text);
  const said = answered.flatMap(({ kept, answer }) => [
    { role: 'user', content: contentOf(kept.prompt, kept.files) },
    { role: 'assistant', content: answer.text },
  ]);
  return withSettings({ ...(model ? { model } : {}), messages: [...said, { role: 'user', content: contentOf(text, files) }] }, settings);
}

/**
 * Return the request for the rest of an answer: what it says so far is the last message.
 * @param {readonly Turn[]} before
 * @param {Turn} turn
 * @param {With} asked
 * @returns {ChatRequest}
 */
export function requestToGoOn(before, { kept, answer }, asked) {
  const { messages, ...request } = requestFor(before, { text: kept.prompt, files: kept.files }, asked);
  // Without the spaces at its end, which some providers refuse.
  return { ...request, messages: [...messages, { role: 'assistant', content: answer.text.trimEnd() }] };
}
