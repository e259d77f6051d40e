/**
 * The prompts that the welcome screen suggests, in the page's language.
 */

import { LANGUAGE } from './language.js';

/** @typedef {{model: string, text: string, lang?: string}} Prompt */

const ENGLISH = [
  { model: 'demo', text: 'How do server-sent events work?' },
  { model: 'demo', text: 'What can Seseragi do that a plain fetch cannot?' },
  { model: 'demo', text: 'せせらぎについて、絵文字もまじえて教えてください。', lang: 'ja' },
  { model: 'demo-reasoning', text: 'A farmer, a wolf, a goat and a cabbage: how do they cross the river?' },
  { model: 'demo-tools', text: 'What is the weather in Tokyo and Kyoto?' },
  { model: 'demo-slow', text: 'Take your time: what makes a stream murmur?' },
  { model: 'demo-drop', text: 'Lose the connection in the middle.' },
  { model: 'demo-long', text: 'Tell me a long story about a river.' },
];

const JAPANESE = [
  { model: 'demo', text: 'サーバー送信イベントはどのように動きますか？' },
  { model: 'demo', text: 'ただの fetch と何が違いますか？' },
  { model: 'demo', text: 'What does “seseragi” mean? Use emoji.', lang: 'en' },
  { model: 'demo-reasoning', text: '農夫とオオカミとヤギとキャベツは、どうやって川を渡りますか？' },
  { model: 'demo-tools', text: '東京と京都の天気は？' },
  { model: 'demo-slow', text: 'ごゆっくり。川はなぜせせらぐのでしょう？' },
  { model: 'demo-drop', text: '途中で途切れる答えを見せてください。' },
  { model: 'demo-long', text: '川の長い物語を聞かせてください。' },
];

/** @type {Prompt[]} */
export const PROMPTS = LANGUAGE === 'ja' ? JAPANESE : ENGLISH;

/** What the show asks. */
export const RIVER = LANGUAGE === 'ja' ? '源から海まで、川の流れを一行ずつたどってください。' : 'Follow a river from its source to the sea, line by line.';
