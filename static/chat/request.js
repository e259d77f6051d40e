/**
 * What is sent for a question: the conversation before it, its words and files, the model and the
 * settings. Nothing here touches the page.
 */

import { AnswerParts, requestMessages } from '../parts.js';
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

/**
 * Return the request with results for the calls of demo-tools, whose get_weather nobody has; null
 * where an answer does not end with calls of it.
 * @param {readonly Turn[]} before
 * @param {Turn} turn
 * @param {With} asked
 * @returns {ChatRequest|null}
 */
export function requestWithResults(before, { kept, latest }, asked) {
  const end = latest.at(-1);
  if (kept.model !== 'demo-tools' || end?.type !== 'stream.end' || end.status !== 'completed' || end.finish_reason !== 'tool_calls') return null;
  const answer = new AnswerParts();
  for (const event of latest) answer.receive(event);
  const parts = answer.parts.map((part) => (part.type === 'tool_call' ? { ...part, output: JSON.stringify({ ...JSON.parse(part.arguments), weather: 'sunny', celsius: 21 }) } : part));
  const { messages, ...request } = requestFor(before, { text: kept.prompt, files: kept.files }, asked);
  return { ...request, messages: [...messages, ...requestMessages([{ id: '', role: 'assistant', parts, status: 'completed' }])] };
}
