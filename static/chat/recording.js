/**
 * The events of one stream with their arrival times, and where the connection was lost. No I/O.
 */

/** @typedef {{number: number, id: string, type: string, at_ms: number, gap_ms: number, data: string}} Entry */
/** @typedef {{at: number, resumed: number, lost_ms: number, away_ms: number, reload?: boolean}} Cut `resumed` is 0 while it is away */

const encoder = new TextEncoder();

export class Recording {
  /** @type {Entry[]} */
  entries = [];
  /** @type {Cut[]} */
  cuts = [];
  bytes = 0;
  deltas = 0;
  firstDelta = 0;
  lastDelta = 0;
  /** The last event before the page was reloaded, and when that was, by `Date.now()`. @type {{number: number, at: number}|null} */
  before = null;
  /** When the request was sent, on the clock of `performance.now()`. */
  sentAt = performance.now();

  /** The number of the last event. */
  get last() {
    return this.entries.at(-1)?.number ?? 0;
  }

  /** @param {{id: string, type: string, data: string}} frame @param {number} [at] */
  receive({ id, type, data }, at = performance.now() - this.sentAt) {
    const number = Number(/\.[a-z]?(\d+)$/.exec(id)?.[1] ?? this.last + 1);
    const gap = at - (this.entries.at(-1)?.at_ms ?? 0);
    const cut = this.cuts.at(-1);
    if (cut && !cut.resumed) Object.assign(cut, { resumed: number, away_ms: cut.away_ms || at - cut.lost_ms });
    if (this.before && number === this.before.number + 1) {
      this.cuts.push({ at: number - 1, resumed: number, lost_ms: at, away_ms: Date.now() - this.before.at, reload: true });
    }
    this.entries.push({ number, id, type, at_ms: at, gap_ms: gap, data });
    this.bytes += encoder.encode(data).length;
    if (!/delta|chunk/i.test(type)) return;
    this.deltas += 1;
    this.firstDelta ||= at;
    this.lastDelta = at;
  }

  /** The connection was lost. */
  lost() {
    if (!this.last || this.cuts.at(-1)?.resumed === 0) return;
    this.cuts.push({ at: this.last, resumed: 0, lost_ms: performance.now() - this.sentAt, away_ms: 0 });
  }

  /** There is a connection again. */
  back() {
    const cut = this.cuts.at(-1);
    if (cut && !cut.resumed) cut.away_ms = performance.now() - this.sentAt - cut.lost_ms;
  }

  /** The events as JSON, with their times. */
  toJSON() {
    return this.entries.map(({ id, at_ms, gap_ms, data }) => ({ id, at_ms: Number(at_ms.toFixed(1)), gap_ms: Number(gap_ms.toFixed(1)), event: data.startsWith('{') ? JSON.parse(data) : data }));
  }
}
