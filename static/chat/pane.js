import { element } from '../dom.js';
import { follow } from './follow.js';
import { say } from './language.js';
import { Markdown } from './markdown.js';

/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */
/** @typedef {'waiting'|'open'|'lost'|'back'|'whole'|'dead'} State */

const CELL = 10; // pixels of one id, with the gap to the next
const EXPECTED = 260; // ids that there is room for from the start: a strip that grows moves what is below it
const BURST_MS = 8; // events that follow each other faster were waiting in the relay's log

/**
 * One reader of the show: its text, and a cell for every id of the stream, filled as the event
 * comes. What came live, what came from the relay's log and what never came have colours of
 * their own.
 */
export class Pane {
  /** The number of the last event. */
  last = 0;
  text = '';
  /** The streams whose events came here. @type {Set<string>} */
  streams = new Set();
  connections = 0; // that it has opened
  twice = 0; // events that came again
  /** Where it lost its connection, and went on. @type {{at: number, resumed: number, caughtUp: number, lostMs: number, awayMs: number}|null} */
  cut = null;
  /** @type {import('../seseragi.js').StreamEnd|null} */
  end = null;

  /** @type {Map<number, 'live'|'kept'>} */
  #came = new Map();
  #known = 0; // the highest id that any reader has seen
  #edge = 0; // what was known when this connection opened
  #behind = false;
  #lastAt = 0;
  #drawing = false;
  /** @type {Markdown} */
  #prose;
  /** @type {Range|null} the text that came from the log, to be marked */
  #kept = null;
  #words = element('div', { className: 'parts' });
  #cells = element('canvas', { className: 'cells', role: 'img' });
  #state = element('span', { className: 'pane-state' });
  #note = element('p', { className: 'pane-note' });
  #box = element('div', { className: 'pane-text', tabIndex: 0, role: 'region' });
  #scroll = follow(this.#box);

  /** @param {string} name @param {string} what @param {string} code how it reads */
  constructor(name, what, code) {
    const body = element('div', { className: 'text' });
    this.#prose = new Markdown(body);
    this.#words.append(body);
    this.#box.append(this.#words);
    this.#box.ariaLabel = say('What {name} shows', { name });
    this.name = name;
    this.section = element('section', { className: 'pane', ariaLabel: name },
      element('div', { className: 'pane-head' }, element('h3', {}, name), this.#state),
      element('p', { className: 'pane-what' }, what),
      element('pre', { className: 'pane-code', tabIndex: 0, role: 'group', ariaLabel: say('Its code') }, element('code', { lang: 'en' }, code)),
      this.#cells, this.#box, this.#note);
    new ResizeObserver(() => this.#later()).observe(this.#cells);
    this.show('waiting', say('waiting'));
  }

  /** How many ids came. */
  get size() {
    return this.#came.size;
  }

  /** How many ids it should have and has not. */
  get missing() {
    return Math.max(this.#known, this.last) - this.#came.size;
  }

  /** @param {State} state @param {string} words @param {string} [note] */
  show(state, words, note = '') {
    this.section.dataset.state = state;
    this.#state.textContent = words;
    this.#note.textContent = note;
  }

  /** A connection was opened. @param {number} known the highest id that any reader has seen */
  opened(known) {
    this.connections += 1;
    this.#edge = known;
    this.#behind = this.connections > 1 || known > 0;
    if (this.cut) this.cut.awayMs ||= performance.now() - this.cut.lostMs;
  }

  /** Its connection was lost. */
  lost() {
    this.cut = { at: this.last, resumed: 0, caughtUp: 0, lostMs: performance.now(), awayMs: 0 };
    this.#draw();
  }

  /** @param {string} id @param {StreamEvent} event */
  receive(id, event) {
    const at = performance.now();
    const [, stream = '', digits = '0'] = /^(.*)\.(\d+)$/.exec(id) ?? [];
    const number = Number(digits);
    this.streams.add(stream);
    if (this.#came.has(number)) this.twice += 1;
    const first = number === this.#edge + 1 || this.#lastAt === 0;
    this.#behind &&= number <= this.#edge || first || at - this.#lastAt < BURST_MS;
    if (this.cut) this.cut.resumed ||= number;
    if (this.#behind && this.cut) this.cut.caughtUp = number;
    this.#came.set(number, this.#behind ? 'kept' : 'live');
    this.last = number;
    this.#lastAt = at;
    if (event.type === 'text.delta') this.#write(event.text);
    if (event.type === 'stream.end') {
      this.#prose.finish();
      this.end = event;
    }
    this.#later();
  }

  /** Another reader has seen this id. @param {number} number */
  knows(number) {
    if (number <= this.#known) return;
    this.#known = number;
    this.#later();
  }

  /** @param {string} text */
  #write(text) {
    this.text += text;
    const place = endOf(this.#words);
    this.#prose.append(text);
    this.#scroll.keep();
    if (!this.#behind || !('highlights' in CSS)) return;
    if (!this.#kept) {
      this.#kept = document.createRange();
      this.#kept.setStart(...place);
      const marked = CSS.highlights.get('kept') ?? new Highlight();
      CSS.highlights.set('kept', marked.add(this.#kept));
    }
    this.#kept.setEnd(...endOf(this.#words));
  }

  #later() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#drawing = false;
    const width = this.#cells.clientWidth;
    const context = this.#cells.getContext('2d');
    if (!context || !width) return;
    const most = Math.max(this.last, this.#known);
    const across = Math.floor((width + 2) / CELL);
    const height = Math.ceil(Math.max(most, EXPECTED) / across) * CELL;
    const scale = devicePixelRatio;
    this.#cells.width = width * scale;
    this.#cells.height = height * scale;
    this.#cells.style.height = `${height}px`;
    context.scale(scale, scale);
    const style = getComputedStyle(this.#cells);
    const [live, kept, missing, room] = ['--water', '--kept', '--bad', '--sunken'].map((name) => style.getPropertyValue(name));
    for (let number = 1; number <= Math.max(most, EXPECTED); number++) {
      const x = ((number - 1) % across) * CELL;
      const y = Math.floor((number - 1) / across) * CELL;
      const how = this.#came.get(number);
      if (!how && number <= most && this.section.dataset.state !== 'waiting') {
        context.strokeStyle = missing;
        context.strokeRect(x + .5, y + .5, CELL - 3, CELL - 3);
      } else {
        context.fillStyle = how === 'kept' ? kept : how ? live : room;
        context.fillRect(x, y, CELL - 2, CELL - 2);
      }
    }
    this.#cells.ariaLabel = say('{count} of {all} events', { count: this.size, all: most });
  }
}

/** The place behind the last character of an element. @param {Node} node @returns {[Node, number]} */
function endOf(node) {
  while (node.lastChild) node = node.lastChild;
  return [node, node instanceof Text ? node.length : 0];
}
