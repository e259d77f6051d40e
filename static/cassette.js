/**
 * Saving a stream as a cassette: for the chat page and the operator's.
 */

import { showing } from './key.js';
import { saveFile } from './save.js';

/**
 * Have the browser save a stream as a text file.
 * @param {string} url of the stream
 * @returns {Promise<string>} the name of the file
 * @throws {Error} what the relay said when it refused
 */
export async function saveCassette(url) {
  const response = await fetch(`${url}/cassette`, { method: 'POST', headers: showing() });
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    throw new Error(body?.detail ?? `the relay answered ${response.status}`);
  }
  const name = /filename="([\w.-]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? 'stream.jsonl';
  saveFile(await response.blob(), name);
  return name;
}
