/**
 * What a question is written in, and what it is asked with: the field, the model, the transport.
 */

import { byId } from '../dom.js';

export const prompt = byId('prompt', HTMLTextAreaElement);
export const model = byId('model', HTMLSelectElement);
export const transport = byId('transport', HTMLSelectElement);

const DRAFT = 'seseragi.draft'; // what is written and not sent, for a reload

/** Put a text into the field. @param {string} text */
export function write(text) {
  prompt.value = text;
  changed();
}

function changed() {
  fit();
  try {
    if (prompt.value) sessionStorage.setItem(DRAFT, prompt.value);
    else sessionStorage.removeItem(DRAFT);
  } catch {
    // Full or forbidden: it is not there after a reload.
  }
}

/** What was written before the page was loaded again. */
function draft() {
  try {
    return sessionStorage.getItem(DRAFT) ?? '';
  } catch {
    return '';
  }
}

function fit() {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight}px`;
}

/**
 * Take what is written, when it is sent.
 * @param {(text: string) => boolean} take given "" too, for files without a word; false where it cannot be taken now: then it stays
 */
export function onSubmit(take) {
  const submit = () => {
    const text = prompt.value.trim();
    if (take(text)) write('');
  };
  byId('composer', HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  byId('send', HTMLButtonElement).disabled = false; // before this, the browser would load the page again
  write(prompt.value || draft()); // something may have been written meanwhile
  prompt.addEventListener('input', changed);
  sendsOnEnter(prompt, submit);
}

/** Have Enter send what is in a field. @param {HTMLTextAreaElement} field @param {() => void} submit */
export function sendsOnEnter(field, submit) {
  field.addEventListener('keydown', (event) => {
    // While Japanese is being converted, Enter takes the conversion. Safari ends the composition
    // before this event and tells only by the key code.
    const converting = event.isComposing || event.keyCode === 229;
    if (event.key !== 'Enter' || event.shiftKey || converting) return;
    event.preventDefault();
    submit();
  });
}

/** Go to the field, unless somebody is elsewhere on the page, or it would bring up a keyboard. */
export function focusField() {
  const { activeElement: focused } = document;
  if (focused && focused !== document.body && focused.checkVisibility()) return;
  if (matchMedia('(pointer: coarse)').matches || getSelection()?.isCollapsed === false) return;
  prompt.focus({ preventScroll: true });
}
