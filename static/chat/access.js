/**
 * The models that the relay offers, and the key that it may require first.
 */

import { byId, element } from '../dom.js';
import { KeyForm, showing, storeKey, storedKey } from '../key.js';
import { model, prompt } from './composer.js';
import { say } from './language.js';
import { problemOf } from './relay.js';
import { tell } from './status.js';

/** @typedef {{id: string, owned_by?: string, architecture?: {output_modalities?: string[]}}} Row a model of `GET /v1/models` */

const MODELS_URL = new URL('v1/models', document.baseURI).href;
const RETRY_MS = 5000;
const NOT_FOR_CHAT = /(^|[-_/])(text-embedding|embed(ding)?s?|moderation|whisper|tts|transcribe|rerank(er)?|dall-e)([-_/:.]|$)/; // by their ids, where a list says no more

/** @param {Row} row */
const chats = ({ id, architecture }) => (architecture?.output_modalities?.includes('text') ?? !NOT_FOR_CHAT.test(id.toLowerCase()));

const forget = byId('forget-key', HTMLButtonElement);

export class Access {
  #form;
  #retry = 0; // the timer of the next attempt
  #on;

  /** @param {{models(rows: Row[]): void, key(): void, forget(): void}} on called once the models are known; once a key was accepted; before one is forgotten */
  constructor(on) {
    this.#on = on;
    this.#form = new KeyForm(byId('composer', HTMLFormElement), (key) => this.#use(key), say);
    addEventListener('online', () => {
      if (this.#retry) this.begin();
    });
    forget.addEventListener('click', () => {
      on.forget();
      storeKey(null);
      forget.hidden = true;
      prompt.focus(); // where the relay requires none; else the form takes the focus
      this.begin();
    });
  }

  /** Load the models, and ask for a key if the relay requires one. */
  async begin() {
    clearTimeout(this.#retry);
    this.#retry = 0;
    try {
      if (await this.#load(storedKey())) this.#ready();
      else this.ask();
    } catch (error) {
      forget.hidden = storedKey() === null;
      if (document.body.dataset.state === 'idle') tell(say('Could not load the models: {problem}', { problem: /** @type {Error} */ (error).message }));
      this.#retry = setTimeout(() => this.begin(), RETRY_MS);
    }
  }

  /** @param {string} [problem] what was wrong with the key that was sent */
  ask(problem = storedKey() === null ? '' : say('The relay does not take this tab’s key any more.')) {
    tell(say('A key is required'));
    this.#form.show(problem);
  }

  /** Try a key. @param {string} key @returns {Promise<string>} what is wrong with it, or "" */
  async #use(key) {
    try {
      if (!await this.#load(key)) return say('The relay does not take this key.');
    } catch (error) {
      return say('Could not try this key: {problem}', { problem: /** @type {Error} */ (error).message });
    }
    storeKey(key);
    this.#form.hide();
    this.#ready();
    prompt.focus();
    this.#on.key();
    return '';
  }

  /** @param {string|null} key @returns {Promise<boolean>} false if the relay requires another key */
  async #load(key) {
    const response = await fetch(MODELS_URL, { headers: { accept: 'application/json', ...showing(key) } });
    if (response.status === 401) return false;
    if (!response.ok) throw new Error(await problemOf(response));
    const { data } = await response.json();
    const rows = data.filter(chats);
    const chosen = model.value;
    model.replaceChildren(...rows.map((/** @type {Row} */ { id }) => element('option', { value: id, selected: id === chosen }, id)));
    this.#on.models(rows);
    return true;
  }

  #ready() {
    clearTimeout(this.#retry);
    this.#retry = 0;
    forget.hidden = storedKey() === null;
    if (document.body.dataset.state === 'idle') tell(say('Ready'));
  }
}
