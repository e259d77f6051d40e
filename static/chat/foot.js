/**
 * The foot of an answer that has ended: what it took, and what can be done with it.
 */

import { saveCassette } from '../cassette.js';
import { element } from '../dom.js';
import { copyText } from './clipboard.js';
import { figures } from './figures.js';
import { say } from './language.js';

/** @typedef {Parameters<typeof figures>[0]} Known */

const SAID_MS = 2500;

/**
 * Make a button that says for a while how it went.
 * @param {string} name
 * @param {string} className
 * @param {() => Promise<string>} act gives what to say; what it throws is said beside
 * @param {HTMLElement} beside
 */
export function actionButton(name, className, act, beside) {
  const button = element('button', { type: 'button', className: `quiet ${className}` }, name);
  let back = 0;
  button.addEventListener('click', async () => {
    clearTimeout(back);
    beside.textContent = '';
    try {
      button.textContent = await act();
      back = setTimeout(() => { button.textContent = name; }, SAID_MS);
    } catch (error) {
      button.textContent = name;
      beside.textContent = /** @type {Error} */ (error).message;
    }
  });
  return button;
}

/** Copy for a button. @param {string} text */
export function copying(text) {
  return copyText(text).then(() => say('Copied'), () => { throw new Error(say('The browser did not allow copying')); });
}

/**
 * Make the foot of an answer.
 * @param {Known & {text: string, stream: string|null}} answer
 */
export function makeFoot({ text, stream, ...known }) {
  const told = figures(known);
  const problem = element('p', { className: 'refused', role: 'alert' });
  const buttons = [
    ...(text ? [actionButton(say('Copy'), 'copy-answer', () => copying(text), problem)] : []),
    ...(stream ? [actionButton(say('Save as cassette'), 'save-cassette', async () => {
      await saveCassette(new URL(`v1/streams/${stream}`, document.baseURI).href).catch((error) => {
        throw new Error(say('Not saved: {problem}', { problem: error.message }));
      });
      return say('Saved');
    }, problem)] : []),
  ];
  return element('div', { className: 'answer-foot' },
    ...(told.length ? [element('ul', { className: 'usage', ariaLabel: say('What this answer took') },
      ...told.map(({ text: words, about }) => element('li', { title: about }, words)))] : []),
    element('div', { className: 'answer-buttons' }, ...buttons), problem);
}
