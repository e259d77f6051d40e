/**
 * Files as parts of a message: which there are, how large they may be, and how they go to the relay.
 * Nothing here touches the page.
 */

import { say } from './language.js';
import { takes } from './models.js';

/**
 * A file of a question. `data` is a data URL, or the text of a text file; "" for one that a
 * reload has not kept. `thumb` is a small picture.
 * @typedef {{kind: 'image'|'file'|'text', name: string, size: number, data: string, thumb: string}} Attached
 */
/** @typedef {{type: string, [field: string]: unknown}} Part */

export const MAX_FILES = 8; // of one question
export const MAX_CHARACTERS = 3_200_000; // of all data in a request: the relay takes 4 MiB unless told otherwise
export const MAX_TEXT = 400_000; // characters of a text file

const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** What a file is by its type; text where it has none, which reading it then shows. @param {string} type @returns {Attached['kind']|null} */
export function kindOf(type) {
  if (IMAGES.has(type)) return 'image';
  if (type === 'application/pdf') return 'file';
  return /^(image|audio|video|font)\//.test(type) || /zip|tar|msword|officedocument|octet-stream/.test(type) ? null : 'text';
}

/** Return a text file's text, or null for what is none. @param {ArrayBuffer} bytes */
export function decode(bytes) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

/** @param {number} bytes */
export function sizeOf(bytes) {
  return bytes < 1000 ? `${bytes} B` : bytes < 999_500 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** How much of a request files are, in characters. @param {readonly Attached[]} files */
export function weightOf(files) {
  return files.reduce((sum, { data }) => sum + data.length, 0);
}

/**
 * Say what is wrong with files for a model; "" where nothing is known to be.
 * @param {readonly Attached[]} files
 * @param {import('./models.js').Model|undefined} model
 */
export function problemOf(files, model) {
  for (const { kind, name } of files) {
    if (kind === 'text' || takes(model, kind) !== false) continue;
    const values = { model: model?.id ?? '', name };
    return kind === 'image' ? say('{model} takes no images: remove {name}, or choose another model', values)
      : say('{model} takes no PDF files: remove {name}, or choose another model', values);
  }
  return '';
}

/** @param {Attached} file @returns {Part} */
function partOf({ kind, name, data }) {
  if (!data) return { type: 'text', text: `[${name}: not kept in the browser]` };
  if (kind === 'image') return { type: 'image_url', image_url: { url: data } };
  if (kind === 'file') return { type: 'file', file: { filename: name, file_data: data } };
  return { type: 'text', text: `${name}:\n\n${data}` };
}

/**
 * Return the content of a message: what was typed, after the files.
 * @param {string} text
 * @param {readonly Attached[]} [files]
 * @returns {string|Part[]}
 */
export function contentOf(text, files = []) {
  if (!files.length) return text;
  return [...files.map(partOf), ...(text ? [{ type: 'text', text }] : [])];
}

/** Return files by name and picture alone: as they are kept where there is no room for them. @param {readonly Attached[]} files @returns {Attached[]} */
export function withoutData(files) {
  return files.map((file) => ({ ...file, data: '' }));
}
