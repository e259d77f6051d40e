/**
 * What the relay offers this page, and the key that it may ask for first.
 */

import { byId, element } from '../dom.js';
import { KeyForm, showing, storeKey, storedKey } from '../key.js';
import { model, prompt } from './composer.js';
import { say } from './language.js';
import { chats } from './models.js';
import { tell } from './status.js';
import { problemOf } from './watching.js';

/** @typedef {Error & {status?: number}} Failure `status` is that of the relay's answer */

const MODELS_URL = new URL('v1/models', document.baseURI).href;

const SOONEST_MS = 2000; // until the models are asked for again
const LATEST_MS = 30_000;

const forget = byId('forget-key', HTMLButtonElement);

/** Has the models loaded, with a key where one is needed. */
export class Access {
  #form;
  /** @type {import('./models.js').Row[]} */
  #rows = [];
  #round = 0; // of asking for them
  #failed = 0; // rounds, one after another
  #again = 0; // the timer of the next one
  #onModels;
  #onKey;
  #onAsk;
  #onForget;
  #onFailure;

  /**
   * @param {object} does
   * @param {(rows: import('./models.js').Row[]) => void} does.onModels what to do once the models are known
   * @param {() => void} does.onKey what to go on with once a key was given
   * @param {() => void} does.onAsk what to do while there is none
   * @param {() => void} does.onForget what to do before a key is forgotten
   * @param {(error: Failure, at: number|null) => void} does.onFailure what to do where the relay does not answer; `at` is when it is asked again,
   *     null where that is once the network is back
   */
  constructor({ onModels, onKey, onAsk, onForget, onFailure }) {
    this.#onModels = onModels;
    this.#onKey = onKey;
    this.#onAsk = onAsk;
    this.#onForget = onForget;
    this.#onFailure = onFailure;
    this.#form = new KeyForm(byId('composer', HTMLFormElement), (key) => this.#use(key), say);
    addEventListener('online', () => {
      if (this.#failed) this.begin();
    });
    forget.addEventListener('click', () => {
      this.#onForget();
      storeKey(null);
      forget.hidden = true;
      prompt.focus(); // where the relay needs none; the form takes it otherwise
      this.begin();
    });
  }

  /** See what the relay offers, and whether it asks for a key. */
  async begin() {
    clearTimeout(this.#again);
    const round = ++this.#round;
    try {
      const taken = await this.#load(storedKey());
      if (round !== this.#round) return;
      this.#failed = 0;
      if (taken) this.#show();
      else this.ask();
    } catch (error) {
      if (round !== this.#round) return;
      model.replaceChildren(element('option', { value: '' }, say('default')));
      forget.hidden = storedKey() === null;
      if (document.body.dataset.state === 'idle') tell(say('Could not load the models: {problem}', { problem: /** @type {Error} */ (error).message }));
      this.#onFailure(/** @type {Failure} */ (error), this.#later());
    }
  }

  /** Ask again by and by, or once the network is back. @returns {number|null} when */
  #later() {
    const wait = Math.min(LATEST_MS, SOONEST_MS * 2 ** this.#failed++);
    if (!navigator.onLine) return null;
    this.#again = setTimeout(() => this.begin(), wait);
    return Date.now() + wait;
  }

  /** @param {string} [problem] what was wrong with the key that was shown */
  ask(problem = storedKey() === null ? '' : say('The relay does not take this tab’s key any more.')) {
    tell(say('A key is needed'));
    this.#onAsk();
    this.#form.show(problem);
  }

  /** Take a key that the relay takes. @param {string} key @returns {Promise<string>} what is wrong with it */
  async #use(key) {
    try {
      if (!await this.#load(key)) return say('The relay does not take this key.');
    } catch (error) {
      return say('Could not try this key: {problem}', { problem: /** @type {Error} */ (error).message });
    }
    this.#round += 1; // what is asked with another key is of no use any more
    clearTimeout(this.#again);
    this.#failed = 0;
    storeKey(key);
    this.#form.hide();
    this.#show();
    prompt.focus();
    this.#onKey();
    return '';
  }

  /** Ask for the models. @param {string|null} key @returns {Promise<boolean>} false where the relay does not take the key, or wants one */
  async #load(key) {
    const response = await fetch(MODELS_URL, { headers: { accept: 'application/json', ...showing(key) } });
    if (response.status === 401) return false;
    if (!response.ok) throw Object.assign(new Error(await problemOf(response)), { status: response.status });
    const { data } = await response.json();
    this.#rows = data.filter(chats);
    model.replaceChildren(...this.#rows.map(({ id }) => element('option', { value: id }, id)));
    return true;
  }

  #show() {
    this.#onModels(this.#rows);
    forget.hidden = storedKey() === null;
    if (document.body.dataset.state === 'idle') tell(say('Ready'));
  }
}
