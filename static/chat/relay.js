/**
 * What the page asks of the relay beside the client: frames in any format, and error messages.
 */

import { showing } from '../key.js';
import { SseDecoder } from '../seseragi.js';
import { say } from './language.js';

/** The formats of a stream's frames, by the values of `?format=`: the name, and the event that carries the text. */
export const FORMATS = {
  native: { name: 'Native', event: 'text.delta' },
  openai_chat: { name: 'Chat Completions', event: 'message' },
  openai_responses: { name: 'Responses', event: 'response.output_text.delta' },
  anthropic: { name: 'Anthropic Messages', event: 'content_block_delta' },
  ui: { name: 'AI SDK', event: 'message' },
  ag_ui: { name: 'AG-UI', event: 'message' },
};

/** @typedef {keyof typeof FORMATS} Format */

/** The URL of a stream's events. @param {string} streams ends in `v1/streams` @param {string} id @param {Format} format */
export function eventsUrl(streams, id, format) {
  return `${streams}/${id}/events${format === 'native' ? '' : `?format=${format}`}`;
}

/**
 * Read a stream's frames from the beginning, and on while it runs.
 * @param {string} url
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<{id: string, type: string, data: string}, void, void>}
 */
export async function* readFrames(url, signal) {
  const response = await fetch(url, { headers: { accept: 'text/event-stream', ...showing() }, cache: 'no-store', signal });
  if (!response.ok || !response.body) throw new Error(await problemOf(response));
  const decoder = new SseDecoder();
  const reader = response.body.getReader();
  for (let read; !(read = await reader.read()).done;) {
    for (const { id, event, data } of decoder.feed(read.value)) yield { id, type: event === 'message' ? typeOf(data) : event, data };
  }
}

/** The type that a frame without an event name states itself. @param {string} data */
function typeOf(data) {
  try {
    const { type, object } = JSON.parse(data);
    return String(type ?? object).replace('chat.completion.', '');
  } catch {
    return data; // [DONE]
  }
}

/** The message of an error response, in any dialect. @param {Response} response @returns {Promise<string>} */
export async function problemOf(response) {
  const body = await response.json().catch(() => null);
  return body?.detail ?? body?.error?.message ?? say('the server answered {status}', { status: response.status });
}
