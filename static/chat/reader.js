/**
 * What reads an answer, over whatever connections that takes: it hands on the events, to the turn
 * and to the inspector, and says how it goes.
 */

import { SeseragiError } from '../seseragi.js';
import { focusField } from './composer.js';
import { say } from './language.js';
import { paced } from './pace.js';
import { setBusy, showReady, showTab, tell, told } from './status.js';
import { TRANSPORTS } from './transports.js';
import { notToBeWatched, offerSharing, watched, watchedUrl } from './watching.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {import('./transports.js').OnState} OnState */
/** @typedef {import('./transports.js').OnWait} OnWait */
/** @typedef {import('./transports.js').Reading} Reading */
/** @typedef {import('./turn.js').Turn} Turn */

const OFFLINE = say('Offline: it is sent when the network is back');
const SENT = say('Sent, waiting for the answer…');
const STOPPED = say('Stopped');
const ENDINGS = { completed: say('Done'), cancelled: STOPPED, failed: say('Failed'), interrupted: say('Interrupted'), streaming: '' };
const LINGER_MS = 5000; // how long the end of an answer that was stopped is waited for, once the relay knows

export class Reader {
  /** What to do when an answer has been read to its end. @type {(turn: Turn) => void} */
  onEnd = () => {};
  /** @type {Reading|null} */
  #reading = null;
  /** Whose answer is read, or was last. @type {Turn|null} */
  #turn = null;
  /** The one whose events are listed. @type {Reading|null} */
  #inspected = null;
  #conversation;
  #log;
  #inspector;
  #notice;
  #needKey;

