/**
 * The conversation as a reload finds it: sessionStorage has the turns, each with the events of its
 * answer so far and the cursor behind them. Reading on is left to the transports.
 */

import { Answer } from './answer.js';

/** @typedef {import('./seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('./seseragi.js').Received} Received */
/** @typedef {import('./seseragi.js').StreamEvent} StreamEvent */
/** @typedef {Parameters<Answer['fail']>[0]} Failure */

/**
 * What is kept of a turn. `stream` is null until the answer has begun: the request, asked again
 * under its `key`, then finds the same generation.
 * @typedef {object} Kept
 * @property {string} prompt empty for a stream of another tab, or of somebody else
 * @property {string} model
 * @property {string} transport
 * @property {string} key
 * @property {ChatRequest|null} request
 * @property {string|null} stream
 * @property {string|null} cursor
 * @property {StreamEvent[]} events
 * @property {Failure|null} failure
 * @property {boolean} stopped before the answer had begun
 */

const KEY = 'seseragi.conversation';
const NOT_SHOWN = new Set(['logprobs', 'opaque']); // they can be large, and an Answer does not draw them

/** One question, its answer on the page, and what it takes to have both again. */
export class Turn {
  /**
   * @param {Partial<Kept>} kept
   * @param {() => void} retry ask again
   */
  constructor(kept, retry) {
    /** @type {Kept} */
    this.kept = { prompt: '', model: '', transport: 'fetch', key: '', request: null, stream: null, cursor: null, events: [], failure: null, stopped: false, ...kept };
    this.answer = new Answer(this.kept.model, retry);
    for (const event of this.kept.events) this.answer.receive(event);
    if (this.kept.failure) this.answer.fail(this.kept.failure, this.kept.stream !== null);
    if (this.kept.stopped) this.answer.stopped();
  }

  get running() {
    return this.answer.status === 'streaming';
  }

  /** @param {Received} received */
  receive({ id, event }) {
    const { kept } = this;
    if (event.type === 'stream.start') kept.stream = event.stream;
    kept.cursor = id;
    if (!NOT_SHOWN.has(event.type) && !joined(kept.events.at(-1), event)) kept.events.push({ ...event });
    this.answer.receive(event);
  }

  /** @param {Failure} failure */
  fail({ code, message, retryable, retryAfterS, requestId }) {
    this.kept.failure = { code, message, retryable, retryAfterS, requestId };
    this.answer.fail(this.kept.failure, this.kept.stream !== null);
  }

  /** It was stopped before the answer had begun. */
  stop() {
    this.kept.stopped = true;
    this.answer.stopped();
  }

  toJSON() {
    const { request, ...kept } = this.kept;
    return { ...kept, request: this.running && !kept.stream ? request : null };
  }
}

/**
 * Join a delta to the one before it, so that an answer is kept in a few events.
 * @param {StreamEvent|undefined} last
 * @param {StreamEvent} event
 */
export function joined(last, event) {
  if (!last || last.type !== event.type || !('block' in last && 'block' in event) || last.block !== event.block) return false;
  if ('text' in last && 'text' in event) last.text += event.text;
  else if (last.type === 'tool_call.delta' && event.type === 'tool_call.delta') last.arguments += event.arguments;
  else return false;
  return true;
}

/** @param {Turn[]} turns */
export function keep(turns) {
  try {
    if (turns.length) sessionStorage.setItem(KEY, JSON.stringify(turns));
    else sessionStorage.removeItem(KEY);
  } catch {
    // Full or forbidden: a reload then begins anew.
  }
}

/** What was kept, the oldest turn first. @returns {Partial<Kept>[]} */
export function recall() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}
