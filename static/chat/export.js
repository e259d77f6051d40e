/**
 * Conversations as files: Markdown for people, JSON to take one elsewhere and back. Nothing here
 * touches the page.
 *
 * What is imported may be anybody's: it is bounded, and of it are taken only texts, which are
 * shown as texts, and words that are known here.
 */

import { newId } from '../ids.js';
import { sizeOf } from './files.js';
import { say } from './language.js';
import { settingsOf } from './settings.js';
import { pathThrough } from './tree.js';

/** @typedef {import('./turn.js').Kept} Kept */
/** @typedef {import('./history.js').Conversation} Conversation */
/** @typedef {{type: 'text'|'reasoning'|'refusal', text: string}|{type: 'tool_call', name: string, arguments: string}|{type: 'source', url?: string, title?: string}} Part */

const FORMAT = 'seseragi.conversation';
export const LARGEST_FILE = 4_000_000; // bytes: what is kept of a conversation is a million characters
const MOST_TURNS = 1000;
const MOST_PARTS = 1000; // of an answer
const LONGEST_NAME = 255;
const WORDS = new Set(['text', 'reasoning', 'refusal']);
const KINDS = new Set(['image', 'file', 'text']);
const STATUSES = new Set(['completed', 'cancelled', 'failed', 'interrupted']);
const REASONS = new Set(['stop', 'length', 'content_filter', 'refusal', 'pause', 'error', 'unknown', 'tool_calls']);

/** Return an answer's parts, by its events. @param {Kept['events']} events @returns {Part[]} */
export function partsOf(events) {
  /** @type {any[]} */
  const parts = [];
  const open = new Map();
  let goesOn = false;
  for (const event of events) {
    if (event.type === 'seam') {
      open.clear();
      goesOn = parts.at(-1)?.type === 'text';
      if (goesOn) parts.at(-1).text = parts.at(-1).text.trimEnd();
      continue;
    }
    const [kind, step] = event.type.split('.');
    if (event.type === 'source') {
      parts.push({ type: 'source', url: event.url, title: event.title });
    } else if (step === 'start' && 'block' in event) {
      if (!goesOn || kind !== 'text') parts.push(event.type === 'tool_call.start' ? { type: kind, name: event.name, arguments: '' } : { type: kind, text: '' });
      open.set(event.block, parts.at(-1));
      goesOn = false;
    } else if (event.type === 'tool_call.end') {
      Object.assign(open.get(event.block) ?? {}, { arguments: event.arguments });
    } else if (step === 'delta' && 'block' in event) {
      const part = open.get(event.block);
      if (part && 'text' in event) part.text += event.text;
    }
  }
  return parts;
}

/** How an answer ended. @param {Pick<Kept, 'events'|'stopped'|'failure'>} kept */
function endOf({ events, stopped, failure }) {
  const last = events.at(-1);
  if (stopped) return { status: 'cancelled' };
  if (last?.type === 'stream.end') return { status: last.status, finish_reason: last.finish_reason };
  return { status: failure ? 'failed' : 'interrupted' };
}

/** @param {Conversation} conversation @returns {Kept[]} */
function turnsOf({ turns }) {
  return /** @type {any} */ (turns);
}

/** Return a conversation as JSON, all versions of it. @param {string} title @param {Conversation} conversation */
export function asJson(title, conversation) {
  const { at, shown, settings } = conversation;
  const turns = turnsOf(conversation).map(({ id, after, prompt, files = [], model, events = [], stopped, failure }) => {
    const parts = partsOf(events);
    return {
      id, after, question: prompt, files: files.map(({ kind, name, size }) => ({ kind, name, size })), model,
      answer: parts.map((part) => (part.type === 'text' ? part.text : '')).join(''), parts, ...endOf({ events, stopped, failure }),
    };
  });
  return `${JSON.stringify({ format: FORMAT, version: 1, title, at, settings: settingsOf(settings), shown, turns }, null, 2)}\n`;
}

