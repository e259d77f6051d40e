/**
 * The list of a stream's events beside the chat, with times, figures and the rhythm of the gaps.
 *
 * It shows the turn that runs or was chosen, as it came, or its frames in another format, which the
 * relay sends again. It draws once a frame; rows are only appended, and the oldest leave, so that
 * thousands of events cost the same as ten.
 */

import { byId, element } from '../dom.js';
import { escaped } from './answer.js';
import { copyText } from './clipboard.js';
import { follow } from './follow.js';
import { say } from './language.js';
import { Recording } from './recording.js';
import { FORMATS, eventsUrl, readFrames } from './relay.js';
import { watched, watchedUrl } from './sharing.js';
import { STREAMS_URL } from './transports.js';

/** @typedef {import('./conversation.js').Turn} Turn */
/** @typedef {import('./recording.js').Entry} Entry */
/** @typedef {import('./recording.js').Cut} Cut */
/** @typedef {import('./relay.js').Format} Format */

const SHOWN = 500; // rows in the document; all events stay in memory for the filter and for copying
const ROWS_A_FRAME = 60; // a burst is listed over some frames,
const BEHIND_MS = 50; // with frames between them that are the chat's alone
const WIDEST_BAR = 4; // pixels from one bar of the cadence to the next, while there is room
const LABEL = 12; // pixels above the bars, for the label of a cut
const SLOWEST_MS = 3000; // the gap of a full bar

export class Inspector {
  /** @type {Turn|null} */
  #turn = null;
  #shown = new Recording();
  #problem = '';
  #reading = new AbortController(); // of another format
  #listed = 0; // how many of the entries have been looked at for the list
  #listedCuts = 0;
  #matching = 0;
  #drawing = false;
  #width = 0;
  #height = 0;

  #list = byId('events', HTMLOListElement);
  #note = byId('events-note', HTMLElement);
  #filter = byId('filter', HTMLInputElement);
  #format = byId('format', HTMLSelectElement);
  #canvas = byId('cadence', HTMLCanvasElement);
  #count = byId('view-count', HTMLElement);
  #end = follow(byId('rows', HTMLElement));
  #stats = Object.fromEntries([...byId('stats', HTMLElement).querySelectorAll('dd')].map((dd) => [dd.dataset.stat, dd]));

