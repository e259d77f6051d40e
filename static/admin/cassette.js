/**
 * Saves a stream as a cassette.
 */

import { element } from '../dom.js';
import { showing } from '../key.js';

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
  const href = URL.createObjectURL(await response.blob());
  const link = element('a', { href, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // Safari reads it later
  return name;
}
