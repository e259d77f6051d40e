/**
 * The show: one answer, three readers, and the connections of two of them cut in the middle.
 *
 * Nothing in it is staged: the client, a plain `fetch` and a reader that joins late are three
 * connections to one stream of the demo model, which costs nothing. The cut is that of the
 * page's own button: the `fetch` below the reader is aborted.
 */

import { byId, element } from '../dom.js';
import { newId } from '../ids.js';
import { showing } from '../key.js';
import { number, say } from './language.js';
import { Pane } from './pane.js';
import { RIVER } from './prompts.js';
import { problemOf } from './relay.js';
import { CHAT_URL, STREAMS_URL, TRANSPORTS } from './transports.js';

/** @typedef {import('./transports.js').Reading} Reading */

const CUT_AFTER = 56; // events: a quarter of the answer
const JOIN_MS = 900; // after the cut, while the client is away

const CLIENT = 'for await (const { event } of chat(request)) {\n  show(event);\n}';
const NAIVE = 'const { done, value } = await reader.read();\nif (done) return;\nshow(value);';
const LATE = 'for await (const { event } of resume(id)) {\n  show(event);\n}';

export class Show {
  #client = new Pane('seseragi.js', say('The relay’s client'), CLIENT);
  #naive = new Pane(say('A plain fetch'), say('As most pages read a stream'), NAIVE);
  #late = new Pane(say('A second tab'), say('Joins late, by the stream’s id alone'), LATE);
  #panes = [this.#client, this.#naive, this.#late];
  #told = element('p', { className: 'show-told', role: 'status' });
  #sums = element('dl', { className: 'show-sums' });
  #again = element('button', { type: 'button', className: 'quiet', disabled: true }, say('Run it again'));
  #dialog = element('dialog', { className: 'show' });
  #connection = new AbortController(); // of the plain fetch
  /** @type {Reading|null} */
  #reading = null;
  /** @type {Reading|null} */
  #joined = null;
  #joining = 0;
  /** @type {Promise<void>|null} */
  #lateRead = null;
  #over = false;

