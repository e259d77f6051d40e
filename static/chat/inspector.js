import { copyText } from './clipboard.js';
import { escaped } from './controls.js';
import { byId, element } from '../dom.js';
import { follow } from './follow.js';
import { storedKey } from '../key.js';
import { say } from './language.js';
import { Recording, keepTimes, timesOf } from './recording.js';
import { resume } from '../seseragi.js';
import { STREAMS_URL } from './transports.js';
import { watched } from './watching.js';

/** @typedef {import('../seseragi.js').Received} Received */
/** @typedef {import('./turn.js').Turn} Turn */
/** @typedef {import('./recording.js').Entry} Entry */
/** @typedef {import('./recording.js').Cut} Cut */

const SHOWN = 500; // rows in the document; all events stay in memory for the filter and for copying
const ROWS_A_FRAME = 60; // a burst is listed over some frames,
const BEHIND_MS = 50; // with frames between them that are the chat's alone
const WIDEST_BAR = 4; // pixels from one bar of the cadence to the next, while there is room
const NARROWEST_BAR = 1;
const LABEL = 12; // pixels above the bars, for what a cut is labelled with
const SLOWEST_MS = 3000; // the gap of a full bar
const IN_MEMORY = 50_000; // events of answers that are not shown; others are read again

/**
 * The list of a stream's events beside the chat, with what can be measured at this end: of the
 * answer that runs, or of the one that was chosen.
 *
 * Rows, figures and bars are drawn once a frame, with what came since the last. Rows are only ever
 * appended, and the oldest leave, so that thousands of events cost the same as ten.
 */
export class Inspector {
  #live = new Recording();
  #shown = this.#live;
  /** @type {Map<string, Recording>} by their streams, the one that was looked at last at the end */
  #recordings = new Map();
  #answers;
  /** @type {import('../seseragi.js').ChatStream|null} what is being read again */
  #again = null;
  #listed = 0; // how many of the entries have been looked at for the list
  #listedCuts = 0;
  #matching = 0;
  #drawing = false;
  #width = 0;
  #height = 0;

  #list = byId('events', HTMLOListElement);
  #note = byId('events-note', HTMLElement);
  #filter = byId('filter', HTMLInputElement);
  #canvas = byId('cadence', HTMLCanvasElement);
  #count = byId('view-count', HTMLElement);
  #end = follow(byId('rows', HTMLElement));
  #stats = Object.fromEntries([...byId('stats', HTMLElement).querySelectorAll('dd')].map((dd) => [dd.dataset.stat, dd]));
  #choice = element('select', { id: 'events-of', hidden: true, ariaLabel: say('The answer whose events are listed') });

