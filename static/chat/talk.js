/**
 * What is done in the conversation of this page: asking, asking again, having an answer go on,
 * leaving it for another and coming back.
 */

import { newId } from '../ids.js';
import { model, transport } from './composer.js';
import { say } from './language.js';
import { requestFor, requestToGoOn, requestWithResults } from './request.js';
import { isSet } from './settings.js';
import { tell } from './status.js';
import { Turn } from './turn.js';
import { offerSharing, watched } from './watching.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {import('./files.js').Attached} Attached */
/** @typedef {import('./turn.js').Kept} Kept */

export class Talk {
  /** What to do where somebody wants to change the settings. */
  onAdjust = () => {};
  #conversation;
  #log;
  #reader;
  #inspector;

  /**
   * @param {object} of
   * @param {import('./conversation.js').Conversation} of.conversation
   * @param {import('./log.js').Log} of.log
   * @param {import('./reader.js').Reader} of.reader
   * @param {import('./inspector.js').Inspector} of.inspector
   */
  constructor({ conversation, log, reader, inspector }) {
    this.#conversation = conversation;
    this.#log = log;
    this.#reader = reader;
    this.#inspector = inspector;
    reader.onEnd = (turn) => this.#giveResults(turn);
  }

  /**
   * @param {string} text
   * @param {readonly Attached[]} [files]
   * @param {Turn} [instead] the turn that it is asked in place of
   */
  ask(text, files = [], instead) {
    if (this.#reader.busy) return;
    const conversation = this.#conversation;
    if (instead) conversation.goBackBefore(instead);
    const settings = conversation.takeSettings();
    const request = requestFor(conversation.turns, { text, files }, { model: model.value, settings });
    const turn = this.#make({
      id: conversation.nextId, after: conversation.turns.at(-1)?.kept.id ?? 0, prompt: text, files: [...files], timing: { asked: Date.now() },
      model: model.value, transport: transport.value, key: newId(), request, adjusted: isSet(settings),
    });
    conversation.add(turn);
    this.#draw();
    this.#send(turn, request);
  }

  /**
   * Have an answer go on that was stopped, or has come to the limit of its length: it is asked for
   * again with what it says so far as the last message, which models go on from. To those that
   * refuse that the relay says "Go on.", and tells so in a notice.
   * @param {Turn} turn
   */
  goOn(turn) {
    const { turns } = this.#conversation;
    if (this.#reader.busy || turn !== turns.at(-1) || !turn.answer.isUnfinished) return;
    const settings = this.#conversation.takeSettings();
    const offered = [...model.options].filter(({ value }) => value); // none while they are on their way
    const asSaid = !offered.length || offered.some(({ value }) => value === turn.kept.model);
    const request = requestToGoOn(turns.slice(0, -1), turn, { model: (asSaid && turn.kept.model) || model.value, settings });
    this.#continue(turn, request, settings);
  }

  /** Have the story of demo-tools go on to its answer. @param {Turn} turn */
  #giveResults(turn) {
    const { turns } = this.#conversation;
    if (!turn.isOurs || turn !== turns.at(-1)) return;
    const settings = this.#conversation.takeSettings();
    const request = requestWithResults(turns.slice(0, -1), turn, { model: turn.kept.model, settings });
    if (request) this.#continue(turn, request, settings);
  }

  /** @param {Turn} turn @param {ChatRequest} request @param {import('./settings.js').Settings} settings */
  #continue(turn, request, settings) {
    turn.goOn({ request, key: newId(), model: request.model ?? '', transport: transport.value, adjusted: isSet(settings) });
    this.#send(turn, request);
  }

  /** @param {Turn} turn @param {ChatRequest} request */
  #send(turn, request) {
    if (location.hash) history.replaceState(null, '', location.pathname + location.search);
    this.#conversation.lastRequest = request;
    this.#conversation.saveAsked();
    this.#reader.ask(turn, request);
  }

  /** Ask a question again, beside what came of it. @param {Turn} turn */
  askAgain(turn) {
    if (!turn.isOurs) return location.reload(); // another tab's
    this.ask(turn.kept.prompt, turn.kept.files, turn);
  }

  /** Edit the last question that is shown. */
  editLast() {
    const last = this.#conversation.turns.findLast((turn) => turn.isOurs);
    if (last && !this.#reader.busy) this.#log.questionOf(last)?.edit();
  }

  /** Show another version of a turn. @param {Turn} turn @param {-1|1} by */
  #step(turn, by) {
    const other = this.#reader.busy ? undefined : this.#conversation.step(turn, by);
    if (!other) return;
    this.#draw();
    this.#log.questionOf(other)?.focusStep(by);
    this.readOn(say('Reading on…'));
    this.#conversation.save();
  }

  /** Leave this conversation for a new one; an answer that runs goes on without a reader, and can be come back to. */
  beginAnew() {
    this.#leave();
    this.#conversation.save();
    tell(say('Ready'));
  }

  /** Leave this conversation, which is about to be deleted, for a new one; its answer is stopped. */
  discard() {
    this.#reader.abandon();
    this.#conversation.discard();
    this.beginAnew();
  }

  /** Leave this conversation for one that was kept. @param {string} id */
  open(id) {
    const found = id === this.#conversation.id ? null : this.#conversation.history.read(id);
    if (!found) return;
    this.#leave();
    this.#restore(found);
    tell(say('Ready'));
    this.readOn(say('Reading on…'));
    this.#conversation.save();
  }

  #leave() {
    this.#conversation.save();
    this.#reader.leave();
    this.#conversation.clear();
    this.#log.clear();
    history.replaceState(null, '', location.pathname + location.search);
    this.#inspector.leave();
    this.#draw();
  }

  /** @param {import('./conversation.js').Found} found */
  #restore(found) {
    this.#conversation.restore(found, (kept) => this.#make(kept));
    this.#draw();
  }

  /** Show a stream that another tab began, or what this one had before a reload; nothing if there is nothing. */
  comeBack() {
    const elsewhere = watched || /^#stream=([\w.~-]+)$/.exec(location.hash)?.[1];
    const here = elsewhere ? null : this.#conversation.recall();
    if (elsewhere) this.#restore({ shown: 1, turns: [{ stream: elsewhere, model: say('Shared stream'), transport: transport.value }] });
    else if (here) this.#restore(here);
    this.readOn(elsewhere ? say('Joining the stream…') : say('Reading on after the reload…'));
    this.#conversation.onChange();
  }

  /** Go on with the last turn, if its answer has not ended. @param {string} waiting */
  readOn(waiting) {
    const last = this.#conversation.turns.at(-1);
    if (!last || this.#reader.busy) return;
    this.#conversation.lastRequest = last.kept.request;
    transport.value = last.kept.transport;
    this.#reader.readOn(last, waiting);
  }

  /** @param {Partial<Kept>} kept */
  #make(kept) {
    const turn = new Turn(kept, { retry: () => this.askAgain(turn), goOn: () => this.goOn(turn), adjust: () => this.onAdjust() });
    this.#log.add(turn, {
      edit: (text) => {
        if (this.#reader.busy) return false;
        this.ask(text, turn.kept.files, turn);
        return true;
      },
      step: (by) => this.#step(turn, by),
    });
    offerSharing(turn);
    return turn;
  }

  #draw() {
    this.#inspector.offer();
    this.#log.draw(this.#conversation);
  }
}
