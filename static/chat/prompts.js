/**
 * The prompts that the welcome screen suggests, in the page's language, and what runs elsewhere.
 */

import { byId, element } from '../dom.js';
import { storedKey } from '../key.js';
import { listStreams } from '../seseragi.js';
import { LANGUAGE, moment, say } from './language.js';
import { STREAMS_URL } from './transports.js';

const ENGLISH = [
  { model: 'demo', text: 'What is this, and what can I try?' },
  { model: 'demo', text: 'これは何ですか。何を試せますか？' },
  { model: 'demo-reasoning', text: 'Think first: how do I build a page with this?' },
  { model: 'demo-tools', text: 'What is the weather in Tokyo and Kyoto?' },
];

const JAPANESE = [
  { model: 'demo', text: 'これは何ですか。何を試せますか？' },
  { model: 'demo', text: 'What is this, and what can I try?' },
  { model: 'demo-reasoning', text: 'まず考えてください。これで画面を作るには？' },
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

/** Offer the streams that the key's owner has running, from any device. */
export async function offerRunning() {
  const key = storedKey();
  const list = key && await listStreams({ status: 'running', limit: 4, streamsUrl: STREAMS_URL, credential: key }).catch(() => null);
  if (key !== storedKey()) return;
  byId('running', HTMLElement).replaceChildren(...(list ? list.data : []).map(({ stream, model, created }) => element('li', {},
    element('button', { type: 'button', onclick: () => location.replace(`#stream=${stream}`) },
      element('span', { className: 'words' }, say('Running since {time}', { time: moment(new Date(created * 1000)) })), element('span', { className: 'for-model' }, model)))));
}
