/**
 * The reader that most pages have, for the show: `fetch`, a loop and a split. It works until the
 * connection does not; it is here to be looked at beside the client, and for nothing else.
 */

import { showing } from '../key.js';
import { CHAT_URL } from './transports.js';
import { problemOf } from './watching.js';

/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */

/**
 * @param {import('../seseragi.js').ChatRequest} request
 * @param {string} key the same as the client's, so that it is given the same stream
 * @param {AbortSignal} signal
 * @param {(id: string, event: StreamEvent) => void} show
 */
export async function readNaively(request, key, signal, show) {
  const response = await fetch(CHAT_URL, {
    method: 'POST',
    headers: { accept: 'text/event-stream', 'content-type': 'application/json', 'idempotency-key': key, ...showing() },
    body: JSON.stringify(request),
    signal,
  });
  if (!response.ok || !response.body) throw new Error(await problemOf(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
      if (data) show(/^id: (.*)$/m.exec(frame)?.[1] ?? '', JSON.parse(data));
    }
  }
}
