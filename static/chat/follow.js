/**
 * Keep a scroller at its end while it grows, as long as the reader is there.
 *
 * A step up, however small, lets go; coming back to the end takes hold again. Where the window is
 * too low for a scroller of its own, its style lets it grow, and the page is what scrolls.
 *
 * @param {HTMLElement} scroller
 * @param {(held: boolean) => void} [onHold] told when the reader leaves the end, and comes back
 * @param {() => boolean} [grows] false while it holds something that is read from its beginning
 */
export function follow(scroller, onHold = () => {}, grows = () => true) {
  let held = true;
  let lastTop = 0;
  let lastHeight = 0;
  /** @type {Element|null} */
  let lastBox = null;
  let scheduled = false;
  const box = () => (getComputedStyle(scroller).overflowY === 'visible' ? document.documentElement : scroller);

  const look = () => {
    const scrolled = box();
    const { scrollTop, scrollHeight, clientHeight } = scrolled;
    if (scrolled !== lastBox) lastTop = 0; // a window that became low, or high again
    lastBox = scrolled;
    const below = scrollHeight - scrollTop - clientHeight;
    // Text that arrived since the last frame also leaves room below, and rows that left above move
    // what is shown: only a move up in a box that is no lower is the reader's.
    const was = held;
    held = scrollTop < lastTop && scrollHeight >= lastHeight ? below < 2 : held || below < 40;
    if (held !== was) onHold(held);
    lastTop = scrollTop;
    lastHeight = scrollHeight;
    // At the end, the browser must not hold on to a row that is about to leave.
    scroller.style.overflowAnchor = held ? 'none' : 'auto';
  };
  scroller.addEventListener('scroll', look, { passive: true });
  document.addEventListener('scroll', () => { if (box() !== scroller) look(); }, { passive: true });

  const toEnd = () => {
    scheduled = false;
    if (!held || !grows()) return;
    const scrolled = box();
    scrolled.scrollTop = scrolled.scrollHeight;
  };
  const keep = () => {
    if (!held || scheduled) return; // one layout a frame, not one an event
    scheduled = true;
    requestAnimationFrame(toEnd);
  };
  new ResizeObserver(() => {
    if (!held) look(); // there may be room for all of it now
    keep(); // what stands below it may have grown
  }).observe(scroller);
  return {
    /** Call after content was added. */
    keep,
    /** Go to the end whatever the reader is looking at. */
    jump() {
      if (!held) onHold(held = true);
      keep();
    },
    /** Go to its beginning, where what it held is there no more. */
    begin() {
      if (!held) onHold(held = true);
      box().scrollTop = lastTop = 0;
    },
  };
}