  constructor() {
    this.#format.append(...Object.entries(FORMATS).map(([value, { name }]) => element('option', { value }, name)));
    this.#format.addEventListener('change', () => this.show(this.#turn));
    this.#filter.addEventListener('input', () => this.#relist());
    // `toggle` does not bubble; the payload is laid out only when a row is opened.
    this.#list.addEventListener('toggle', ({ target }) => this.#open(target), true);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#drawCadence());
    new ResizeObserver(() => this.#measure()).observe(this.#canvas);
  }

  /** The chosen format of the frames. */
  get format() {
    return /** @type {Format} */ (this.#format.value);
  }

  /** List the events of a turn. @param {Turn|null} turn null lists none */
  show(turn) {
    this.#reading.abort();
    this.#turn?.answer.article.removeAttribute('data-inspected');
    turn?.answer.article.setAttribute('data-inspected', '');
    this.#turn = turn;
    this.#problem = '';
    const other = this.format !== 'native';
    this.#shown = turn && !other ? turn.recording : new Recording();
    const stream = turn?.kept.stream;
    if (other && stream) this.#readAgain(stream);
    this.#relist();
    this.#draw();
  }

  /** Note that the id of a turn's stream is known. @param {Turn} turn */
  begin(turn) {
    if (turn === this.#turn && this.format !== 'native') this.show(turn);
  }

  /** Note that a turn has changed. @param {Turn} turn */
  update(turn) {
    if (turn === this.#turn) this.#later();
  }

  /** Note that a turn has ended. @param {Turn} turn @param {string} problem */
  end(turn, problem) {
    if (turn !== this.#turn) return;
    this.#problem = problem;
    this.#draw();
  }

  /** Copy all events with their times as JSON. */
  copy() {
    return copyText(JSON.stringify(this.#shown, null, 2));
  }

  /** Read the frames of a stream in the chosen format. @param {string} stream */
  async #readAgain(stream) {
    const recording = this.#shown;
    const { signal } = this.#reading = new AbortController();
    const url = watched ? `${watchedUrl}${watchedUrl.includes('?') ? '&' : '?'}format=${this.format}` : eventsUrl(STREAMS_URL, stream, this.format);
    try {
      for await (const frame of readFrames(url, signal)) {
        recording.receive(frame);
        this.#later();
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#problem = /** @type {Error} */ (error).message;
      this.#later();
    }
  }

  /** @param {Entry} entry */
  #matches({ type, data }) {
    const wanted = this.#filter.value.trim().toLowerCase();
    return !wanted || type.toLowerCase().includes(wanted) || data.toLowerCase().includes(wanted);
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
    const away = this.#list.querySelector('.cut[data-state="away"]');
    if (away && cuts[this.#listedCuts - 1]?.resumed) away.replaceWith(cutRow(cuts[this.#listedCuts - 1]));
    const addCuts = (/** @type {number} */ before) => {
      for (; cuts[this.#listedCuts]?.at < before; this.#listedCuts++) rows.append(cutRow(cuts[this.#listedCuts]));
    };
    for (const entry of matching) {
      addCuts(entry.number);
      rows.append(row(entry));
    }
    addCuts((entries[this.#listed - 1]?.number ?? 0) + 1);
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
    const text = data.startsWith('{') ? JSON.stringify(JSON.parse(data), null, 2) : data;
    target.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: say('Payload') }, `id: ${id}\n${escaped(text)}`));
  }

  #tell() {
    const all = this.#shown.entries.length;
    this.#count.textContent = all ? String(all) : '';
    const words = all ? say('Showing {shown} of {all} events.', { shown: Math.min(SHOWN, this.#matching), all })
      : this.#problem ? say('No events: {problem}', { problem: this.#problem })
        : this.#turn ? say('Waiting for the first event…') : say('Each event of the next answer is listed here.');
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
    const { entries, cuts, bytes, deltas, firstDelta, lastDelta } = this.#shown;
    const seconds = (lastDelta - firstDelta) / 1000;
    const figures = {
      first: firstDelta ? `${Math.round(firstDelta)} ms` : '–',
      rate: seconds > 0 ? ((deltas - 1) / seconds).toFixed(1) : '–',
      events: entries.length.toLocaleString('en'),
      bytes: bytes < 1000 ? `${bytes} B` : `${(bytes / 1000).toFixed(1)} kB`,
      time: entries.length ? inSeconds(entries.at(-1)?.at_ms ?? 0) : '–',
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
   * stream. Where the connection was lost there is a line instead of a bar.
   */
  #drawCadence() {
    const context = this.#canvas.getContext('2d');
    const width = this.#width;
    const height = this.#height;
    if (!context || !width) return;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(this.#canvas);
    const { entries, cuts } = this.#shown;
    const bar = Math.max(1, Math.min(WIDEST_BAR, width / entries.length));
    const after = new Map(cuts.map((cut) => [cut.resumed, cut]));
    for (const [at, { number, type, gap_ms }] of entries.slice(-Math.floor(width / bar)).entries()) {
      const share = (height - LABEL) / height * Math.min(1, Math.log1p(Math.max(0, gap_ms)) / Math.log1p(SLOWEST_MS));
      const cut = after.get(number);
      const tall = cut ? height : 2 + share * (height - 2);
      const from = at * bar;
      context.fillStyle = style.getPropertyValue(cut ? '--bad' : `--kind-${kindOf(type)}`) || style.color;
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
  return reload ? say('reloaded at {at}, away {away} s', values) : say('lost at {at}, resumed at {resumed}, away {away} s', values);
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

/** The content of an event in one line: the piece that a delta adds, else all other fields. @param {string} type @param {string} data */
function payload(type, data) {
  if (!data.startsWith('{')) return data;
  const { type: _, ...rest } = JSON.parse(data);
  return JSON.stringify(type.endsWith('.delta') ? rest.text ?? rest.arguments ?? rest.delta : rest);
}

/** @param {Entry} entry */
function row(entry) {
  const { id, number, type, at_ms, gap_ms, data } = entry;
  return element('li', { data: { type, kind: kindOf(type) } }, element('details', { entry }, element('summary', {},
    element('span', { className: 'n', title: id }, String(number)),
    element('span', { className: 'type', title: type }, type),
    element('code', { className: 'payload' }, escaped(payload(type, data).slice(0, 200))),
    element('span', { className: 'gap', title: say('milliseconds since the event before') }, `+${gap_ms < 10 ? gap_ms.toFixed(1) : Math.round(gap_ms)}`),
    element('span', { className: 'at', title: say('since the request was sent') }, inSeconds(at_ms)))));
}