  /**
   * @param {object} of
   * @param {import('./conversation.js').Conversation} of.conversation
   * @param {import('./log.js').Log} of.log
   * @param {import('./inspector.js').Inspector} of.inspector
   * @param {import('./connection.js').ConnectionNotice} of.notice
   * @param {() => void} of.needKey what to do where the relay asks for a key
   */
  constructor({ conversation, log, inspector, notice, needKey }) {
    this.#conversation = conversation;
    this.#log = log;
    this.#inspector = inspector;
    this.#notice = notice;
    this.#needKey = needKey;
    addEventListener('offline', () => {
      if (this.#reading && told() === SENT) tell(OFFLINE);
    });
    addEventListener('online', () => {
      if (this.#reading && told() === OFFLINE) tell(say('Back, sending again…'));
    });
  }

  /** Whether an answer is being read. */
  get busy() {
    return this.#reading !== null;
  }

  /**
   * Send a turn's request, and read what is answered.
   * @param {Turn} turn
   * @param {ChatRequest} request
   * @param {string} [waiting] what to say until something comes
   */
  ask(turn, request, waiting = navigator.onLine ? SENT : OFFLINE) {
    const { transport, key } = turn.kept;
    this.#read(turn, (onState, onWait) => over(transport).ask(request, key, onState, onWait), waiting);
  }

  /** Go on with a turn, if its answer has not ended. @param {Turn} turn @param {string} waiting */
  readOn(turn, waiting) {
    const { stream, cursor, request, transport } = turn.kept;
    if (turn.running && stream) {
      this.#read(turn, (onState, onWait) => over(transport).resume(watched ? watchedUrl : stream, cursor, onState, onWait), waiting);
    } else if (turn.running && request) {
      this.ask(turn, request, say('Looking for the answer after the reload…'));
    } else {
      showTab(stream);
      this.#inspector.lookBack();
    }
  }

  /** Stop the answer, here at once; the relay is told meanwhile. */
  stop() {
    const stopped = this.#reading;
    if (!stopped) return;
    this.#turn?.stop();
    this.#end(say('Stopped; telling the relay…'));
    const still = told();
    /** @param {string} text */
    const tellOf = (text) => { if (told() === still) tell(text); };
    stopped.stop().then(() => tellOf(STOPPED), (error) => tellOf(say('Stopped here, but the relay could not be told: {problem}', { problem: error.message })))
      .finally(() => setTimeout(stopped.leave, LINGER_MS));
  }

  /** Have the relay stop the answer, of which nothing is shown any more. */
  abandon() {
    this.#reading?.stop().catch(() => {});
  }

  /** Break the connection, which comes back by itself. */
  cut() {
    this.#reading?.cut();
  }

  /** Leave the answer; it goes on without a reader. */
  leave() {
    this.#reading?.leave();
    this.#reading = this.#inspected = null;
    setBusy(false);
    showReady('closed');
    showTab(null);
    this.#notice.hide();
  }

  /**
   * Read a turn's answer to its end.
   * @param {Turn} turn
   * @param {(onState: OnState, onWait: OnWait) => Reading} begin
   * @param {string} waiting
   */
  async #read(turn, begin, waiting) {
    /** @type {OnState} */
    const onState = (state) => {
      if (mine !== this.#reading) return;
      const { ready } = document.body.dataset;
      if (state === 'reconnecting' && ready !== state) tell(navigator.onLine ? say('Reconnecting…') : say('Offline: reading on when the network is back'));
      if (ready !== state) this.#inspector.connection(state);
      if (state === 'open' && ready === 'reconnecting') tell(say('Back, answering…'));
      showReady(state);
      if (state !== 'reconnecting') this.#notice.hide();
    };
    /** @type {OnWait} */
    const onWait = (wait) => {
      if (mine === this.#reading) this.#notice.show({ ...wait, retry: () => mine.retry() });
    };
    this.#inspector.begin();
    const mine = this.#reading = this.#inspected = begin(onState, onWait);
    this.#turn = turn;
    setBusy(true);
    showReady('connecting');
    showTab(turn.kept.stream);
    tell(waiting);
    let problem = '';
    let answering = false;
    let keyNeeded = false;
    const { key } = turn.kept;
    try {
      for await (const received of paced(mine.events)) {
        if (mine === this.#inspected) this.#inspector.receive(received);
        if (mine !== this.#reading) {
          if (turn.kept.key === key) this.#receiveLate(turn, received); // else it has gone on meanwhile
          continue;
        }
        if (!answering) tell(say('Answering…'));
        answering = true;
        turn.receive(received);
        this.#conversation.noteChange();
        this.#log.keep();
        if (received.event.type === 'stream.start') {
          showTab(received.event.stream);
          offerSharing(turn);
          this.#conversation.save();
        }
        if (received.event.type === 'stream.end') problem = received.event.error?.message ?? '';
      }
    } catch (error) {
      if (mine !== this.#reading) return;
      if (error instanceof DOMException && error.name === 'AbortError') {
        turn.stop();
      } else {
        if (!(error instanceof SeseragiError)) throw error;
        if (watched && [401, 403, 404, 410].includes(error.status)) problem = notToBeWatched(turn, error.status);
        else if (error.status === 401) keyNeeded = true; // the turn goes on once there is one
        else turn.fail(error);
        problem ||= error.message;
      }
    } finally {
      if (mine === this.#reading) {
        this.#end([ENDINGS[turn.answer.status], problem].filter(Boolean).join(say(': ')), problem);
        if (keyNeeded) this.#needKey();
        else this.onEnd(turn);
      }
    }
  }

  /** Take what comes of an answer that was stopped here: only how it ended. @param {Turn} turn @param {Received} received */
  #receiveLate(turn, received) {
    if (!turn.kept.stopped) return;
    turn.receive(received);
    if (!this.#conversation.has(turn)) return; // it was left
    this.#conversation.noteChange();
    if (!turn.kept.stopped) this.#conversation.save();
  }

  /** Go over to the next question. @param {string} said @param {string} [problem] */
  #end(said, problem) {
    this.#reading = null;
    this.#notice.hide();
    this.#log.keep();
    this.#conversation.noteChange();
    this.#conversation.save();
    this.#inspector.end(problem && say('No events: {problem}.', { problem: problem.replace(/[.。]$/, '') }));
    tell(said);
    showReady('closed');
    setBusy(false);
    if (!watched) focusField();
  }
}

/** @param {string} transport */
function over(transport) {
  return TRANSPORTS[transport] ?? TRANSPORTS.fetch; // what is kept may name one of another version of this page
}
