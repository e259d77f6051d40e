/**
 * Reads an answer, over whatever connections that takes: hands its events to the turn, and shows
 * the state.
 */

import { SeseragiError } from '../seseragi.js';
import { focusField } from './composer.js';
import { say } from './language.js';
import { explainLink, watched, watchedUrl } from './sharing.js';
import { setBusy, showReady, showTab, tell } from './status.js';
import { TRANSPORTS } from './transports.js';

/** @typedef {import('./conversation.js').Turn} Turn */
/** @typedef {import('./transports.js').OnState} OnState */
/** @typedef {import('./transports.js').Reading} Reading */

const ENDINGS = { completed: say('Done'), cancelled: say('Stopped'), failed: say('Failed'), interrupted: say('Interrupted'), streaming: '' };
const STOP_MS = 3000; // how long the relay may take to end an answer that was stopped

export class Reader {
  /** What is being read. @type {Reading|null} */
  reading = null;
  #on;

  /**
   * @param {object} on
   * @param {(turn: Turn) => void} on.change called when there is something new in a turn
   * @param {(turn: Turn) => void} on.start called once the id of its stream is known
   * @param {(turn: Turn, problem: string) => void} on.end
   * @param {() => void} on.unauthenticated called if the relay requires another key; the turn can be read on then
   */
  constructor(on) {
    this.#on = on;
  }

  /** Send a turn's request. @param {Turn} turn @param {import('../seseragi.js').ChatRequest} request */
  ask(turn, request) {
    this.#read(turn, (onState) => over(turn).ask(request, turn.kept.key, onState), navigator.onLine ? say('Sent, waiting for the answer…') : say('Offline: it is sent when the network is back'));
  }

  /** Read a turn's stream from its beginning, or on from the last event. @param {Turn} turn */
  readOn(turn) {
    const after = turn.recording.entries.at(-1)?.id ?? null;
    this.#read(turn, (onState) => over(turn).resume(watched ? watchedUrl : turn.kept.stream ?? '', after, onState), say('Reading on…'));
  }

  /** Stop the answer. Its end comes from the relay, unless that takes too long. */
  stop() {
    const stopped = this.reading;
    if (!stopped) return;
    tell(say('Stopping…'));
    const leave = () => { if (stopped === this.reading) stopped.leave(); };
    stopped.stop().catch(leave);
    setTimeout(leave, STOP_MS);
  }

  /** Leave the answer; it goes on without a reader, unless it is stopped. @param {{stops?: boolean}} [how] */
  leave({ stops = false } = {}) {
    const left = this.reading;
    if (stops) left?.stop().catch(() => {}).finally(() => left.leave());
    else left?.leave();
    this.reading = null;
    setBusy(false);
    showReady('closed');
    showTab(null);
  }

  /** @param {Turn} turn @param {(onState: OnState) => Reading} begin @param {string} waiting the status until something comes */
  async #read(turn, begin, waiting) {
    const mine = this.reading = begin((state) => {
      const { ready } = document.body.dataset;
      if (mine !== this.reading || state === ready) return;
      if (state === 'reconnecting') {
        turn.recording.lost();
        tell(navigator.onLine ? say('Reconnecting…') : say('Offline: reading on when the network is back'));
      } else if (state === 'open') {
        turn.recording.back();
        if (ready === 'reconnecting') tell(say('Answering…'));
      }
      showReady(state);
      this.#on.change(turn);
    });
    setBusy(true);
    showReady('connecting');
    showTab(turn.kept.stream);
    tell(waiting);
    let problem = '';
    let unauthenticated = false;
    try {
      for await (const received of mine.events) {
        if (mine !== this.reading) return;
        if (!turn.recording.last) tell(say('Answering…'));
        turn.receive(received);
        this.#on.change(turn);
        if (received.event.type === 'stream.start') {
          showTab(received.event.stream);
          this.#on.start(turn);
        }
        if (received.event.type === 'stream.end') problem = received.event.error?.message ?? '';
      }
    } catch (error) {
      if (mine !== this.reading) return;
      if (error instanceof DOMException && error.name === 'AbortError') {
        turn.end(null);
      } else {
        if (!(error instanceof SeseragiError)) throw error;
        problem = watched && [401, 403, 404, 410].includes(error.status) ? explainLink(error.status) : error.message;
        unauthenticated = error.status === 401 && !watched;
        if (!unauthenticated) turn.end(error);
      }
    } finally {
      if (mine === this.reading) {
        this.reading = null;
        tell([ENDINGS[turn.answer.status], problem].filter(Boolean).join(say(': ')));
        showReady('closed');
        setBusy(false);
        if (!watched) focusField();
        if (unauthenticated) this.#on.unauthenticated();
        else this.#on.end(turn, problem);
      }
    }
  }
}

/** @param {Turn} turn */
function over({ kept }) {
  return TRANSPORTS[kept.transport] ?? TRANSPORTS.fetch; // another version of this page may have kept it
}
