/**
 * An agent of AG-UI over the relay that comes back by itself.
 *
 *     const agent = new SeseragiAgent({ url: '/v1/ag-ui', threadId, storage: sessionStorage });
 *     await agent.connectAgent(); // after a reload: the run that was going on
 *     await agent.runAgent({ forwardedProps: { model: 'demo' } });
 *
 * A connection that is lost is continued from the last event: subscribers are not told, and are
 * given each event once. `abortRun()` stops the model, `detachActiveRun()` only leaves.
 *
 * @module seseragi/ag-ui
 */

import { AbstractAgent } from '@ag-ui/client';
import { EMPTY, Observable } from 'rxjs';

import { newId } from './ids.js';
import { ChatStream, SeseragiError } from './seseragi.js';

/** @typedef {import('./ag-ui.d.ts').SeseragiAgentConfig} SeseragiAgentConfig */
/** @typedef {import('./seseragi.d.ts').ClientStorage} ClientStorage */
/** @typedef {{type: string, messageId?: string, parentMessageId?: string, toolCallId?: string, delta?: string, content?: string}} AgUiEvent */

/**
 * What is kept of a run: its stream, the ids of the messages that it has made, and once it has
 * ended how much it said in them, for pages that know a part.
 * @typedef {{stream: string, made: string[], size?: number}} Kept
 */

const ENDS = new Set(['RUN_FINISHED', 'RUN_ERROR']);
const GONE = new Set([204, 404, 409, 410]);
const LINGER_S = 60;

/** @type {import('./seseragi.d.ts').Dialect<AgUiEvent>} */
const AG_UI = { format: 'ag_ui', parse: (data) => JSON.parse(data), ends: ({ type }) => ENDS.has(type) };

// `clone()` of AbstractAgent makes its copy without a constructor: no private fields here.
export class SeseragiAgent extends AbstractAgent {
  /** @param {SeseragiAgentConfig} [config] */
  constructor({ url = '/v1/ag-ui', credential, headers, fetch, streamsUrl, onDisconnect = LINGER_S, storage, reading = {}, ...config } = {}) {
    super(config);
    this.url = url;
    this.onDisconnect = onDisconnect;
    this.storage = storage;
    const relay = /^(.*)\/ag-ui\/?(\?.*)?$/s.exec(url)?.[1];
    this.reading = { ...reading, credential, headers, fetch, streamsUrl: streamsUrl ?? (relay === undefined ? undefined : `${relay}/streams`) };
    /** @type {ChatStream<AgUiEvent>|null} */
    this.stream = null;
    /** Of the stream, where it was opened before its run. @type {AsyncGenerator<{id: string, event: AgUiEvent, data: string}, void, void>|null} */
    this.events = null;
    /** The run that goes on. @type {Promise<any>|null} */
    this.going = null;
    /** What the next one waits for. @type {Promise<any>|null} */
    this.before = null;
    this.last = { isLeft: false }; // the run that was begun last
    this.current = this.last; // the one that is before its end, or was
  }

  /** @type {NonNullable<AbstractAgent['getCapabilities']>} */
  async getCapabilities() {
    return { transport: { streaming: true, resumable: true }, tools: { supported: true, clientProvided: true } };
  }

  /** Run; while a run goes on, come to its end instead. @type {AbstractAgent['runAgent']} */
  runAgent(parameters, subscriber) {
    return this.going ?? this.go(() => super.runAgent(parameters, subscriber));
  }

  /**
   * Take up the run of this thread that the storage knows, from its beginning; without one, or
   * where it is known whole, it does nothing.
   * @type {AbstractAgent['connectAgent']}
   */
  connectAgent(parameters, subscriber) {
    return this.going ?? this.go(async () => {
      const kept = this.kept();
      if (!kept || !this.lacks(kept) || !await this.open(kept)) return { result: undefined, newMessages: [] };
      // The run says again what it has said: to whom has it already, it would be twice as long.
      if (this.messages.some(({ id }) => kept.made.includes(id))) this.setMessages(this.messages.filter(({ id }) => !kept.made.includes(id)));
      return super.connectAgent(parameters, subscriber);
    });
  }

  /** @type {AbstractAgent['run']} */
  run(input) {
    const { forwardedProps } = input;
    const request = { ...input, forwardedProps: { on_disconnect: this.onDisconnect, ...forwardedProps } };
    this.keep(null);
    this.stream = new ChatStream(request, { ...this.reading, url: this.url, idempotencyKey: newId(), dialect: AG_UI });
    return this.observe(this.stream, this.stream[Symbol.asyncIterator]());
  }

