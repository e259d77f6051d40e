/**
 * A conversation outside of any framework: messages with their parts, and what is going on.
 *
 *     const chat = new ChatStore({ request: { model: 'demo' }, storage: () => localStorage });
 *     chat.subscribe(() => draw(chat.getSnapshot()));
 *     chat.send('こんにちは');
 *
 * `seseragi/react` draws it, and anything that knows `subscribe` and a snapshot can.
 *
 * Its rules: one generation a turn, also where a page is mounted twice or loaded again: each turn
 * has an idempotency key from its beginning. Each event is taken once: parts are kept together
 * with the cursor behind them. What is stored is a copy: a tab takes it only where another tab
 * has stored it later, and a write that is refused costs the resumption after a reload alone.
 * Nothing is read or sent before `subscribe` or `send`, nor before it is known whose credential it
 * is: a record is of one owner, and no other's is read.
 *
 * @module seseragi/store
 */

import { newId } from './ids.js';
import { Keeper } from './kept.js';
import { AnswerParts } from './parts.js';
import { SeseragiError, abortError, besides, chat, forgetCredential, readCredential, resume } from './seseragi.js';
import { SharedReading } from './shared.js';
import { finalCalls, runCall } from './tools.js';
import { pendingCalls, requestOf, tell, withOutputs } from './turns.js';
import { OwnerWatch } from './watch.js';

/** @typedef {import('./parts.d.ts').AnswerMessage} AnswerMessage */
/** @typedef {import('./parts.d.ts').ChatMessage} ChatMessage */
/** @typedef {import('./store.d.ts').ChatSnapshot} ChatSnapshot */
/** @typedef {import('./store.d.ts').ChatStoreOptions} ChatStoreOptions */
/** @typedef {import('./kept.js').Turn} Turn */

const GONE = new Set([404, 409, 410]);
const FRAME_MS = 16;
const OTHER_TAB_MS = 5000;
const STOP_MS = 2000;

export class ChatStore {
  /** What may change while it lives, such as functions of a component. @type {ChatStoreOptions} */
  options;
  /** @type {ChatMessage[]} */
  #messages;
  /** @type {Turn|null} */
  #turn = null;
  /** The answer to `#turn` so far. */
  #answer = new AnswerParts();
  /** What reads `#turn`, if anything does. @type {import('./seseragi.d.ts').ChatStream|SharedReading|null} */
  #reading = null;
  /** @type {unknown} */
  #error = null;
  /** Running tools of the page. @type {AbortController|null} */
  #work = null;
  #isOwn = false; // whether the turn was started or found by this page, and not by another tab
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /** @type {(() => void)|null} */
  #unlisten = null;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #painting;
  /** For another tab to say which stream the turn has. @type {ReturnType<typeof setTimeout>|undefined} */
  #waiting;
  /** @type {ChatSnapshot} */
  #snapshot;
  #first;
  #keeper;
  /** The questions that wait until the owner is known, and what they have stored. @type {string[]} */
  #pending = [];
  #isReplaced = false; // by `setMessages`, before anything was read
  /** @type {OwnerWatch|null} */
  #watch = null;
  /** The streams that are this page's already. @type {Set<string>} */
  #known = new Set();
  /** Those of this conversation that a watch has told of during a turn. @type {string[]} */
  #noticed = [];
  /** @type {Promise<void>|null} */
  #opening = null;

  /** @param {ChatStoreOptions} [options] */
  constructor(options = {}) {
    this.options = options;
    this.id = options.id ?? 'chat';
    this.owner = options.owner;
    this.#keeper = new Keeper(this.id, () => this.options.storage);
    this.#messages = [...options.messages ?? []];
    this.#first = this.#snapshot = this.#look();
  }

  // ---- For those who draw it

  getSnapshot = () => this.#snapshot;

  /** As it is before anything was read: what a server draws, and a page before its first effect. */
  getServerSnapshot = () => this.#first;

