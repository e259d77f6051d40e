/**
 * What the relay says of its models, in words that people search by. Nothing here touches the page.
 */

import { say } from './language.js';

/**
 * A row of `GET /v1/models`: fields are OpenRouter's, and what is not known is left out.
 * @typedef {object} Row
 * @property {string} id
 * @property {string} [name]
 * @property {string} [description]
 * @property {string} [owned_by]
 * @property {number} [context_length]
 * @property {{max_completion_tokens?: number}} [top_provider]
 * @property {{input_modalities?: string[], output_modalities?: string[]}} [architecture]
 * @property {string[]} [supported_parameters]
 * @property {{prompt?: string, completion?: string}} [pricing] USD a token
 */

/**
 * `takes` is null where it is not known what a model takes beside text.
 * @typedef {object} Model
 * @property {string} id
 * @property {string} name what people call it, or ""
 * @property {string} group whose it is
 * @property {string[]} facts in a few words each
 * @property {string[]|null} takes
 * @property {string[]|undefined} parameters fields of a request that it is said to know
 * @property {number|undefined} longest tokens of an answer
 * @property {string} about all words that it is found by
 */

const ABILITIES = { tools: 'tools', reasoning: 'reasoning', structured_outputs: 'JSON' };
const KINDS = ['image', 'file', 'audio', 'video'];
// By their ids, where a provider's list says no more of them.
const NOT_FOR_CHAT = /(^|[-_/])(text-embedding|embed(ding)?s?|moderation|whisper|tts|transcribe|rerank(er)?|dall-e)([-_/:.]|$)/;
const PER = 1e6; // tokens that a price is told for

/** Whether a model answers in a chat: others make vectors, or turn speech into text. @param {Row} row */
export function chats({ id, architecture }) {
  const gives = architecture?.output_modalities;
  return gives ? !gives.every((kind) => /^(embedding|rerank|score)/.test(kind)) : !NOT_FOR_CHAT.test(id.toLowerCase());
}

/** A number of tokens, short: 128K, 1M. @param {number} tokens */
export function short(tokens) {
  if (tokens < 1000) return String(tokens);
  const [unit, size] = tokens >= 999_500 ? ['M', 1e6] : ['K', 1e3];
  return `${Number((tokens / size).toPrecision(tokens / size >= 100 ? 3 : 2))}${unit}`;
}

/** What a million tokens cost. @param {string|undefined} price of one, in USD */
function perMillion(price) {
  const usd = Number(price) * PER;
  return price === undefined || !(usd >= 0) ? '' : `$${Number(usd.toPrecision(3))}`;
}

/** @param {Row} row @returns {Model} */
function read(row) {
  const { id, name = '', description = '', owned_by = '', architecture = {}, pricing = {} } = row;
  const takes = architecture.input_modalities ?? null;
  const gives = architecture.output_modalities ?? [];
  const [input, output] = [perMillion(pricing.prompt), perMillion(pricing.completion)];
  const facts = [
    ...(row.context_length ? [say('{tokens} context', { tokens: short(row.context_length) })] : []),
    ...KINDS.filter((kind) => takes?.includes(kind)).map((kind) => say(kind)),
    ...KINDS.filter((kind) => gives.includes(kind)).map((kind) => say('makes {kind}', { kind: say(kind) })),
    ...Object.entries(ABILITIES).filter(([field]) => row.supported_parameters?.includes(field)).map(([, word]) => say(word)),
    ...(input && output ? [input === '$0' && output === '$0' ? say('free') : say('{input} in, {output} out', { input, output })] : []),
  ];
  const slash = id.indexOf('/');
  const group = slash > 0 ? id.slice(0, slash) : owned_by;
  const about = [id, name, description, ...facts, ...(takes ?? []), ...(row.supported_parameters ?? [])].join(' ').toLowerCase();
  return { id, name: name === id ? '' : name || description, group, facts, takes, parameters: row.supported_parameters, longest: row.top_provider?.max_completion_tokens, about };
}

/**
 * Return the models of a list, those of one group beside each other.
 * @param {Row[]} rows
 * @returns {Model[]}
 */
export function readModels(rows) {
  /** @type {Map<string, Model[]>} */
  const groups = new Map();
  for (const model of rows.map(read)) {
    const group = groups.get(model.group);
    if (group) group.push(model);
    else groups.set(model.group, [model]);
  }
  return [...groups.values()].flat();
}

/**
 * Return the models that have all words of a query, in their order.
 * @param {Model[]} models
 * @param {string} query
 */
export function search(models, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length ? models.filter(({ about }) => words.every((word) => about.includes(word))) : models;
}

/**
 * Whether a model takes a kind of content; null where that is not known.
 * @param {Model|undefined} model
 * @param {'image'|'file'} kind
 */
export function takes(model, kind) {
  return model?.takes ? model.takes.includes(kind) : null;
}
