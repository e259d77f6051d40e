/** The prompts on the welcome screen. */

import { byId, element } from '../dom.js';
import { model } from './composer.js';
import { PROMPTS } from './prompts.js';

/** Offer those whose model there is. @param {(text: string) => void} ask */
export function offerPrompts(ask) {
  const known = new Set([...model.options].map(({ value }) => value));
  byId('prompts', HTMLElement).replaceChildren();
  for (const { model: wanted, text, lang } of PROMPTS) {
    if (!known.has(wanted)) continue;
    const words = element('span', { className: 'words' }, text);
    if (lang) words.lang = lang;
    const button = element('button', { type: 'button' }, words, element('span', { className: 'for-model' }, wanted));
    button.addEventListener('click', () => {
      model.value = wanted;
      ask(text);
    });
    byId('prompts', HTMLElement).append(element('li', {}, button));
  }
}
