/**
 * The conversation: its turns, the requests for them, and what the tab keeps for a reload.
 *
 * Only questions, texts and stream ids are kept. The events are the relay's: after a reload the page
 * reads each stream from its beginning again, and the last one on while it runs.
 */

import { byId, element } from '../dom.js';
import { newId } from '../ids.js';
import { storedKey } from '../key.js';
import { AnswerParts, requestMessages } from '../parts.js';
import { resume } from '../seseragi.js';
import { Answer } from './answer.js';
import { follow } from './follow.js';
import { say } from './language.js';
import { Recording } from './recording.js';
import { watched } from './sharing.js';
import { STREAMS_URL } from './transports.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {import('../seseragi.js').SeseragiError} SeseragiError */

/**
 * What is kept of a turn. `stream` is null until the answer has begun: the request, sent again
 * under its `key`, then finds the same stream.
 * @typedef {object} Kept
 * @property {string} prompt "" for a stream of another tab, or of somebody else
 * @property {string} model
 * @property {string} transport
 * @property {string} key for idempotency
 * @property {string|null} stream
 * @property {string} text of the answer, once it has ended
 * @property {import('../seseragi.js').StreamEnd} [end]
 * @property {any[]} [results] the messages with the calls of demo-tools and their results
 * @property {{number: number, at: number}} [seen] the last event before a reload, while it runs
 */

const KEY = 'seseragi.conversation'; // of sessionStorage

/** One question and its answer on the page. */
export class Turn {
  recording = new Recording();

  /** @param {Partial<Kept>} kept @param {{retry: (turn: Turn) => void, inspect: (turn: Turn) => void}} acts */
  constructor(kept, acts) {
    /** @type {Kept} */
    this.kept = { prompt: '', model: '', transport: 'fetch', key: newId(), stream: null, text: '', ...kept };
    const { prompt, results, model, stream, end, seen } = this.kept;
    this.answer = new Answer(model, { retry: () => acts.retry(this), inspect: () => acts.inspect(this) });
    const sent = results?.filter(({ role }) => role === 'tool').map(({ content }) => content).join('\n');
    this.question = element('article', { className: 'message user' },
      element('h3', { className: 'hidden' }, sent ? say('Tool results') : say('You')),
      sent ? element('p', { className: 'results' }, sent)
        : prompt ? element('p', { dir: 'auto' }, prompt)
          : element('p', { className: 'elsewhere' }, watched ? say('Asked by somebody else') : say('Asked in another tab')));
    if (end && !stream) this.answer.receive(end);
    if (seen) this.recording.before = seen;
  }

  get running() {
    return this.answer.status === 'streaming';
  }

  /** @param {Received} received */
  receive({ id, event, data }) {
    this.recording.receive({ id, type: event.type, data });
    if (event.type === 'stream.start') {
      this.kept.stream = event.stream;
      if (!watched) this.answer.offerSharing(event.stream);
    }
    this.answer.receive(event);
    if (event.type === 'stream.end') Object.assign(this.kept, { text: this.answer.text, end: event });
  }

  /** End it without a `stream.end` of the relay. @param {SeseragiError|null} error null if it was stopped */
  end(error) {
    if (!this.running) return;
    const { stream, text, end } = this.kept;
    if (error && end) { // it had ended before a reload, and the relay does not store it any more
      this.answer.receive({ type: 'text.start', block: 0 });
      this.answer.receive({ type: 'text.delta', block: 0, text });
      this.answer.receive({ type: 'notice', code: error.code, message: error.message });
      this.answer.receive(end);
    } else if (error) {
      const { code, message, retryable } = error;
      this.answer.fail(error, stream !== null);
      this.kept.end = { type: 'stream.end', status: this.answer.status === 'failed' ? 'failed' : 'interrupted', error: { code, message, retryable } };
    } else {
      this.answer.receive(this.kept.end = { type: 'stream.end', status: 'cancelled' });
    }
    this.kept.text = this.answer.text;
  }

