/**
 * Keeps a scroller at its end while it grows, as long as the reader is there.
 *
 * A step up, however small, lets go; coming back to the end takes hold again. In a low window the
 * style lets the scroller grow, and the page is what scrolls.
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

  const keep = () => {
    if (!held || scheduled || (scroller.id === 'scroller' && !scroller.querySelector('.message'))) return; // one layout a frame, not one an event; a low window opens at its top
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      if (!held) return;
      const scrolled = box();
      scrolled.scrollTop = lastHeight = scrolled.scrollHeight;
      lastTop = scrolled.scrollTop; // what has become shorter moves it up, and not the reader
    });
  };
  new ResizeObserver(() => {
    if (!held) look(); // all of it may have room now
    keep();
  }).observe(scroller);
  return {
    /** Call after content was added. */
    keep,
    /** Go to the end, wherever the reader is. */
    jump() {
      held = true;
      keep();
    },
  };
}
