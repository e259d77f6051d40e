/**
 * The page's ways to touch the document. Text goes in as text: nothing here parses markup.
 */

/**
 * Make an element. Properties are set as properties, `data` as data attributes, `aria*` reflect by name.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any> & {data?: Record<string, string>}} [properties]
 * @param {...(Node|string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, { data = {}, ...properties } = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  Object.assign(made.dataset, data);
  made.append(...children);
  return made;
}

/**
 * Get an element of the page that must be there.
 * @template {Element} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/**
 * Keep a scroller at its end while it grows, as long as the reader is there.
 *
 * A step up, however small, lets go; coming back to the end takes hold again. Where the window is
 * too low for a scroller of its own, its style lets it grow, and the page is what scrolls.
 *
 * @param {HTMLElement} scroller
 */
export function follow(scroller) {
  let held = true;
  let lastTop = 0;
  let lastHeight = 0;
  let scheduled = false;
  const box = () => (getComputedStyle(scroller).overflowY === 'visible' ? document.documentElement : scroller);

  const look = () => {
    const { scrollTop, scrollHeight, clientHeight } = box();
    const below = scrollHeight - scrollTop - clientHeight;
    // Text that arrived since the last frame also leaves room below, and rows that left above move
    // what is shown: only a move up in a box that is no lower is the reader's.
    held = scrollTop < lastTop && scrollHeight >= lastHeight ? below < 2 : held || below < 40;
    lastTop = scrollTop;
    lastHeight = scrollHeight;
    // At the end, the browser must not hold on to a row that is about to leave.
    scroller.style.overflowAnchor = held ? 'none' : 'auto';
  };
  scroller.addEventListener('scroll', look, { passive: true });
  document.addEventListener('scroll', () => { if (box() !== scroller) look(); }, { passive: true });

  const toEnd = () => {
    scheduled = false;
    if (!held) return;
    const scrolled = box();
    scrolled.scrollTop = scrolled.scrollHeight;
  };
  const keep = () => {
    if (!held || scheduled) return; // one layout a frame, not one an event
    scheduled = true;
    requestAnimationFrame(toEnd);
  };
  return {
    /** Call after content was added. */
    keep,
    /** Go to the end whatever the reader is looking at. */
    jump() {
      held = true;
      keep();
    },
  };
}

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