  /** Read an earlier answer again. */
  async readAgain() {
    try {
      for await (const received of resume(this.kept.stream ?? '', { streamsUrl: STREAMS_URL, credential: storedKey(), maxAttempts: 2 })) this.receive(received);
    } catch (error) {
      this.end(/** @type {SeseragiError} */ (error));
    }
  }
}

export class Conversation {
  /** @type {Turn[]} */
  turns = [];
  #acts;
  #log = byId('log', HTMLElement);
  #scroller = byId('scroller', HTMLElement);
  #scroll = follow(this.#scroller);

  /** @param {{retry: (turn: Turn) => void, inspect: (turn: Turn) => void}} acts */
  constructor(acts) {
    this.#acts = acts;
    addEventListener('pagehide', () => this.save());
  }

  /** @param {Partial<Kept>} kept */
  add(kept) {
    const turn = new Turn(kept, this.#acts);
    this.turns.push(turn);
    this.#log.append(turn.question, turn.answer.article);
    byId('welcome', HTMLElement).hidden = true;
    this.#scroll.jump();
    return turn;
  }

  /** @param {Turn} turn */
  remove(turn) {
    this.turns = this.turns.filter((one) => one !== turn);
    turn.question.remove();
    turn.answer.article.remove();
  }

  clear() {
    this.turns = [];
    this.#log.replaceChildren();
    byId('welcome', HTMLElement).hidden = false;
    this.#scroller.scrollTop = 0;
    this.save();
  }

  /** Stay at the end, if the reader is there. */
  follow() {
    this.#scroll.keep();
  }

  /**
   * Return the request for a question after some turns, those without an answer left out.
   * @param {Pick<Kept, 'prompt'|'model'|'results'>} question
   * @param {Turn[]} [before]
   * @returns {ChatRequest}
   */
  requestFor({ prompt, model, results = [] }, before = this.turns) {
    const said = before.filter(({ kept }) => kept.prompt && kept.text).flatMap(({ kept }) => [
      { role: 'user', content: kept.prompt },
      { role: 'assistant', content: kept.text },
    ]);
    return { ...(model ? { model } : {}), messages: [...said, { role: 'user', content: prompt }, ...results] };
  }

  /** Return the request of a turn. @param {Turn} turn */
  requestOf(turn) {
    return this.requestFor(turn.kept, this.turns.slice(0, this.turns.indexOf(turn)));
  }

  /** Keep it for a reload of this tab. */
  save() {
    if (watched) return;
    for (const { kept, running, recording } of this.turns) {
      if (running && recording.last) kept.seen = { number: recording.last, at: Date.now() };
      else delete kept.seen;
    }
    try {
      sessionStorage.setItem(KEY, JSON.stringify(this.turns.map(({ kept }) => kept)));
    } catch {
      // Full or forbidden: a reload begins anew.
    }
  }

  /** Show what the tab had before a reload, and read all answers but the last again. */
  restore() {
    try {
      for (const kept of JSON.parse(sessionStorage.getItem(KEY) ?? '[]')) this.add(kept);
    } catch {
      return; // kept by another version of this page
    }
    for (const turn of this.turns.slice(0, -1)) if (turn.running) turn.readAgain();
  }
}

/** Return the messages with made-up results for the calls of demo-tools, or undefined if there are none. @param {Turn} turn @returns {any[]|undefined} */
export function resultsFor({ kept, recording, answer: { status } }) {
  if (kept.model !== 'demo-tools' || status !== 'completed') return undefined;
  const answer = new AnswerParts();
  for (const { data } of recording.entries) answer.receive(JSON.parse(data));
  const parts = answer.parts.map((part) => (part.type === 'tool_call' ? { ...part, output: JSON.stringify({ ...JSON.parse(part.arguments), weather: 'sunny', celsius: 21 }) } : part));
  return parts.some(({ type }) => type === 'tool_call') ? requestMessages([{ id: '', role: 'assistant', parts, status: 'completed' }]) : undefined;
}
