/**
 * The prompts that the welcome screen suggests, in the page's language.
 */

import { byId, element } from '../dom.js';
import { LANGUAGE } from './language.js';

const ENGLISH = [
  { model: 'demo', text: 'What can Seseragi do that a plain fetch cannot?' },
  { model: 'demo', text: 'How do server-sent events work?' },
  { model: 'demo-reasoning', text: 'A farmer, a wolf, a goat and a cabbage: how do they cross the river?' },
  { model: 'demo-tools', text: 'What is the weather in Tokyo and Kyoto?' },
];

const JAPANESE = [
  { model: 'demo', text: 'ただの fetch と何が違いますか？' },
  { model: 'demo', text: 'サーバー送信イベントはどのように動きますか？' },
  { model: 'demo-reasoning', text: '農夫とオオカミとヤギとキャベツは、どうやって川を渡りますか？' },
  { model: 'demo-tools', text: '東京と京都の天気は？' },
];

export const PROMPTS = LANGUAGE === 'ja' ? JAPANESE : ENGLISH;

/** What the show asks. */
export const RIVER = LANGUAGE === 'ja' ? '源から海まで、川の流れを一行ずつたどってください。' : 'Follow a river from its source to the sea, line by line.';

/** Offer the prompts whose models exist. @param {Set<string>} models @param {(text: string, model: string) => void} ask */
export function offerPrompts(models, ask) {
  byId('prompts', HTMLElement).replaceChildren(...PROMPTS.filter(({ model }) => models.has(model)).map(({ model, text }) => element('li', {},
    element('button', { type: 'button', onclick: () => ask(text, model) },
      element('span', { className: 'words' }, text), element('span', { className: 'for-model' }, model)))));
}