  /** @param {() => Turn[]} answers what can be chosen */
  constructor(answers = () => []) {
    this.#answers = answers;
    this.#filter.addEventListener('input', () => this.#relist());
    // `toggle` does not bubble; the payload is laid out only when a row is opened.
    this.#list.addEventListener('toggle', ({ target }) => this.#open(target), true);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    new ResizeObserver(() => this.#measure()).observe(this.#canvas);
    this.#filter.before(this.#choice);
    this.#choice.addEventListener('change', () => this.#choose(Number(this.#choice.value)));
    byId('log', HTMLElement).addEventListener('click', ({ target }) => this.#chosenBy(target));
    addEventListener('pagehide', () => this.#keep());
  }

  /** A request is being sent now. */
  begin() {
    this.#store();
    this.#live = new Recording();
    this.#show(this.#live);
    this.#note.textContent = say('Waiting for the first event…');
  }

  /** After a reload: show the last answer's events again, unless one is being read. */
  lookBack() {
    const last = this.#answers().findLastIndex(({ kept }) => kept.stream);
    if (last >= 0 && !this.#live.stream) this.#choose(last);
  }

  /** Another conversation is shown. */
  leave() {
    this.#store();
    this.#live = new Recording();
    this.#show(this.#live);
    this.#note.textContent = say('Each event of the next answer is listed here.');
  }

  clear() {
    this.#show(this.#shown === this.#live ? this.#live = new Recording() : new Recording());
    this.#note.textContent = say('Each event of the next answer is listed here.');
  }

  /** @param {Received} received */
  receive(received) {
    const first = this.#live.entries.length === 0;
    this.#live.receive(received);
    if (first) {
      const [{ number }] = this.#live.entries;
      this.offer();
      if (number > 1) this.#readBefore(this.#live, number);
    }
    this.#later();
  }

  /** The connection is another now. @param {import('../seseragi.js').ReadyState} state */
  connection(state) {
    if (state === 'reconnecting') this.#live.lost();
    else if (state !== 'open' || !this.#live.back()) return;
    this.#later();
  }

  /** The answer is over. @param {string} [problem] why there are no events */
  end(problem) {
    if (this.#live.entries.length === 0) this.#note.textContent = problem ?? say('No events.');
    this.#store();
    this.#draw();
  }

  /** All events as JSON, with their times. */
  toJSON() {
    return this.#shown.toJSON();
  }

  copy() {
    return copyText(JSON.stringify(this, null, 2));
  }

  /** Keep the times for a reload, unless it is somebody else's stream. */
  #keep() {
    if (!watched) keepTimes(this.#live);
  }

  /** Keep what was read, and forget the oldest of it. */
  #store() {
    const { stream } = this.#live;
    if (!stream) return;
    this.#keep();
    this.#recordings.delete(stream);
    this.#recordings.set(stream, this.#live);
    let events = 0;
    for (const [name, { entries }] of [...this.#recordings].reverse()) {
      events += entries.length;
      if (events > IN_MEMORY && name !== stream) this.#recordings.delete(name);
    }
  }

  /** List the answers, if there is a choice. */
  offer() {
    const turns = this.#answers();
    const running = this.#live.stream;
    this.#choice.replaceChildren(...turns.map(({ kept, answer }, at) => element('option', { value: String(at), disabled: !kept.stream && answer.status !== 'streaming' },
      `${at + 1}. ${kept.prompt || say('Another tab’s answer')}`.slice(0, 80))));
    this.#choice.hidden = turns.length < 2;
    const shown = turns.findLastIndex(({ kept }) => kept.stream === this.#shown.stream);
    this.#choice.value = String(shown < 0 && this.#shown.stream === running ? turns.length - 1 : shown);
    for (const [at, { answer }] of turns.entries()) answer.article.toggleAttribute('data-inspected', turns.length > 1 && String(at) === this.#choice.value);
  }

  /** Choose an answer by a click on it, unless that was meant for something in it. @param {EventTarget|null} target */
  #chosenBy(target) {
    if (!(target instanceof Element) || target.closest('a, button, input, summary, pre, img') || !getSelection()?.isCollapsed) return;
    const article = target.closest('.message.assistant');
    const at = this.#answers().findIndex(({ answer }) => answer.article === article);
    if (at >= 0) this.#choose(at);
  }

  /** @param {number} at */
  #choose(at) {
    const turn = this.#answers()[at];
    const stream = turn?.kept.stream;
    if (!stream || stream === this.#shown.stream) return;
    const known = stream === this.#live.stream ? this.#live : this.#recordings.get(stream);
    if (known) return this.#show(known);
    const recording = new Recording();
    recording.stream = stream;
    recording.note = say('Reading them again from the relay…');
    this.#show(recording);
    this.#readAgain(recording, stream, Infinity).then(() => {
      recording.note = recording.timed ? '' : say('Read again from the relay. When each came is not kept.');
      this.#recordings.set(stream, recording);
    }, (error) => {
      if (recording !== this.#shown) return;
      const again = new Recording();
      again.stream = stream;
      for (const event of turn.latest) again.receive({ id: '', event, data: JSON.stringify(event) }, NaN);
      const reason = [404, 410].includes(error.status) ? say('The relay does not keep this stream any more.') : say('It could not be read again: {reason}.', { reason: error.message });
      again.note = `${reason} ${say('This is what the page has kept, its pieces joined.')}`;
      this.#show(again);
    }).finally(() => this.#later());
  }

  /** After a reload: find what came before it. @param {Recording} recording @param {number} number the first event that is there */
  #readBefore(recording, number) {
    const earlier = new Recording();
    const times = timesOf(recording.stream);
    if (times) {
      // The clock of the page has begun anew.
      const moved = recording.sentAt - times.sentAt;
      recording.sentAt = times.sentAt;
      for (const entry of recording.entries) entry.at_ms += moved;
    }
    this.#readAgain(earlier, recording.stream, number).then(() => {
      recording.follows(earlier);
      if (recording === this.#shown) this.#relist();
    }, () => {}); // the list begins at the reload
  }

  /** @param {Recording} recording @param {string} stream @param {number} end the first event that is not wanted */
  async #readAgain(recording, stream, end) {
    const times = timesOf(stream);
    recording.cuts = times?.cuts ?? [];
    const reading = this.#again = resume(stream, { streamsUrl: STREAMS_URL, credential: storedKey(), maxAttempts: 2 });
    for await (const received of reading) {
      const number = Number(received.id.slice(received.id.lastIndexOf('.') + 1));
      if (number >= end) break;
      recording.receive(received, times ? times.at(number) : NaN);
      if (recording === this.#shown) this.#later();
      if (number === end - 1) break;
    }
    reading.disconnect();
  }

  /** @param {Recording} recording */
  #show(recording) {
    if (this.#again && recording !== this.#shown) {
      this.#again.disconnect();
      this.#again = null;
    }
    this.#shown = recording;
    this.offer();
    this.#relist();
    this.#draw();
  }