  /**
   * Be told of changes. The first to listen has the stored conversation read, and a running answer
   * read on; when the last one has gone the answer is left to the relay, for the next who comes.
   * @param {() => void} listener
   */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    this.#attach();
    return () => {
      this.#listeners.delete(listener);
      // React's StrictMode comes back at once.
      setTimeout(() => { if (this.#listeners.size === 0) this.#detach(); });
    };
  };

  // ---- What a user does

  /**
   * Say something and have it answered. While an answer is given it does nothing.
   * @param {string|import('./parts.d.ts').ContentPart[]} content
   * @param {{id?: string}} [options] a message with an `id` that is there already is not sent again
   * @returns {boolean} whether it was sent
   */
  send = (content, { id = newId() } = {}) => {
    const isKnown = this.#know();
    this.#catchUp();
    if (this.#busy || this.#messages.some((message) => message.id === id)) return false;
    const parts = typeof content === 'string' ? [{ type: /** @type {const} */ ('text'), text: content }] : content;
    /** @type {ChatMessage} */
    const message = { id, role: 'user', parts };
    if (isKnown) return this.#ask([...this.#messages, message]);
    this.#pending.push(id);
    this.#messages = [...this.#messages, message];
    if (this.#opening) this.#error = null;
    this.#show();
    return true;
  };

  /** Stop the answer, wherever it was asked for. What came of it stays. */
  stop = async () => {
    this.#drop();
    this.#mark(this.#pending, 'unsent');
    this.#pending = [];
    // Nobody has said yet which stream it is, and nobody may: nothing will be asked for.
    if (this.#turn && this.#waiting !== undefined) this.#fail(abortError('stopped'), this.#turn);
    const turn = this.#turn;
    const late = setTimeout(() => { // the other tabs may hold all connections
      if (turn && turn === this.#turn) turn.isStopping = true;
      this.#store();
    }, STOP_MS);
    await Promise.resolve(this.#reading?.cancel()).finally(() => clearTimeout(late));
  };

  /** Go on after a failure: with the answer, if its stream is there yet, else with another one. @returns {boolean} */
  retry = () => {
    if (!this.#know()) {
      if (this.#opening) this.#error = null;
      this.#show();
      return this.#opening !== null;
    }
    this.#catchUp();
    if (this.#reading || this.#work) return false;
    if (this.#turn) {
      this.#isOwn = true;
      this.#read();
      return true;
    }
    const last = this.#messages.at(-1);
    if (last?.role === 'assistant' && pendingCalls(last).length) {
      this.#act(last, 1);
      return true;
    }
    if (last?.status === 'unsent') this.#mark([last.id]);
    const messages = last?.role === 'assistant' ? this.#messages.slice(0, -1) : this.#messages;
    return messages.length > 0 && this.#ask(messages);
  };

  /**
   * Give the result of a tool call that no function of `tools` runs. After the last of an answer
   * the conversation goes on.
   * @param {string} id
   * @param {unknown} output
   * @param {{isError?: boolean}} [options]
   */
  addToolOutput = (id, output, { isError = false } = {}) => {
    this.#catchUp();
    const message = this.#messages.at(-1);
    if (this.#busy || message?.role !== 'assistant' || !pendingCalls(message).some((call) => call.id === id)) return false;
    const text = typeof output === 'string' ? output : JSON.stringify(output) ?? '';
    const answered = this.#amend(message.id, { parts: withOutputs(message.parts, [{ id, output: text, ...(isError && { isError }) }]) });
    this.#store();
    this.#goOn(answered, 1);
    this.#show();
    return true;
  };

  /** Remove a message, such as one that was refused. While an answer is given it does nothing. @param {string} id */
  remove = (id) => {
    this.#catchUp();
    if (this.#busy || !this.#messages.some((message) => message.id === id)) return false;
    const answer = this.#turn?.key;
    this.setMessages(this.#messages.filter((message) => message.id !== id && message.id !== answer));
    return true;
  };

  /** Replace the conversation; a running answer is left. @param {readonly ChatMessage[]} messages */
  setMessages = (messages) => {
    this.#leave();
    this.#drop();
    this.#turn = null;
    this.#messages = [...messages];
    this.#pending = [];
    this.#isReplaced = !this.#keeper.isOpen;
    this.#error = this.#keeper.error = null;
    this.#store();
    this.#show();
  };

  /** Forget the conversation here, in the storage and in other tabs, as when its user signs out; a running answer is left. */
  forget = () => {
    this.#keeper.remove();
    this.#empty();
    forgetCredential(this.options.credential);
  };

  #empty = () => {
    this.#closeWatch();
    this.#keeper.close();
    this.setMessages([]);
    this.#isReplaced = false;
  };

  // ---- Whose it is

  /** Find out whose conversation it is, if something is stored. @returns {boolean} whether that is known */
  #know() {
    const { storage, credential } = this.options;
    if (this.#keeper.isOpen || !storage) return true;
    if (this.#opening) return false;
    /** @param {string|null} given */
    const open = (given) => this.#keeper.open(this.owner, given);
    try {
      const given = this.owner === undefined ? readCredential(credential) : null;
      if (!(given instanceof Promise)) open(given);
      else {
        this.#opening = given.then((value) => {
          open(value);
          if (this.#unlisten || this.#pending.length) this.#arrive();
        }).catch((error) => {
          this.#error = error;
          this.#mark(this.#pending, 'unsent');
        }).finally(() => {
          this.#opening = null;
          this.#show();
        });
      }
    } catch (error) {
      this.#error = error;
    }
    return this.#keeper.isOpen;
  }

  /** Take what the owner has stored, and then send what was to be sent meanwhile. */
  #arrive() {
    this.#openWatch();
    if (this.#isReplaced) this.#store();
    else this.#catchUp();
    this.#begin();
    this.#flush();
  }

  #flush() {
    if (!this.#pending.length || this.#turn || this.#work) return;
    this.#mark(this.#pending, 'unsent'); // one question a turn: the last
    this.#mark(this.#pending.splice(0).slice(-1));
    this.#ask(this.#messages);
  }

  // ---- A turn

  get #busy() {
    return ((this.#turn !== null || this.#pending.length > 0) && this.#error === null) || this.#work !== null;
  }

  /** End the work of tools; what they give counts no more. */
  #drop() {
    this.#work?.abort(abortError('stopped'));
    this.#work = null;
    this.#show();
  }

  /** @param {ChatMessage[]} messages @param {number} [step] */
  #ask(messages, step = 1) {
    const request = requestOf(messages, this.options);
    const key = newId();
    // One that could not be read on, and that nobody asked to retry.
    messages = messages.map((message) => (message.status === 'running' ? { ...message, status: 'lost' } : message));
    this.#turn = { key, stream: null, cursor: null, request, step };
    this.#messages = messages;
    this.#answerIn(true);
    return true;
  }

  /** Begin the answer of the turn. @param {boolean} isOwn */
  #answerIn(isOwn) {
    const { key, stream } = /** @type {Turn} */ (this.#turn);
    this.#answer = new AnswerParts();
    this.#messages = [...this.#messages, { id: key, role: 'assistant', parts: [], status: 'running', ...(stream && { streamId: stream }) }];
    this.#isOwn = isOwn;
    this.#store();
    this.#read();
  }

  /** Read the turn's answer, on from its cursor. */
  #read() {
    const turn = /** @type {Turn} */ (this.#turn);
    const { id: _, owner: _o, request: _r, messages: _m, tools: _t, maxSteps: _s, storage: _st, onEvent, onFinish: _f, ...options } = this.options;
    this.#error = null;
    this.#leave();
    this.#openWatch();
    /** @param {string|null} after */
    const begin = (after) => (turn.stream === null ? chat(/** @type {import('./seseragi.d.ts').ChatRequest} */ (turn.request), { ...options, idempotencyKey: turn.key })
      : resume(turn.stream, { ...options, after }));
    const name = this.#keeper.nameOf(turn);
    const reading = this.#reading = name === null ? begin(turn.cursor) : new SharedReading(name, begin, turn.cursor, this.#isOwn, this.#watch);
    reading.addEventListener('statechange', () => { if (reading === this.#reading) this.#show(); });
    this.#show();
    this.#follow(reading, turn).catch((error) => { if (reading === this.#reading) this.#fail(error, turn); });
  }

  /** @param {import('./seseragi.d.ts').ChatStream|SharedReading} reading @param {Turn} turn */
  async #follow(reading, turn) {
    for await (const received of reading) {
      if (reading !== this.#reading) return;
      const { id, event } = received;
      turn.cursor = id;
      const changed = this.#answer.receive(event);
      if (event.type === 'stream.start') {
        Object.assign(turn, { stream: event.stream, request: null });
        this.#known.add(event.stream);
        this.#amend(turn.key, { streamId: event.stream, model: event.model });
        if (!this.#storeOf(turn)) return;
        this.#show();
      } else if (event.type === 'stream.end') {
        this.#end(event, turn);
      } else if (changed) {
        this.#painting ??= setTimeout(() => this.#show(), FRAME_MS);
      }
      tell(this.options.onEvent, received);
    }
  }

  /** @param {import('./seseragi.d.ts').StreamEnd} end @param {Turn} turn */
  #end({ status, finish_reason: finishReason, usage, cost, error }, turn) {
    this.#reading = null;
    const message = this.#amend(turn.key, { parts: this.#answer.parts, status, finishReason, usage, cost, error });
    this.#turn = null;
    this.#error = error ?? null;
    if (!this.#storeOf(turn)) return;
    if (!turn.isElsewhere) this.#goOn(message, turn.step);
    this.#flush();
    this.#takeNoticed();
    this.#show();
    if (!this.#busy) tell(this.options.onFinish, message);
  }

  /** @param {any} error @param {Turn} turn */
  #fail(error, turn) {
    this.#leave();
    const stopped = error?.name === 'AbortError';
    const last = turn.stream === null || error?.code === 'end_missing' || GONE.has(error?.status);
    // What may be there yet stays the turn: `retry` reads on.
    if (stopped || (last && !(error instanceof SeseragiError && error.status === 0 && error.retryable))) {
      const empty = turn.stream === null && !stopped;
      this.#messages = empty ? this.#messages.filter(({ id }) => id !== turn.key) : this.#messages;
      if (!empty) this.#amend(turn.key, { parts: this.#answer.parts, status: stopped ? 'cancelled' : 'lost' });
      this.#turn = null;
      // What was refused would be refused again with all that follows.
      const asked = this.#messages.at(-1);
      if (empty && asked && asked.role !== 'assistant') this.#mark([asked.id], 'unsent');
    }
    if (!stopped) this.#error = error;
    if (this.#storeOf(turn)) this.#show();
    this.#flush();
    this.#takeNoticed();
  }

  // ---- Tools

  /** Go on from an answer, where it has calls: run them, or send what they gave. @param {AnswerMessage} message @param {number} step */
  #goOn(message, step) {
    if (!finalCalls(message).length || step >= (this.options.maxSteps ?? 10)) return;
    const { tools = {} } = this.options;
    if (!pendingCalls(message).length) this.#ask(this.#messages, step + 1);
    else if (pendingCalls(message).some(({ name }) => Object.hasOwn(tools, name) && tools[name].run)) this.#act(message, step);
  }

  /** Run the calls of an answer that the page can run: in one tab, where several read it. @param {AnswerMessage} message @param {number} step */
  async #act(message, step) {
    const work = this.#work = new AbortController();
    const { signal } = work;
    const run = async () => {
      this.#catchUp();
      const found = this.#messages.find(({ id }) => id === message.id);
      if (this.#work !== work || this.#turn || found?.role !== 'assistant') return;
      const results = await Promise.all(pendingCalls(found).map((call) => runCall(call, this.options.tools ?? {}, { signal })));
      this.#catchUp();
      if (this.#work !== work || this.#turn || this.#messages.at(-1)?.id !== found.id) return; // stopped, or another tab has gone on
      this.#work = null;
      const answered = this.#amend(found.id, { parts: withOutputs(found.parts, results.filter((result) => result !== null)) });
      this.#store();
      if (!pendingCalls(answered).length) this.#goOn(answered, step);
    };
    try {
      await this.#keeper.alone(run, this.#isOwn);
    } catch (error) {
      if (!signal.aborted) this.#error = error;
    } finally {
      if (this.#work === work) this.#work = null;
      this.#flush();
      this.#show();
    }
  }

  // ---- Other devices

  #openWatch() {
    const { url, credential, headers, fetch, stallMs, streamsUrl = besides(url && `${url}`) } = this.options;
    const name = this.#unlisten && this.#keeper.watchName(streamsUrl);
    if (!name || this.#watch) return;
    this.#watch = new OwnerWatch(name, { streamsUrl, credential, headers, fetch, stallMs }, ({ stream, metadata }) => {
      const { request } = this.options;
      const name = typeof request === 'object' ? request.chat : undefined;
      if (name === undefined || metadata?.chat !== name) return;
      this.#noticed.push(stream);
      this.#takeNoticed();
    });
  }

  #closeWatch() {
    this.#watch?.close();
    this.#watch = null;
    this.#noticed = [];
  }

  /** Read an answer to this conversation that another device has asked for. */
  #takeNoticed() {
    const isFree = () => !this.#turn && !this.#busy && this.#error === null;
    while (this.#noticed.length && isFree()) {
      this.#catchUp();
      if (!isFree()) return;
      const stream = /** @type {string} */ (this.#noticed.shift());
      if (this.#known.has(stream) || this.#messages.some((message) => message.role === 'assistant' && message.streamId === stream)) continue;
      this.#known.add(stream);
      this.#turn = { key: stream, stream, cursor: null, request: null, step: 1, isElsewhere: true };
      this.#answerIn(false);
    }
  }

  // ---- What is seen

  /** @param {string} id @param {Partial<AnswerMessage>} changes */
  #amend(id, changes) {
    const said = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
    const at = this.#messages.findIndex((message) => message.id === id);
    const message = /** @type {AnswerMessage} */ ({ ...this.#messages[at], ...said });
    this.#messages = this.#messages.map((other, index) => (index === at ? message : other));
    return message;
  }

  /** Mark questions as not sent, or no longer. @param {string[]} ids @param {'unsent'} [status] */
  #mark(ids, status) {
    this.#messages = this.#messages.map((message) => {
      if (message.role === 'assistant' || !ids.includes(message.id)) return message;
      const { status: _, ...asked } = message;
      return status ? { ...asked, status } : asked;
    });
  }

  #show() {
    clearTimeout(this.#painting);
    this.#painting = undefined;
    if (this.#turn && this.#messages.some(({ id }) => id === this.#turn?.key)) this.#amend(this.#turn.key, { parts: [...this.#answer.parts] });
    this.#snapshot = this.#look();
    for (const listener of [...this.#listeners]) tell(listener, undefined);
  }

  /** @returns {ChatSnapshot} */
  #look() {
    const { readyState, problem } = this.#reading ?? {};
    const isRunning = this.#turn !== null && this.#error === null;
    return {
      messages: this.#messages,
      status: this.#error !== null ? 'error' : isRunning && this.#turn?.cursor ? 'streaming' : isRunning || this.#work || this.#pending.length ? 'submitted' : 'ready',
      error: /** @type {any} */ (this.#error),
      storageError: this.#keeper.error,
      isReconnecting: readyState === 'reconnecting' || Boolean(problem),
    };
  }

  // ---- What is stored, for a reload and for other tabs

  #store() {
    this.#keeper.store(this.#messages, this.#turn);
  }

  /** Store what has become of a turn, unless another tab is further on: then take that. @param {Turn} turn */
  #storeOf(turn) {
    const news = this.#keeper.news(this.#messages);
    const isBehind = news !== null && news.kept.turn?.key !== turn.key;
    if (isBehind) this.#adopt(news.kept);
    else this.#store();
    return !isBehind;
  }

  /** Take what is stored, by this page before it was loaded again or by another tab since. */
  #catchUp() {
    const news = this.#keeper.news(this.#messages);
    // Of an answer that has ended elsewhere this page reads the end as well.
    const isRead = news?.kept.turn === null && this.#reading && news.kept.messages.some(({ id }) => id === this.#turn?.key);
    if (news && !isRead) this.#adopt(news.kept, news);
  }

  /** @param {import('./kept.js').Kept} kept @param {{isOwn?: boolean}} [options] */
  #adopt(kept, { isOwn = false } = {}) {
    const { messages, turn } = kept;
    this.#keeper.take(kept);
    const isSame = turn !== null && turn.key === this.#turn?.key;
    if (isSame && this.#reading && turn.isStopping && !this.#turn?.isStopping) {
      Object.assign(this.#turn ?? {}, { isStopping: true });
      this.#leave(); // where it is stopped has the connection first
      this.#waiting = setTimeout(() => this.#read(), OTHER_TAB_MS);
    }
    if (isSame && (this.#reading || this.#waiting || !turn.stream)) return;
    this.#leave();
    this.#isOwn = isOwn;
    this.#messages = [...messages, ...this.#messages.filter(({ id }) => this.#pending.includes(id))];
    this.#turn = turn;
    this.#error = null;
    const last = messages.find(({ id }) => id === turn?.key);
    this.#answer = new AnswerParts(last?.role === 'assistant' ? last.parts : []);
    this.#begin();
    this.#show();
  }

  /** Read the turn, unless another tab is asking just now: that will say which stream it is. */
  #begin() {
    if (!this.#turn || this.#reading || this.#error) return;
    if (this.#turn.stream || this.#isOwn || this.#keeper.nameOf(this.#turn)) this.#read();
    // It may be gone. If it is not, the same key comes to the same stream.
    else this.#waiting ??= setTimeout(() => this.#read(), OTHER_TAB_MS);
  }

  #leave() {
    clearTimeout(this.#waiting);
    this.#waiting = undefined;
    const reading = this.#reading;
    this.#reading = null;
    reading?.disconnect();
  }

  #attach() {
    if (this.#unlisten) return;
    this.#unlisten = this.#keeper.listen(() => this.#catchUp(), this.#empty, () => this.#keepParts());
    if (this.#know()) this.#arrive();
    else this.#show();
  }

  /** Store the parts with their cursor. */
  #keepParts() {
    if (!this.#turn || this.#waiting !== undefined) return;
    this.#show();
    this.#storeOf(this.#turn);
  }

  #detach() {
    this.#unlisten?.();
    this.#unlisten = null;
    this.#keepParts();
    this.#leave();
    this.#closeWatch();
  }
}
