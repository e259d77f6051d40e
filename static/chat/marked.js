/**
 * Translates the texts of index.html before the first paint.
 *
 * `data-say` marks an element whose text is translated; its value names attributes that are
 * translated too: `data-say="placeholder"`. Texts are looked up as they stand, spaces included.
 */

import { LANGUAGE, say } from './language.js';

document.documentElement.lang = LANGUAGE;
for (const marked of document.querySelectorAll('[data-say]')) {
  for (const node of marked.childNodes) if (node instanceof Text && node.data.trim()) node.data = say(node.data);
  for (const name of marked.getAttribute('data-say')?.split(' ') ?? []) {
    if (name) marked.setAttribute(name, say(marked.getAttribute(name) ?? ''));
  }
}
