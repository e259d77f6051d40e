import { element } from '../dom.js';
import { say } from './language.js';

const SHOWN_MS = 2000; // how long a button shows the result

/**
 * Copy text, also where the page is not served over https and has no clipboard.
 * @param {string} text
 */
export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element('textarea', { value: text, readOnly: true, className: 'hidden' });
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
}

/** Copy text, and return the message for it. @param {string} text */
export function copy(text) {
  return copyText(text).then(() => say('Copied'), () => say('The browser did not allow copying'));
}

/** Make a button that copies a text. @param {string} className @param {() => string} text */
export function copyButton(className, text) {
  const button = element('button', { type: 'button', className: `quiet ${className}` }, say('Copy'));
  button.addEventListener('click', async () => {
    button.textContent = await copy(text());
    setTimeout(() => { button.textContent = say('Copy'); }, SHOWN_MS);
  });
  return button;
}

/**
 * Make a code block with a button that copies it. Its last child takes the code.
 * @param {string} info the language, and perhaps more
 * @param {string} [text]
 */
export function makeCode(info, text = '') {
  const [language] = info.split(/[\s{]/);
  const code = element('code', {}, text);
  const button = element('button', { type: 'button', className: 'copy', ariaLabel: say('Copy the code'), data: { label: say('Copy') } }); // its words are CSS: no text of the answer
  button.onclick = async () => {
    button.ariaLabel = button.dataset.label = await copy(code.textContent ?? '');
    setTimeout(() => {
      button.ariaLabel = say('Copy the code');
      button.dataset.label = say('Copy');
    }, SHOWN_MS);
  };
  return element('pre', { tabIndex: 0, role: 'group', ariaLabel: `${say('Code')} ${info}`.trim(), lang: 'en', dir: 'ltr', data: { language } }, button, code);
}
