/**
 * Parts of an answer that fold: open while they come, closed after, unless the reader says otherwise.
 */

import { element } from '../dom.js';

/**
 * @param {string} className
 * @param {...(Node|string)} title
 */
export function makeFold(className, ...title) {
  const summary = element('summary', {}, ...title);
  const root = element('details', { className, open: true }, summary);
  let chosen = false;
  // Told before the state changes; `toggle` comes later, and for changes by script too.
  summary.addEventListener('click', () => { chosen = true; });
  return {
    root,
    summary,
    end: () => {
      if (!chosen && !root.contains(document.activeElement)) root.open = false;
      chosen = true; // it has folded once
    },
  };
}
