/**
 * Put the page's own texts into its language, before it is first painted.
 *
 * An element marked `data-say` has texts of the page between its tags; a value names attributes
 * that are texts too: `data-say="placeholder"`. A text is looked up as it stands, spaces included.
 */

import { LANGUAGE, say } from './language.js';

document.documentElement.lang = LANGUAGE;
for (const marked of document.querySelectorAll('[data-say]')) {
  for (const node of marked.childNodes) if (node instanceof Text && node.data.trim()) node.data = say(node.data);
  for (const name of marked.getAttribute('data-say')?.split(' ') ?? []) {
    if (name) marked.setAttribute(name, say(marked.getAttribute(name) ?? ''));
  }
}
