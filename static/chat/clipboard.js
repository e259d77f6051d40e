import { element } from '../dom.js';

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