/** A text within a fence that is longer than any in it. @param {string} text @param {string} language */
function fenced(text, language) {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map(({ length }) => length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

/** @param {Part} part */
function markdownOf(part) {
  switch (part.type) {
    case 'tool_call': return `${say('Tool call')} \`${part.name}\`\n\n${fenced(part.arguments, 'json')}`;
    case 'source': return `- ${part.title ?? ''}${part.title && part.url ? ': ' : ''}${part.url ? `<${part.url}>` : ''}`;
    case 'reasoning': return `${say('Reasoning')}\n\n${part.text.trim().replace(/^/gm, '> ')}`;
    default: return part.text.trim();
  }
}

/** Return a conversation as Markdown, as it is shown. @param {string} title @param {Conversation} conversation */
export function asMarkdown(title, conversation) {
  const all = turnsOf(conversation).map((kept) => ({ kept }));
  const path = pathThrough(all, all.find(({ kept }) => kept.id === conversation.shown) ?? all.at(-1));
  const { system } = settingsOf(conversation.settings);
  const said = path.flatMap(({ kept: { prompt, files = [], model, events = [] } }) => [
    `## ${say('You')}`, ...files.map(({ name, size }) => `*${name} (${sizeOf(size)})*`), prompt,
    `## ${model || say('default model')}`, ...partsOf(events).map(markdownOf)]);
  return `${[`# ${title}`, ...(system ? [`## ${say('System prompt')}`, system] : []), ...said].filter(Boolean).join('\n\n')}\n`;
}

/** Return a name for a file. @param {string} title @param {string} ending */
export function fileName(title, ending) {
  const words = [...title.replace(/[\p{C}<>:"/\\|?*~.]+/gu, ' ').trim()].slice(0, 60).join('').trim().replace(/\s+/g, '-');
  return `${words || 'conversation'}.${ending}`;
}

/** @param {unknown} value @param {number} [longest] */
function text(value, longest = Infinity) {
  return typeof value === 'string' ? value.slice(0, longest) : '';
}

/** @param {any} part @param {number} block @returns {object[]} */
function eventsOf(part, block) {
  const { type } = Object(part);
  if (WORDS.has(type)) return [{ type: `${type}.start`, block }, { type: `${type}.delta`, block, text: text(part.text) }, { type: `${type}.end`, block }];
  if (type === 'tool_call') return [{ type: 'tool_call.start', block, id: '', name: text(part.name, LONGEST_NAME) }, { type: 'tool_call.end', block, arguments: text(part.arguments) }];
  return type === 'source' ? [{ type, url: text(part.url), title: text(part.title) }] : [];
}

/** @param {any} turn @param {Set<number>} before the ids of those before it @returns {Partial<Kept>} */
function turnOf(turn, before) {
  const { id, after, question, files, model, parts, status, finish_reason } = Object(turn);
  if (!Number.isSafeInteger(id) || id < 1 || before.has(id) || (after !== 0 && !before.has(after))) throw new Error('order');
  before.add(id);
  const prompt = text(question);
  const attached = (Array.isArray(files) ? files.slice(0, 100) : []).filter((file) => KINDS.has(Object(file).kind))
    .map(({ kind, name, size }) => ({ kind, name: text(name, LONGEST_NAME), size: Number.isSafeInteger(size) && size > 0 ? size : 0, data: '', thumb: '' }));
  if (!prompt && !attached.length) throw new Error('no question');
  const events = /** @type {any[]} */ ((Array.isArray(parts) ? parts.slice(0, MOST_PARTS) : []).flatMap(eventsOf));
  events.push({ type: 'stream.end', status: STATUSES.has(status) ? status : 'interrupted', ...(REASONS.has(finish_reason) ? { finish_reason } : {}) });
  return { id, after, prompt, files: attached, model: text(model, LONGEST_NAME), key: newId(), events };
}

/**
 * Read what `asJson` has written.
 * @param {string} json
 * @returns {{title: string, conversation: Conversation}}
 * @throws {Error} what is wrong with it, in words for people
 */
export function fromJson(json) {
  try {
    const { format, version, title, at, settings, shown, turns } = Object(JSON.parse(json));
    if (format !== FORMAT || version !== 1 || !Array.isArray(turns) || !turns.length || turns.length > MOST_TURNS) throw new Error('format');
    const before = /** @type {Set<number>} */ (new Set());
    const kept = turns.map((turn) => turnOf(turn, before));
    const time = Number.isSafeInteger(at) && at > 0 && at <= Date.now() ? at : Date.now();
    const conversation = { id: newId(), revision: null, at: time, shown: before.has(shown) ? shown : 0, turns: /** @type {any} */ (kept), settings: settingsOf(settings) };
    return { title: text(title), conversation };
  } catch {
    throw new Error(say('This file is no conversation that was saved as JSON here.'));
  }
}
