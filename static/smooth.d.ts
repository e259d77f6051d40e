/** The types of smooth.js, written by hand. */

/**
 * Text that comes in bursts, painted at an even pace and in whole characters. Where motion is to be
 * reduced, where nobody looks, and outside of browsers it paints what there is.
 */
export class Smooth {
  /** `paint` is given all the text that is to be seen now; it lags behind by about `lagMs`, 250. 0 paints at once. */
  constructor(paint: (text: string) => void, options?: { lagMs?: number });
  /** Add to the text. */
  push(text: string): void;
  /** Give the whole text so far; one that does not go on from the last is painted at once. */
  set(text: string): void;
  /** Wait until all of it is painted. */
  end(): Promise<void>;
  /** Paint no more. */
  stop(): void;
}