  connect() {
    const { stream, events } = this;
    return stream && events ? this.observe(stream, events) : EMPTY;
  }

  /** Wait for the first event of a run; false where there is nothing to come back to. @param {Kept} kept */
  async open({ stream }) {
    const run = this.stream = new ChatStream(null, { ...this.reading, stream, dialect: AG_UI });
    const events = run[Symbol.asyncIterator]();
    try {
      const first = await events.next();
      this.events = (async function* () {
        if (!first.done) yield first.value;
        yield* events;
      })();
      return true;
    } catch (error) {
      if (/** @type {any} */ (error)?.name === 'AbortError') return false;
      if (!(error instanceof SeseragiError && GONE.has(error.status))) throw error;
      this.keep(null);
      return false;
    }
  }

  /** Whether the conversation may lack a part of a run, and has not gone on from it. @param {Kept} kept */
  lacks({ made, size }) {
    const known = this.messages.filter(({ id }) => made.includes(id));
    if (known.length && !known.includes(/** @type {any} */ (this.messages.at(-1)))) return false;
    const said = known.flatMap((/** @type {any} */ { content, toolCalls = [] }) => [content ?? '', ...toolCalls.map((/** @type {any} */ call) => call.function.arguments)]);
    return said.join('').length !== size;
  }

  /** Stop the model; the run ends as cancelled, for all its readers. */
  abortRun() {
    this.stream?.cancel().catch(() => {}); // the run itself tells what is wrong
  }

  /** Leave the run to the relay; `connectAgent` takes it up. */
  async detachActiveRun() {
    const { going } = this;
    if (!going) return;
    this.last.isLeft = true;
    this.going = null;
    this.before = going.catch(() => {});
    this.stream?.disconnect();
    await super.detachActiveRun();
    await this.before;
  }

  clone() {
    const { url, onDisconnect, storage, reading } = this;
    return Object.assign(super.clone(), { url, onDisconnect, storage, reading, stream: null, events: null, going: null, before: null, last: { isLeft: false } });
  }

  /** One run after the other. @template T @param {() => Promise<T>} begin */
  go(begin) {
    const run = this.last = { isLeft: false };
    const begun = Promise.resolve(this.before).then(() => {
      this.current = run;
      return begin();
    });
    const going = begun.finally(() => { if (this.going === going) this.going = null; });
    this.going = going;
    return going;
  }

  /**
   * @param {ChatStream<AgUiEvent>} stream
   * @param {AsyncGenerator<{event: AgUiEvent}, void, void>} events
   * @returns {Observable<any>}
   */
  observe(stream, events) {
    return new Observable((observer) => {
      if (this.current.isLeft) stream.disconnect();
      const said = { made: /** @type {string[]} */ ([]), size: 0 };
      const read = async () => {
        for await (const { event } of events) {
          this.note(event, stream, said);
          observer.next(event);
        }
      };
      read().then(() => observer.complete(), (error) => observer.error(error));
      return () => stream.disconnect();
    });
  }

  /** Keep what the run has made before its subscribers see it. @param {AgUiEvent} event @param {ChatStream<AgUiEvent>} stream @param {{made: string[], size: number}} said */
  note({ type, messageId, parentMessageId, toolCallId, delta = '', content = '' }, stream, said) {
    const id = type === 'TOOL_CALL_START' ? parentMessageId ?? toolCallId : messageId;
    const isNew = id !== undefined && !said.made.includes(id);
    if (isNew) said.made.push(id);
    said.size += delta.length + content.length;
    const run = { stream: /** @type {string} */ (stream.streamId), made: said.made };
    if (ENDS.has(type)) this.keep({ ...run, size: said.size });
    else if (type === 'RUN_STARTED' || isNew) this.keep(run);
  }

  /** @param {Kept|null} run */
  keep(run) {
    try {
      if (run) this.storage?.setItem(`seseragi.ag-ui.${this.threadId}`, JSON.stringify(run));
      else this.storage?.removeItem(`seseragi.ag-ui.${this.threadId}`);
    } catch {} // full or forbidden: a reload then begins anew
  }

  /** @returns {Kept|null} */
  kept() {
    try {
      const run = JSON.parse(this.storage?.getItem(`seseragi.ag-ui.${this.threadId}`) ?? 'null');
      return typeof run?.stream === 'string' && Array.isArray(run.made) ? run : null;
    } catch {
      return null;
    }
  }
}
