/**
 * The log of the chat: the questions and answers that are shown, or the welcome where there are none.
 */

import { byId } from '../dom.js';
import { say } from './language.js';
import { followWithButton } from './latest.js';
import { Question } from './question.js';
import { watched } from './watching.js';

/** @typedef {import('./turn.js').Turn} Turn */

export class Log {
  /** @type {Map<Turn, Question>} */
  #questions = new Map();
  #root = byId('log', HTMLElement);
  #welcome = byId('welcome', HTMLElement);
  #scroll = followWithButton(byId('scroller', HTMLElement), () => Boolean(this.#welcome.hidden));

  /** Make the question of a turn, which is drawn with it. @param {Turn} turn @param {import('./question.js').Acts} acts */
  add(turn, acts) {
    const { kept, isOurs } = turn;
    const elsewhere = isOurs ? undefined : watched ? say('Asked by somebody else') : say('Asked in another tab');
    this.#questions.set(turn, new Question({ text: kept.prompt, files: kept.files, elsewhere }, acts));
  }

  /** Return the question of a turn. @param {Turn} turn */
  questionOf(turn) {
    return this.#questions.get(turn);
  }

  /** Bring it up to the turns that are shown. @param {import('./conversation.js').Conversation} conversation */
  draw(conversation) {
    const { turns } = conversation;
    /** @type {Set<Element>} */
    const articles = new Set();
    for (const turn of turns) {
      const question = this.#questions.get(turn);
      if (question) articles.add(question.article);
      articles.add(turn.answer.article);
    }
    for (const child of [...this.#root.children]) if (!articles.has(child)) child.remove();
    this.#root.append(...[...articles].filter((article) => !article.isConnected));
    for (const turn of turns) {
      const versions = conversation.versionsOf(turn);
      this.#questions.get(turn)?.tellVersions(versions.indexOf(turn), versions.length);
    }
    this.#welcome.hidden = turns.length > 0;
    if (turns.length) this.#scroll.jump();
    else this.#scroll.begin();
  }

  /** Stay at the end, if the reader is there. */
  keep() {
    this.#scroll.keep();
  }

  /** Forget all questions: another conversation comes. */
  clear() {
    this.#questions.clear();
  }
}