  open() {
    const close = element('button', { type: 'button', className: 'quiet', onclick: () => this.#dialog.close() }, say('Close'));
    this.#again.onclick = () => {
      this.#dialog.close();
      new Show().open();
    };
    this.#dialog.setAttribute('aria-labelledby', 'show-title');
    this.#dialog.append(
      element('div', { className: 'show-head' },
        element('h2', { id: 'show-title', tabIndex: -1 }, say('Watch it survive a cut')), this.#again, close),
      this.#told,
      element('div', { className: 'panes' }, ...this.#panes.map(({ section }) => section)),
      this.#sums,
      element('p', { className: 'legend' },
        element('span', { className: 'is-live' }, say('came live')),
        element('span', { className: 'is-kept' }, say('came from the relay’s log')),
        element('span', { className: 'is-missing' }, say('missed')),
        say('A cell is an event, in the order of the ids.')));
    this.#dialog.addEventListener('close', () => this.#leave());
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    byId('show-title', HTMLElement).focus();
    this.#run();
  }

  async #run() {
    const request = { model: 'demo', messages: [{ role: /** @type {const} */ ('user'), content: RIVER }] };
    const key = newId();
    this.#tell(say('One answer, and two readers of it.'));
    try {
      await Promise.all([this.#readAsClient(request, key), this.#readNaively(request, key)]);
      await this.#lateRead;
      await this.#sumUp();
    } catch (error) {
      if (!this.#over) this.#tell(say('The show cannot go on: {reason}', { reason: /** @type {Error} */ (error).message }));
    }
    this.#again.disabled = false;
  }

  /** @param {import('../seseragi.js').ChatRequest} request @param {string} key */
  async #readAsClient(request, key) {
    const pane = this.#client;
    this.#reading = TRANSPORTS.fetch.ask(request, key, (state) => {
      if (state === 'open') {
        pane.opened(pane.connections ? this.#known : 0);
        if (pane.connections > 1) this.#tell(say('The client is back: it asks for what came after {at}.', { at: pane.last }));
        pane.show('open', say('reading'));
      } else if (state === 'reconnecting') {
        pane.lost();
        pane.show('lost', say('lost at {at}', { at: pane.last }));
      }
    });
    for await (const { id, event } of this.#reading.events) {
      this.#received(pane, id, event);
      if (pane.cut?.resumed === pane.last) pane.show('back', say('lost at {at}, resumed at {resumed}', pane.cut));
      this.#cutBoth();
    }
    this.#finished(pane);
  }

  /** @param {import('../seseragi.js').ChatRequest} request @param {string} key */
  async #readNaively(request, key) {
    const pane = this.#naive;
    try {
      await readNaively(request, key, this.#connection.signal, (id, event) => {
        if (!pane.connections) {
          pane.opened(0);
          pane.show('open', say('reading'));
        }
        this.#received(pane, id, event);
        this.#cutBoth();
      });
      this.#finished(pane);
    } catch (error) {
      if (!this.#connection.signal.aborted) throw error;
      pane.lost();
      pane.show('dead', say('lost at {at}, for good', { at: pane.last }), say('The read throws, and nothing says where to go on.'));
    }
  }

  /** Cut both connections at once, as soon as both readers are in the middle. */
  #cutBoth() {
    if (this.#connection.signal.aborted || Math.min(this.#client.last, this.#naive.last) < CUT_AFTER) return;
    this.#reading?.cut();
    this.#connection.abort();
    this.#tell(say('Both connections are cut. The answer runs on, and nobody reads it.'));
    this.#lateRead = new Promise((resolve, reject) => {
      this.#joining = setTimeout(() => this.#join().then(resolve, reject), JOIN_MS);
    });
    this.#lateRead.catch(() => {}); // it is waited for at the end
  }

  /** Read the stream as a second tab does, which knows nothing but its id. */
  async #join() {
    const pane = this.#late;
    const [stream] = this.#client.streams;
    this.#tell(say('A second tab joins, and is given all of it: so much was missed.'));
    this.#joined = TRANSPORTS.fetch.resume(stream, null, (state) => {
      if (state !== 'open') return;
      pane.opened(this.#known);
      pane.show('open', say('joined at 1'));
    });
    for await (const { id, event } of this.#joined.events) this.#received(pane, id, event);
    this.#finished(pane);
  }

  /** @param {Pane} pane @param {string} id @param {import('../seseragi.js').StreamEvent} event */
  #received(pane, id, event) {
    pane.receive(id, event);
    for (const other of this.#panes) if (other !== this.#late || this.#joined) other.knows(pane.last);
  }

  /** @param {Pane} pane */
  #finished(pane) {
    if (pane.end?.status !== 'completed') return;
    const { cut, size: count } = pane;
    if (!cut) return pane.show('whole', say('all {count} events', { count }), say('All {count} events, the first of them sent before it came.', { count }));
    pane.show('whole', say('lost at {at}, resumed at {resumed}', cut),
      say('Cut off for {away} s. It missed events {from} to {to}, then received every one of them.', { away: (cut.awayMs / 1000).toFixed(1), from: cut.at + 1, to: cut.caughtUp }));
  }

  /** Ask the relay what it was, and count what the readers have. */
  async #sumUp() {
    const [stream] = this.#client.streams;
    const response = await fetch(`${STREAMS_URL}/${stream}`, { headers: { accept: 'application/json', ...showing() } });
    if (!response.ok) throw new Error(await problemOf(response));
    const { text, usage, cost } = await response.json();
    const [client, naive, late] = this.#panes;
    const whole = client.text === text && late.text === text;
    naive.show('dead', say('lost at {at}, for good', { at: naive.last }),
      say('{share} % of the answer. To have the rest it must ask again, and pay again.', { share: Math.round(100 * naive.text.length / text.length) }));
    const tokens = number(usage?.output_tokens ?? 0);
    this.#tell(whole ? say('The client and the second tab have the same text as the relay, to the last character.') : say('The texts differ: that is a defect of the relay.'));
    const sums = {
      [say('Readers')]: this.#panes.length,
      [say('Connections')]: this.#panes.reduce((sum, { connections }) => sum + connections, 0),
      [say('Generations upstream')]: new Set(this.#panes.flatMap(({ streams }) => [...streams])).size,
      [say('Tokens paid for')]: cost === undefined ? tokens : `${tokens} (${cost} USD)`,
      [say('Events lost, doubled')]: `${client.missing + late.missing}, ${client.twice + late.twice}`,
    };
    this.#sums.append(...Object.entries(sums).map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, String(value)))));
  }

  get #known() {
    return Math.max(...this.#panes.map(({ last }) => last));
  }

  /** @param {string} words */
  #tell(words) {
    this.#told.textContent = words;
  }

  /** The show was closed: what still runs is stopped. */
  #leave() {
    this.#over = true;
    clearTimeout(this.#joining);
    this.#connection.abort();
    this.#joined?.leave();
    this.#reading?.stop().catch(() => {}).finally(this.#reading.leave);
    CSS.highlights?.delete('kept');
    this.#dialog.remove();
  }
}

/**
 * Read a stream as most pages do, by `fetch`, a loop and a split: it works until the connection
 * does not.
 * @param {import('../seseragi.js').ChatRequest} request
 * @param {string} key the same as the client's, so that it is given the same stream
 * @param {AbortSignal} signal
 * @param {(id: string, event: import('../seseragi.js').StreamEvent) => void} show
 */
async function readNaively(request, key, signal, show) {
  const response = await fetch(CHAT_URL, {
    method: 'POST',
    headers: { accept: 'text/event-stream', 'content-type': 'application/json', 'idempotency-key': key, ...showing() },
    body: JSON.stringify(request),
    signal,
  });
  if (!response.ok || !response.body) throw new Error(await problemOf(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
      if (data) show(/^id: (.*)$/m.exec(frame)?.[1] ?? '', JSON.parse(data));
    }
  }
}