  /** @param {Entry} entry */
  #matches({ type, data }) {
    const wanted = this.#filter.value.trim().toLowerCase();
    return !wanted || type.includes(wanted) || data.toLowerCase().includes(wanted);
  }

  /** Add the rows of what came since the last time: events, and the cuts behind them. */
  #listNew() {
    const { entries, cuts } = this.#shown;
    // What would leave again at once is only counted.
    const skipped = entries.slice(this.#listed, -SHOWN).filter((entry) => this.#matches(entry)).length;
    const from = Math.max(this.#listed, entries.length - SHOWN);
    const matching = entries.slice(from, from + ROWS_A_FRAME).filter((entry) => this.#matches(entry));
    this.#listed = Math.min(entries.length, from + ROWS_A_FRAME);
    this.#matching += skipped + matching.length;
    const rows = document.createDocumentFragment();
    const open = this.#list.querySelector('.cut[data-state="away"]');
    if (open && cuts[this.#listedCuts - 1]?.resumed) open.replaceWith(cutRow(cuts[this.#listedCuts - 1]));
    for (const entry of matching) {
      for (; cuts[this.#listedCuts] && cuts[this.#listedCuts].at < entry.number; this.#listedCuts++) rows.append(cutRow(cuts[this.#listedCuts]));
      rows.append(row(entry));
    }
    const last = entries[this.#listed - 1]?.number ?? 0;
    for (; cuts[this.#listedCuts] && cuts[this.#listedCuts].at <= last; this.#listedCuts++) rows.append(cutRow(cuts[this.#listedCuts]));
    this.#list.append(rows);
    while (this.#list.childElementCount > SHOWN) this.#list.firstElementChild?.remove();
    if (this.#listed < entries.length) this.#later(BEHIND_MS);
    else this.#tell();
    this.#end.keep();
  }

  #relist() {
    this.#listed = this.#listedCuts = this.#matching = 0;
    this.#list.replaceChildren();
    this.#listNew();
    this.#end.jump();
  }

  /** @param {EventTarget|null} target */
  #open(target) {
    if (!(target instanceof HTMLDetailsElement) || !target.open || target.querySelector('pre')) return;
    const { id, data } = /** @type {any} */ (target).entry;
    target.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: say('Payload') }, `id: ${id}\n${escaped(JSON.stringify(JSON.parse(data), null, 2))}`));
  }

  #tell() {
    const all = this.#shown.entries.length;
    this.#count.textContent = all ? String(all) : '';
    if (all === 0 && !this.#shown.note) return;
    const shown = Math.min(this.#matching, SHOWN);
    const which = this.#matching > SHOWN ? say('the last {shown} of {matching}', { shown, matching: this.#matching }) : `${shown}`;
    const told = this.#matching < all ? say('Showing {which} matching, of {all} events.', { which, all }) : say('Showing {which} events.', { which });
    const words = this.#shown.note ? `${this.#shown.note} ${told}` : told;
    if (this.#note.textContent !== words) this.#note.textContent = words;
  }

  #later(ms = 0) {
    if (this.#drawing) return;
    this.#drawing = true;
    const draw = () => requestAnimationFrame(() => this.#draw());
    if (ms) setTimeout(draw, ms);
    else draw();
  }

  #draw() {
    this.#drawing = false;
    this.#listNew();
    const { entries, cuts, bytes, deltas, firstDelta, lastDelta, timed } = this.#shown;
    const seconds = (lastDelta - firstDelta) / 1000;
    const figures = {
      first: firstDelta ? `${Math.round(firstDelta)} ms` : '–',
      rate: seconds > 0 ? ((deltas - 1) / seconds).toFixed(1) : '–',
      events: entries.length.toLocaleString('en'),
      bytes: bytes < 1000 ? `${bytes} B` : `${(bytes / 1000).toFixed(1)} kB`,
      time: entries.length && timed ? inSeconds(entries.at(-1)?.at_ms ?? 0) : '–',
      reconnects: String(cuts.length),
    };
    for (const [name, text] of Object.entries(figures)) if (this.#stats[name].textContent !== text) this.#stats[name].textContent = text;
    this.#drawCadence();
  }

  #measure() {
    const { clientWidth, clientHeight } = this.#canvas;
    this.#width = clientWidth;
    this.#height = clientHeight;
    this.#canvas.width = clientWidth * devicePixelRatio;
    this.#canvas.height = clientHeight * devicePixelRatio;
    this.#drawCadence();
  }

  /**
   * One bar an event, as high as the gap before it was long (logarithmic): the rhythm of the
   * stream. Where a connection was lost there is a line instead of a bar.
   */
  #drawCadence() {
    const context = this.#canvas.getContext('2d');
    const width = this.#width;
    const height = this.#height;
    if (!context || !width) return;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.#canvas);
    /** @type {Map<string, string>} */
    const colours = new Map();
    const colour = (/** @type {string} */ name) => {
      if (!colours.has(name)) colours.set(name, style.getPropertyValue(name) || style.color);
      return colours.get(name) ?? '';
    };
    const { entries, cuts } = this.#shown;
    const bar = Math.max(NARROWEST_BAR, Math.min(WIDEST_BAR, width / entries.length));
    const fitting = entries.slice(-Math.floor(width / bar));
    const after = new Map(cuts.map((cut) => [cut.resumed, cut]));
    for (const [at, { number, type, gap_ms }] of fitting.entries()) {
      const share = (height - LABEL) / height * Math.min(1, Math.log1p(Math.max(0, gap_ms || 0)) / Math.log1p(SLOWEST_MS));
      const cut = after.get(number);
      const tall = cut ? height : 2 + share * (height - 2);
      const from = at * bar;
      context.fillStyle = colour(cut ? '--bad' : `--kind-${kindOf(type)}`);
      context.fillRect(from, height - tall, cut ? 2 : bar < 3 ? bar : bar - 1, tall);
      if (!cut) continue;
      // Beside the line, on the side where there is room: which event was the last, which the next.
      const left = from > width / 2;
      context.font = `600 11px ${style.fontFamily}`;
      context.textAlign = left ? 'right' : 'left';
      context.fillText(`${cut.at} → ${cut.resumed}`, left ? from - 4 : from + 6, 10);
    }
    this.#canvas.ariaLabel = [say('The gap before each event, newest on the right'), ...cuts.slice(-5).map(cutInWords)].join('; ');
  }
}

/** @param {Cut} cut */
function cutInWords({ at, resumed, away_ms, reload }) {
  const values = { at, resumed, away: (away_ms / 1000).toFixed(1) };
  if (!resumed) return say('lost at {at}', values);
  return reload ? say('reloaded at {at}, resumed at {resumed}, away {away} s', values) : say('lost at {at}, resumed at {resumed}, away {away} s', values);
}

/** @param {Cut} cut */
function cutRow(cut) {
  return element('li', { className: 'cut', data: { state: cut.resumed ? 'back' : 'away' } }, cutInWords(cut));
}

/** @param {string} type */
function kindOf(type) {
  return type.split('.')[0].replaceAll('_', '-');
}

/** @param {number} ms */
function inSeconds(ms) {
  return `${(ms / 1000).toFixed(2)} s`;
}

/** An event's content in one line: the piece that a delta adds, else every field. @param {string} data */
function payload(data) {
  const { type, block, ...rest } = JSON.parse(data);
  const piece = type.endsWith('.delta') ? rest.text ?? rest.arguments : undefined;
  if (piece !== undefined) return JSON.stringify(piece);
  return JSON.stringify(block === undefined ? rest : { block, ...rest });
}

/** @param {Entry} entry */
function row(entry) {
  const { id, number, type, at_ms, gap_ms, data } = entry;
  const details = element('details', { entry },
    element('summary', {},
      element('span', { className: 'n', title: id }, String(number)),
      element('span', { className: 'type' }, type),
      element('code', { className: 'payload' }, escaped(payload(data).slice(0, 200))),
      element('span', { className: 'gap', title: say('milliseconds since the event before') }, Number.isNaN(gap_ms) ? '' : `+${gap_ms < 10 ? gap_ms.toFixed(1) : Math.round(gap_ms)}`),
      element('span', { className: 'at', title: say('since the request was sent') }, Number.isNaN(at_ms) ? '' : inSeconds(at_ms))));
  return element('li', { data: { type, kind: kindOf(type) } }, details);
}
