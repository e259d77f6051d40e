/**
 * The settings of the conversation: a button by the question, and a dialog to change them.
 */

import { byId, element } from '../dom.js';
import { icon } from './icon.js';
import { number, say } from './language.js';
import { HOTTEST, MOST_SYSTEM, MOST_TOKENS, areSame, isSet, settingsOf } from './settings.js';
import { tell } from './status.js';

/** @typedef {import('./models.js').Model} Model */
/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {{root: HTMLElement, input: HTMLInputElement, note: HTMLElement, error: HTMLElement}} Field */

const SLIDERS = 'M2 4.5h6.5M12.5 4.5H14M2 11.5h1.5M7.5 11.5H14M10.5 2.5v4M5.5 9.5v4';

/** @param {string} id @param {string} name @param {object} properties @returns {Field} */
function numberField(id, name, properties) {
  const input = element('input', { type: 'number', id, autocomplete: 'off', ...properties });
  const note = element('p', { className: 'note', id: `${id}-note` });
  const error = element('p', { className: 'field-error', id: `${id}-error`, role: 'alert' });
  input.setAttribute('aria-describedby', `${error.id} ${note.id}`);
  return { root: element('div', { className: 'field' }, element('label', { htmlFor: id }, name), input, error, note), input, note, error };
}

export class SettingsDialog {
  #of;
  #button = element('button', { type: 'button', id: 'open-settings', ariaHasPopup: 'dialog' });
  #system = element('textarea', { id: 'system', rows: 5, dir: 'auto', maxLength: MOST_SYSTEM, placeholder: say('What the model is told before the conversation') });
  #temperature = numberField('temperature', say('Temperature'), { min: '0', max: String(HOTTEST), step: 'any', inputMode: 'decimal' });
  #length = numberField('max-tokens', say('Longest answer, in tokens'), { min: '1', max: String(MOST_TOKENS), step: '1', inputMode: 'numeric' });
  #always = element('input', { type: 'checkbox', id: 'settings-always' });
  #form;
  #dialog = element('dialog', { className: 'settings', id: 'settings' });
  #wasUsual = false;

  /**
   * @param {object} of
   * @param {() => {settings: Settings, usual: Settings}} of.read those of this conversation, and of new ones
   * @param {(settings: Settings, usual?: Settings) => void} of.take
   * @param {() => Model|undefined} of.model the chosen one
   */
  constructor(of) {
    this.#of = of;
    this.#button.append(icon(SLIDERS));
    byId('files', HTMLInputElement).after(this.#button);
    const button = (/** @type {string} */ name, /** @type {() => void} */ onclick) => element('button', { type: 'button', className: 'quiet', onclick }, name);
    this.#form = element('form', { noValidate: true, autocomplete: 'off' },
      element('h2', { id: 'settings-title' }, say('Settings of this conversation')),
      element('p', { className: 'note' }, say('They are sent with each question from now on. What is empty is left to the model.')),
      element('div', { className: 'field' }, element('label', { htmlFor: 'system' }, say('System prompt')), this.#system),
      element('div', { className: 'fields' }, this.#temperature.root, this.#length.root),
      element('label', { className: 'check' }, this.#always, element('span', {}, say('For new conversations too, in this browser'))),
      element('div', { className: 'settings-foot' }, button(say('Empty all'), () => this.#empty()),
        button(say('Cancel'), () => this.#dialog.close()), element('button', { type: 'submit', className: 'primary' }, say('Use these settings'))));
    this.#dialog.append(this.#form);
    this.#dialog.setAttribute('aria-labelledby', 'settings-title');
    this.#dialog.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') event.stopPropagation(); // it closes this, and stops nothing else
    });
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    document.body.append(this.#dialog);
    this.#button.addEventListener('click', () => this.open());
    this.tell();
  }

  /** Say which are set. */
  tell() {
    const { settings } = this.#of.read();
    const { system, temperature, max_tokens } = settings;
    const set = [
      ...(system ? [say('a system prompt')] : []),
      ...(temperature === undefined ? [] : [say('temperature {value}', { value: temperature })]),
      ...(max_tokens === undefined ? [] : [say('at most {tokens} tokens', { tokens: number(max_tokens) })]),
    ];
    this.#button.title = this.#button.ariaLabel = set.length ? say('Settings: {set}', { set: set.join(say(', ')) }) : say('Settings');
    this.#button.classList.toggle('set', set.length > 0);
  }

  open() {
    if (this.#dialog.open) return;
    const { settings, usual } = this.#of.read();
    this.#wasUsual = isSet(usual) && areSame(settings, usual);
    this.#always.checked = this.#wasUsual;
    this.#show(settings);
    const model = this.#of.model();
    const lists = model?.parameters?.includes('max_tokens'); // else what a host says of a model is not all
    this.#temperature.note.textContent = lists && !model?.parameters?.includes('temperature')
      ? say('{model} does not say that it takes one.', { model: model?.id ?? '' }) : say('From 0, the likeliest words, to 2.');
    this.#length.note.textContent = model?.longest ? say('{model} gives at most {tokens}.', { model: model.id, tokens: number(model.longest) })
      : say('An answer that is longer is cut off there.');
    this.#dialog.showModal();
    this.#system.focus();
  }

  /** @param {{system?: string, temperature?: number|string, max_tokens?: number|string}} settings */
  #show({ system = '', temperature = '', max_tokens = '' }) {
    this.#system.value = system;
    this.#temperature.input.value = String(temperature);
    this.#length.input.value = String(max_tokens);
    for (const field of [this.#temperature, this.#length]) this.#refuse(field, '');
  }

  #empty() {
    this.#show({});
    this.#system.focus();
  }

  /** @param {Field} field @param {string} problem */
  #refuse({ input, error }, problem) {
    error.textContent = problem;
    input.ariaInvalid = String(problem !== '');
  }

  #submit() {
    const [hot, long] = [this.#temperature, this.#length];
    this.#refuse(hot, hot.input.validity.valid ? '' : say('A temperature is a number from 0 to 2.'));
    this.#refuse(long, long.input.validity.valid ? '' : say('A length is a whole number, 1 or more.'));
    const wrong = [hot, long].find(({ input }) => !input.validity.valid);
    if (wrong) return wrong.input.focus();
    /** @param {HTMLInputElement} input */
    const given = ({ value, valueAsNumber }) => (value === '' ? undefined : valueAsNumber);
    const settings = settingsOf({ system: this.#system.value.trim(), temperature: given(hot.input), max_tokens: given(long.input) });
    const usual = this.#always.checked ? settings : this.#wasUsual ? {} : undefined;
    this.#of.take(settings, usual);
    this.tell();
    tell(say('The next question is asked with these settings'));
    this.#dialog.close();
  }
}
