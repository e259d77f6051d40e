/**
 * The field for the question, and the choice of the model and the transport.
 */

import { byId } from '../dom.js';

export const prompt = byId('prompt', HTMLTextAreaElement);
export const model = byId('model', HTMLSelectElement);
export const transport = byId('transport', HTMLSelectElement);

function fit() {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight}px`;
}

/**
 * Submit the question by the button or by Enter.
 * @param {(text: string) => boolean} take returns false if it cannot be asked now: then it stays
 */
export function onSubmit(take) {
  const form = byId('composer', HTMLFormElement);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = prompt.value.trim();
    if (!text || !take(text)) return;
    prompt.value = '';
    fit();
  });
  byId('send', HTMLButtonElement).disabled = false; // before this, the browser would load the page again
  fit();
  prompt.addEventListener('input', fit);
  prompt.addEventListener('keydown', (event) => {
    // While Japanese is being converted, Enter takes the conversion. Safari ends the composition
    // before this event and tells only by the key code.
    const converting = event.isComposing || event.keyCode === 229;
    if (event.key !== 'Enter' || event.shiftKey || converting) return;
    event.preventDefault();
    form.requestSubmit();
  });
}

/** Focus the field, unless the focus is elsewhere on the page, or a phone would show its keyboard. */
export function focusField() {
  const { activeElement: focused } = document;
  if (focused && focused !== document.body && focused.checkVisibility()) return;
  if (matchMedia('(pointer: coarse)').matches || getSelection()?.isCollapsed === false) return;
  prompt.focus({ preventScroll: true });
}
