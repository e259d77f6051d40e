/**
 * Characters that turn the direction of what follows them (Unicode's Bidi_Control), in text of a
 * model: each is an isolate of its own, so that text is shown in the order in which it stands.
 * In code a mark shows where one is. Copied text has it still.
 */

import { element } from '../dom.js';

const ALL = /(\p{Bidi_Control})/u;

/**
 * Add text at the end of an element.
 * @param {Node & {append: (...nodes: Node[]) => void}} place
 * @param {Text|null} node the text that it ends with, if what comes may be added to that
 * @param {string} text
 * @returns {Text|null} the text that it ends with now
 */
export function write(place, node, text) {
  for (const [at, part] of text.split(ALL).entries()) {
    if (at % 2) {
      const code = `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
      place.append(element('bdi', { data: { code } }, part));
      node = null;
    } else if (part && node) {
      node.appendData(part);
    } else if (part) {
      node = document.createTextNode(part);
      place.append(node);
    }
  }
  return node;
}

/** JSON that shows them by their escapes. @param {string} json */
export const escaped = (json) => json.replace(/\p{Bidi_Control}/gu, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
