/**
 * One stream, event by event, in two dialects side by side, at any point of its time: that of the
 * native events. While content is hidden there is none in the document.
 */

import { byId, element } from '../dom.js';
import { Alignment, Source } from './frames.js';
import { masked } from './mask.js';
import { put } from './table.js';
import { count, owner, plain, seconds, usd } from './words.js';

const DIALECTS = {
  native: 'Seseragi', openai_chat: 'OpenAI Chat', openai_responses: 'OpenAI Responses', anthropic: 'Anthropic Messages',
  ui: 'AI SDK UI', ag_ui: 'AG-UI',
};
const SHOWN = 200; // frames in the document: those before the position
const USUAL_MS = 40; // between two events, where it is not known

function nameOf({ event, data }) {
  return plain(event || (/^\{"type":"([\w.-]+)"/.exec(data)?.[1] ?? (data === '[DONE]' ? 'end' : data.startsWith('{"error":') ? 'error' : 'chunk')));
}

function row(frame, open) {
  const name = nameOf(frame);
  const made = element('li', {}, element('span', {}, /\d*$/.exec(frame.id)[0]), element('b', {}, name), element('code', { dir: 'auto' }, open ? frame.data : masked(frame.data)));
  made.style.setProperty('--kind', `var(--kind-${name.split('.')[0].replaceAll('_', '-')})`);
  return made;
}

/** The frames of one dialect up to the position. */
class Pane {
  #from = 0; // of the frames that are in the document
  #to = 0;
  #note = element('p', { className: 'note' });
  #list = element('ol');
  #rows;

  constructor(number, dialect, chosen) {
    this.select = element('select', { ariaLabel: `Dialect of pane ${number}`, onchange: chosen }, ...Object.entries(DIALECTS).map(([value, name]) => element('option', { value }, name)));
    this.select.value = dialect;
    this.#rows = element('div', { className: 'frames', role: 'region', tabIndex: 0, ariaLabel: `Frames of pane ${number}` }, this.#list);
    this.element = element('section', { className: 'card', ariaLabel: `Pane ${number}` }, element('div', { className: 'head' }, this.select, this.#note), this.#rows);
  }

  read(source) {
    this.source = source;
    this.alignment = new Alignment();
    this.clear();
  }

  clear() {
    this.#list.replaceChildren();
    this.#from = this.#to = 0;
  }

  show(at, native, open) {
    const { frames, ended, problem } = this.source;
    let to = at;
    if (this.source !== native) {
      const due = this.alignment.update(native.frames, frames, native.ended && ended);
      to = at < native.frames.length ? due.findLastIndex((event) => event <= at) + 1 : frames.length;
    }
    const note = problem || `${count(to)} of ${count(frames.length)} frames`;
    put(this.#note, note);
    const from = Math.max(0, to - SHOWN);
    if (from === this.#from && to === this.#to) return;
    const { scrollHeight, scrollTop, clientHeight } = this.#rows;
    const again = from < this.#from || to < this.#to || from >= this.#to;
    if (again) {
      this.clear();
      this.#from = this.#to = from;
    }
    for (; this.#from < from; this.#from++) this.#list.firstChild.remove();
    this.#list.append(...frames.slice(this.#to, to).map((frame) => row(frame, open)));
    this.#to = to;
    if (again || scrollHeight - scrollTop - clientHeight < 40) this.#rows.scrollTop = this.#rows.scrollHeight;
  }
}

export class Inspector {
  #url;
  #stream = '';
  #sources = new Map();
  #at = 0;
  #follows = true; // the position is at the newest event
  #drawing = false;
  #timer;
  #row = {}; // what the summary says of the stream
  #panes = ['native', 'openai_chat'].map((dialect, at) => new Pane(at + 1, dialect, () => this.#choose()));
  #position = byId('position');
  #play = byId('play');
  #content = byId('show-content');
  #save = byId('save');
  #saving = ''; // how it went

  constructor(url) {
    this.#url = url;
    byId('panes').append(...this.#panes.map((pane) => pane.element));
    this.#position.oninput = () => {
      this.#pause();
      this.#goTo(this.#position.valueAsNumber);
    };
    this.#play.onclick = () => (this.#timer ? this.#pause() : this.#start());
    this.#save.onclick = () => this.#saveStream();
    this.#content.onchange = () => {
      for (const pane of this.#panes) pane.clear();
      this.#draw();
    };
  }

  /** Show a stream, or with "" none. Content is hidden again: it was asked for of another. */
  open(stream) {
    if (stream === this.#stream) return;
    this.#pause();
    this.#stream = stream;
    this.#row = {};
    this.#at = 0;
    this.#follows = true;
    this.#content.checked = false;
    for (const source of this.#sources.values()) source.close();
    this.#sources.clear();
    byId('stream-id').value = stream;
    byId('read').hidden = !stream;
    byId('note').textContent = stream ? '' : 'Type the id of a stream, or choose one in the overview.';
    byId('stop').hidden = this.#save.hidden = true;
    this.#saving = '';
    for (const pane of this.#panes) pane.read(null);
    if (stream) this.#choose();
  }

  tell(row = this.#row) {
    this.#row = row;
    this.#changed();
  }

  /** Read what the panes are to show, and nothing else. */
  #choose() {
    const wanted = new Set(['native', ...this.#panes.map(({ select }) => select.value)]);
    for (const [dialect, source] of this.#sources) {
      if (wanted.delete(dialect)) continue;
      source.close();
      this.#sources.delete(dialect);
    }
    for (const dialect of wanted) this.#sources.set(dialect, new Source(this.#url(this.#stream, dialect), () => this.#changed()));
    for (const pane of this.#panes) {
      const source = this.#sources.get(pane.select.value);
      if (pane.source !== source) pane.read(source);
    }
    this.#changed();
  }

  /** Draw whatever came, once a frame. */
  #changed() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      if (this.#stream) this.#draw();
    });
  }

  get #events() {
    return this.#sources.get('native').frames;
  }

  #goTo(at) {
    this.#at = at;
    this.#follows = at >= this.#events.length;
    this.#changed();
  }

  #draw() {
    const native = this.#sources.get('native');
    const { frames, ended, problem } = native;
    if (this.#follows) this.#at = frames.length;
    for (const pane of this.#panes) pane.show(this.#at, native, this.#content.checked);
    const row = this.#row;
    const end = frames.at(-1)?.event === 'stream.end' ? JSON.parse(frames.at(-1).data) : {};
    put(byId('note'), problem || [
      end.status ?? (frames.length ? 'running' : 'reading…'), end.error?.code, row.id && `${plain(row.target ?? row.route)}, ${owner(row)}`,
      `${count(end.usage?.output_tokens ?? row.output_tokens)} tokens`, usd(end.cost ?? row.cost), this.#saving,
    ].filter(Boolean).join(' · '));
    byId('stop').hidden = ended || !frames.length;
    this.#save.hidden = !frames.length;
    this.#position.max = frames.length;
    this.#position.value = this.#at;
    const where = `event ${count(this.#at)} of ${count(frames.length)}${this.#at ? `: ${frames[this.#at - 1].event}` : ''}`;
    put(byId('where'), where);
    this.#position.ariaValueText = where;
    put(byId('pace'), `plays ${frames.some(({ live }) => live) ? 'as it came' : row.duration_s ? `evenly, in ${seconds(row.duration_s)}` : '25 events a second'}`);
  }

  async #saveStream() {
    const stream = this.#stream;
    const told = await import('./cassette.js').then(({ saveCassette }) => saveCassette(this.#url(stream)))
      .then((name) => `saved as ${name}`, ({ message }) => `not saved: ${plain(message)}`);
    if (stream !== this.#stream) return;
    this.#saving = told;
    this.#changed();
  }

  /** The milliseconds to the next event. */
  #gap(frames) {
    const [before, next] = [frames[this.#at - 1], frames[this.#at]];
    if (before && next?.live) return next.at - before.at;
    return this.#row.duration_s ? (1000 * this.#row.duration_s) / frames.length : USUAL_MS;
  }

  #start() {
    const frames = this.#events;
    if (this.#at >= frames.length) this.#at = 0;
    this.#play.textContent = 'Pause';
    let due = performance.now();
    const step = () => {
      // Timers are late: all events that are due come at once.
      while (this.#at < frames.length && due <= performance.now()) {
        this.#at += 1;
        due += this.#gap(frames);
      }
      this.#goTo(this.#at);
      if (this.#follows) this.#pause();
      else this.#timer = setTimeout(step, Math.max(15, due - performance.now()));
    };
    step();
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#play.textContent = 'Play';
  }
}
