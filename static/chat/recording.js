/**
 * The events of one answer with the times at which they came here, and where the connection was
 * lost. The events themselves can be read again from the relay; the times cannot, and are kept in
 * sessionStorage in a short form.
 */

/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {{number: number, id: string, type: string, at_ms: number, gap_ms: number, data: string}} Entry `at_ms` is NaN where it is not known */
/** @typedef {{at: number, resumed: number, lost_ms: number, away_ms: number, reload: boolean}} Cut `resumed` is 0 while it is away */
/** @typedef {{sent: number, gaps: string, cuts: Cut[]}} Times */

const KEY = 'seseragi.times';
const STREAMS_KEPT = 30;
const MOST_KEPT = 60_000; // characters of gaps in one stream: some 20,000 events

const encoder = new TextEncoder();

export class Recording {
  /** @type {Entry[]} */
  entries = [];
  /** @type {Cut[]} */
  cuts = [];
  stream = '';
  bytes = 0;
  deltas = 0;
  firstDelta = 0;
  lastDelta = 0;
  /** What has to be said of how these events were had. */
  note = '';
  /** When the request was sent, on the clock of `performance.now()`. */
  sentAt = performance.now();

  /** Whether there are times. */
  get timed() {
    return !Number.isNaN(this.entries.at(-1)?.at_ms ?? 0);
  }

  /**
   * @param {Received} received
   * @param {number} [at] when it came; now, if nothing is said
   */
  receive({ id, event: { type }, data }, at = performance.now() - this.sentAt) {
    const number = Number(/\.[a-z]?(\d+)$/.exec(id)?.[1] ?? this.entries.length + 1);
    this.stream ||= id.slice(0, id.lastIndexOf('.'));
    const gap = at - (this.entries.at(-1)?.at_ms ?? 0);
    const cut = this.cuts.at(-1);
    if (cut && !cut.resumed) Object.assign(cut, { resumed: number, away_ms: cut.away_ms || at - cut.lost_ms });
    this.#count({ number, id, type, at_ms: at, gap_ms: gap, data });
  }

  /** @param {Entry} entry */
  #count(entry) {
    this.entries.push(entry);
    this.bytes += encoder.encode(entry.data).length;
    if (!entry.type.endsWith('.delta') || Number.isNaN(entry.at_ms)) return;
    this.deltas += 1;
    this.firstDelta ||= entry.at_ms;
    this.lastDelta = entry.at_ms;
  }

  /** The connection is away. */
  lost() {
    const at = this.entries.at(-1);
    if (!at || this.cuts.at(-1)?.resumed === 0) return;
    this.cuts.push({ at: at.number, resumed: 0, lost_ms: performance.now() - this.sentAt, away_ms: 0, reload: false });
  }

  /** There is a connection again. @returns {boolean} whether there was none */
  back() {
    const cut = this.cuts.at(-1);
    if (!cut || cut.resumed) return false;
    cut.away_ms = performance.now() - this.sentAt - cut.lost_ms;
    return true;
  }

  /** Put what came before a reload in front. @param {Recording} earlier */
  follows(earlier) {
    const later = this.entries;
    const { cuts } = this;
    const last = earlier.entries.at(-1);
    const first = later[0];
    Object.assign(this, { entries: [], bytes: 0, deltas: 0, firstDelta: 0, lastDelta: 0 });
    this.cuts = [...earlier.cuts.filter(({ resumed }) => resumed)];
    if (last && first && earlier.timed) {
      this.cuts.push({ at: last.number, resumed: first.number, lost_ms: last.at_ms, away_ms: first.at_ms - last.at_ms, reload: true });
      first.gap_ms = first.at_ms - last.at_ms;
    }
    this.cuts.push(...cuts);
    for (const entry of [...earlier.entries, ...later]) this.#count(entry);
  }

  /** The events as JSON, with their times. */
  toJSON() {
    return this.entries.map(({ id, at_ms, gap_ms, data }) => ({ id, at_ms: rounded(at_ms), gap_ms: rounded(gap_ms), event: JSON.parse(data) }));
  }
}

/** @param {number} ms */
function rounded(ms) {
  return Number.isNaN(ms) ? null : Number(ms.toFixed(1));
}

/** @returns {Record<string, Times>} */
function allTimes() {
  try {
    return Object(JSON.parse(sessionStorage.getItem(KEY) ?? '{}'));
  } catch {
    return {};
  }
}

/** Keep the times of a recording for a reload. @param {Recording} recording */
export function keepTimes({ stream, entries, cuts, sentAt, timed }) {
  if (!stream || !timed || entries[0]?.number !== 1) return;
  const gaps = entries.map(({ gap_ms }) => Math.max(0, Math.round(gap_ms)).toString(36)).join(' ');
  const { [stream]: _, ...others } = allTimes();
  const kept = Object.entries(others).slice(1 - STREAMS_KEPT);
  try {
    sessionStorage.setItem(KEY, JSON.stringify(Object.fromEntries([...kept,
      [stream, { sent: Math.round(Date.now() - performance.now() + sentAt), gaps: gaps.slice(0, MOST_KEPT), cuts: cuts.slice(-100) }]])));
  } catch {
    // Full or forbidden: the events are then listed without times.
  }
}

/** Forget all that was kept. */
export function forgetTimes() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // Forbidden: there is nothing.
  }
}

/**
 * Find the times of a stream.
 * @param {string} stream
 * @returns {{sentAt: number, at(number: number): number, cuts: Cut[]}|null} `at` is NaN for events that came later
 */
export function timesOf(stream) {
  const { sent, gaps, cuts } = allTimes()[stream] ?? {};
  if (typeof sent !== 'number' || typeof gaps !== 'string' || !Array.isArray(cuts)) return null;
  let sum = 0;
  const times = gaps.split(' ').map((gap) => (sum += Number.parseInt(gap, 36)));
  return { sentAt: sent - Date.now() + performance.now(), at: (number) => times[number - 1] ?? NaN, cuts };
}
