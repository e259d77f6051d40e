import { byId, copyText, element, follow } from './dom.js';

/** @typedef {import('./seseragi.js').Received} Received */
/** @typedef {{id: string, type: string, at_ms: number, gap_ms: number, data: string}} Entry */

const SHOWN = 500; // rows in the document; all events stay in memory for the filter and for copying
const BAR = 4; // pixels from one bar of the cadence to the next
const SLOWEST_MS = 3000; // the gap of a full bar

/**
 * The list of a stream's events beside the chat, with what can be measured at this end.
 *
 * Rows, figures and bars are drawn once a frame, with what came since the last. Rows are only ever
 * appended, and the oldest leave, so that thousands of events cost the same as ten.
 */
export class Inspector {
  /** @type {Entry[]} */
  #entries = [];
  #listed = 0; // how many of them have been looked at for the list
  #matching = 0;
  #sentAt = 0;
  #bytes = 0;
  #deltas = 0;
  #firstDelta = 0;
  #lastDelta = 0;
  #reconnects = 0;
  #drawing = false;
  #encoder = new TextEncoder();

  #list = byId('events', HTMLOListElement);
  #note = byId('events-note', HTMLElement);
  #filter = byId('filter', HTMLInputElement);
  #canvas = byId('cadence', HTMLCanvasElement);
  #count = byId('view-count', HTMLElement);
  #end = follow(byId('rows', HTMLElement));
  #stats = Object.fromEntries([...byId('stats', HTMLElement).querySelectorAll('dd')].map((dd) => [dd.dataset.stat, dd]));

  constructor() {
    this.#filter.addEventListener('input', () => this.#relist());
    // `toggle` does not bubble; the payload is laid out only when a row is opened.
    this.#list.addEventListener('toggle', ({ target }) => this.#open(target), true);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
    new ResizeObserver(() => this.#draw()).observe(this.#canvas);
  }

  /** A request is being sent now. */
  begin() {
    this.clear();
    this.#sentAt = performance.now();
    this.#note.textContent = 'Waiting for the first event…';
  }

  clear() {
    this.#entries = [];
    this.#bytes = this.#deltas = this.#firstDelta = this.#lastDelta = this.#reconnects = 0;
    this.#note.textContent = 'Each event of the next answer is listed here.';
    this.#relist();
    this.#draw();
  }

  /** @param {Received} received */
  receive({ id, event: { type }, data }) {
    const at = performance.now() - this.#sentAt;
    const entry = { id, type, at_ms: at, gap_ms: at - (this.#entries.at(-1)?.at_ms ?? 0), data };
    this.#entries.push(entry);
    this.#bytes += this.#encoder.encode(data).length;
    if (type.endsWith('.delta')) {
      this.#deltas += 1;
      this.#firstDelta ||= at;
      this.#lastDelta = at;
    }
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => this.#draw());
  }

  /** A lost connection was replaced. */
  reconnected() {
    this.#reconnects += 1;
    this.#draw();
  }

  /** The answer is over. @param {string} [problem] why there are no events */
  end(problem) {
    if (this.#entries.length === 0) this.#note.textContent = problem ?? 'No events.';
    this.#draw();
  }

  /** All events as JSON, with their times. */
  toJSON() {
    return this.#entries.map(({ id, at_ms, gap_ms, data }) => ({
      id, at_ms: Number(at_ms.toFixed(1)), gap_ms: Number(gap_ms.toFixed(1)), event: JSON.parse(data),
    }));
  }

  copy() {
    return copyText(JSON.stringify(this, null, 2));
  }

  /** @param {Entry} entry */
  #matches({ type, data }) {
    const wanted = this.#filter.value.trim().toLowerCase();
    return !wanted || type.includes(wanted) || data.toLowerCase().includes(wanted);
  }

  /** Add the rows of the events that came since the last time. */
  #listNew() {
    const matching = this.#entries.slice(this.#listed).filter((entry) => this.#matches(entry));
    this.#listed = this.#entries.length;
    this.#matching += matching.length;
    this.#list.append(...matching.slice(-SHOWN).map(row));
    while (this.#list.childElementCount > SHOWN) this.#list.firstElementChild?.remove();
    this.#tell();
    this.#end.keep();
  }

  #relist() {
    this.#listed = this.#matching = 0;
    this.#list.replaceChildren();
    this.#listNew();
    this.#end.jump();
  }

  /** @param {EventTarget|null} target */
  #open(target) {
    if (!(target instanceof HTMLDetailsElement) || !target.open || target.querySelector('pre')) return;
    const { id, data } = /** @type {any} */ (target).entry;
    target.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: 'Payload' }, `id: ${id}\n${JSON.stringify(JSON.parse(data), null, 2)}`));
  }

  #tell() {
    const all = this.#entries.length;
    this.#count.textContent = all ? String(all) : '';
    if (all === 0) return;
    const shown = Math.min(this.#matching, SHOWN);
    const which = this.#matching > SHOWN ? `the last ${SHOWN} of ${this.#matching}` : `${shown}`;
    this.#note.textContent = this.#matching < all ? `Showing ${which} matching, of ${all} events.` : `Showing ${which} events.`;
  }

  #draw() {
    this.#drawing = false;
    this.#listNew();
    const seconds = (this.#lastDelta - this.#firstDelta) / 1000;
    this.#stats.first.textContent = this.#firstDelta ? `${Math.round(this.#firstDelta)} ms` : '–';
    this.#stats.rate.textContent = seconds > 0 ? ((this.#deltas - 1) / seconds).toFixed(1) : '–';
    this.#stats.events.textContent = this.#entries.length.toLocaleString('en');
    this.#stats.bytes.textContent = this.#bytes < 1000 ? `${this.#bytes} B` : `${(this.#bytes / 1000).toFixed(1)} kB`;
    this.#stats.time.textContent = this.#entries.length ? inSeconds(this.#entries.at(-1)?.at_ms ?? 0) : '–';
    this.#stats.reconnects.textContent = String(this.#reconnects);
    this.#drawCadence();
  }

  /** One bar an event, as high as the gap before it was long (logarithmic): the rhythm of the stream. */
  #drawCadence() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const context = this.#canvas.getContext('2d');
    if (!context || !width) return;
    const scale = devicePixelRatio;
    this.#canvas.width = width * scale;
    this.#canvas.height = height * scale;
    context.scale(scale, scale);
    const style = getComputedStyle(this.#canvas);
    const entries = this.#entries.slice(-Math.floor(width / BAR));
    for (const [at, { type, gap_ms }] of entries.entries()) {
      const share = Math.min(1, Math.log1p(gap_ms) / Math.log1p(SLOWEST_MS));
      const tall = 2 + share * (height - 2);
      context.fillStyle = style.getPropertyValue(`--kind-${kindOf(type)}`) || style.color;
      context.fillRect(at * BAR, height - tall, BAR - 1, tall);
    }
  }
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
  const { id, type, at_ms, gap_ms, data } = entry;
  const details = element('details', { entry },
    element('summary', {},
      element('span', { className: 'n', title: id }, id.slice(id.lastIndexOf('.') + 1)),
      element('span', { className: 'type' }, type),
      element('code', { className: 'payload' }, payload(data).slice(0, 200)),
      element('span', { className: 'gap', title: 'milliseconds since the event before' }, `+${gap_ms < 10 ? gap_ms.toFixed(1) : Math.round(gap_ms)}`),
      element('span', { className: 'at', title: 'since the request was sent' }, inSeconds(at_ms))));
  return element('li', { data: { type, kind: kindOf(type) } }, details);
}
