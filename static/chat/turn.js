/**
 * One turn of a conversation: a question, its answer, and what is kept of both: the events of the
 * answer so far and the cursor behind them. Reading on is left to the transports.
 */

import { Answer } from './answer.js';
import { note } from './figures.js';
import { withoutData } from './files.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */
/** @typedef {Parameters<Answer['fail']>[0]} Failure */

/**
 * What is kept of a turn. `stream` is null until the answer has begun: the request, asked again
 * under its `key`, then finds the same generation.
 * @typedef {object} Kept
 * @property {number} id within the conversation
 * @property {number} after the id of the turn before it, 0 for a first one
 * @property {string} prompt empty for a stream of another tab, or of somebody else
 * @property {import('./files.js').Attached[]} files
 * @property {string} model
 * @property {string} transport
 * @property {string} key
 * @property {ChatRequest|null} request
 * @property {string|null} stream
 * @property {string|null} cursor
 * @property {(StreamEvent|{type: 'seam'})[]} events
 * @property {Failure|null} failure
 * @property {boolean} stopped here, before its end was seen
 * @property {number} [endedAt] when its answer ended or failed, in milliseconds since 1970
 * @property {boolean} [adjusted] whether it was asked with settings
 * @property {import('./figures.js').Timing} [timing] where it was asked here
 */

const SEAM = 'seam'; // among the events: here it went on, in another stream
const NOT_SHOWN = new Set(['logprobs', 'opaque']); // they can be large, and an Answer does not draw them

/** One question, its answer on the page, and what it takes to have both again. */
export class Turn {
  /**
   * @param {Partial<Kept>} kept
   * @param {import('./answer.js').Acts} acts
   */
  constructor(kept, acts) {
    /** @type {Kept} */
    this.kept = { id: 1, after: 0, prompt: '', files: [], model: '', transport: 'fetch', key: '', request: null, stream: null, cursor: null, events: [], failure: null, stopped: false, ...kept };
    this.answer = new Answer(this.kept.model, acts, this.isOurs);
    this.answer.adjusted = this.kept.adjusted === true;
    this.answer.timing = this.kept.timing;
    this.answer.endedAt = this.kept.endedAt;
    for (const event of this.kept.events) {
      if (event.type === SEAM) this.answer.goOn();
      else this.answer.receive(event);
    }
    if (this.kept.failure) this.answer.fail(this.kept.failure, this.kept.stream !== null);
    if (this.kept.stopped) this.answer.stopped();
  }

  /** Whether it was asked in this conversation: not in another tab, nor by somebody else. */
  get isOurs() {
    return this.kept.prompt !== '' || this.kept.files.length > 0;
  }

  get running() {
    return this.answer.status === 'streaming';
  }

  /** @param {Received} received */
  receive({ id, event }) {
    const { kept } = this;
    if (kept.stopped) {
      // Nothing is added to what was there when it was stopped, but what it took is known only now.
      if (event.type !== 'stream.end') return;
      kept.stopped = false;
      event = { ...event, status: 'cancelled', error: undefined, finish_reason: undefined };
    }
    if (event.type === 'stream.start') kept.stream = event.stream;
    kept.cursor = id;
    note(kept.timing, event);
    if (event.type === 'stream.end') this.answer.endedAt = kept.endedAt = Date.now();
    if (!NOT_SHOWN.has(event.type) && !joined(kept.events.at(-1), event)) kept.events.push({ ...event });
    this.answer.receive(event);
  }

  /** The events of its last stream. */
  get latest() {
    const { events } = this.kept;
    return /** @type {StreamEvent[]} */ (events.slice(events.findLastIndex(({ type }) => type === SEAM) + 1));
  }

  /**
   * Go on with the answer, in another stream.
   * @param {Pick<Kept, 'request'|'key'|'model'|'transport'|'adjusted'>} asked
   */
  goOn(asked) {
    Object.assign(this.kept, { ...asked, stream: null, cursor: null, failure: null, stopped: false, timing: undefined, endedAt: undefined });
    this.kept.events.push({ type: SEAM });
    this.answer.adjusted = asked.adjusted === true;
    this.answer.goOn();
  }

  /** @param {Failure} failure */
  fail({ code, message, retryable, retryAfterS, requestId }) {
    this.answer.endedAt = this.kept.endedAt = Date.now();
    this.kept.failure = { code, message, retryable, retryAfterS, requestId };
    this.answer.fail(this.kept.failure, this.kept.stream !== null);
  }

  /** Take it for stopped, whatever still comes. */
  stop() {
    if (!this.running) return;
    this.kept.stopped = true;
    this.answer.stopped();
  }

  toJSON() {
    const { request, ...kept } = this.kept;
    return { ...kept, request: this.running && !kept.stream ? request : null };
  }

  /** What is kept of it for long: without the data of files. */
  light() {
    return { ...this.toJSON(), files: withoutData(this.kept.files) };
  }
}

/**
 * Join a delta to the one before it, so that an answer is kept in a few events.
 * @param {Kept['events'][number]|undefined} last
 * @param {StreamEvent} event
 */
export function joined(last, event) {
  if (!last || last.type !== event.type || !('block' in last && 'block' in event) || last.block !== event.block) return false;
  if ('text' in last && 'text' in event) last.text += event.text;
  else if (last.type === 'tool_call.delta' && event.type === 'tool_call.delta') last.arguments += event.arguments;
  else return false;
  return true;
}
