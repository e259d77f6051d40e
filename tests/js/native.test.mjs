// The package where there is only what React Native with Expo has: an AbortSignal without `reason` and
// `throwIfAborted` (abort-controller 3, in React Native up to 0.86), and in Hermes no DOMException.

import assert from 'node:assert/strict';
import test from 'node:test';

import { EVENTS, STREAM, memoryStorage, framesOf } from './relay.mjs';
import { AT_ONCE, framesIn, scriptedRelay, until } from './scripted.mjs';

/** As abort-controller 3 has it: an event, and nothing of why. */
class OldSignal extends EventTarget {
  aborted = false;
}
class OldController {
  signal = new OldSignal();
  abort() {
    if (this.signal.aborted) return;
    this.signal.aborted = true;
    this.signal.dispatchEvent(new Event('abort'));
  }
}

const LATER = [[Array.prototype, 'with', 'toSorted', 'toSpliced', 'toReversed', 'findLast', 'findLastIndex'], [Promise, 'withResolvers', 'try'], [Array, 'fromAsync'],
  [Object, 'groupBy'], [Map, 'groupBy'], [Response, 'json'], [URLSearchParams.prototype, 'delete', 'has', 'set', 'get', 'forEach']];
const MISSING = ['document', 'window', 'navigator', 'localStorage', 'BroadcastChannel', 'structuredClone', 'EventSource', 'AbortSignal'];

const TEXT = EVENTS.map(({ text }) => text ?? '').join('');
const FRAMES = framesOf(EVENTS, { retryMs: 0 }).split('\n\n').slice(0, -1).map((frame) => `${frame}\n\n`);
const UI = framesIn('u', [{ type: 'start' }, { type: 'text-delta', id: 't', delta: 'one ' }, { type: 'text-delta', id: 't', delta: 'two' }, { type: 'finish' }, '[DONE]']);
const URL_OF = 'http://relay.test/v1/chat';

/** Take from this process what the realm has not; `missing` of the globals too. */
function enter(t, ...missing) {
  const before = [];
  const put = (holder, name, descriptor) => {
    before.push([holder, name, Object.getOwnPropertyDescriptor(holder, name)]);
    if (descriptor) Object.defineProperty(holder, name, { ...descriptor, configurable: true });
    else delete holder[name];
  };
  for (const [holder, ...names] of LATER) for (const name of names) put(holder, name);
  for (const name of [...MISSING, ...missing]) put(globalThis, name);
  put(globalThis, 'AbortController', { value: OldController, writable: true });
  const { getRandomValues } = crypto;
  put(globalThis, 'crypto', { value: { getRandomValues: getRandomValues.bind(crypto) }, writable: true });
  t.after(() => {
    for (const [holder, name, descriptor] of before.reverse()) {
      if (descriptor) Object.defineProperty(holder, name, descriptor);
      else delete holder[name];
    }
  });
}

/** A `fetch` as Expo's: it listens to the signal, and rejects with a plain Error. */
function fetchOf(relay) {
  return (url, { signal, ...init } = {}) => new Promise((resolve, reject) => {
    const leave = () => reject(new Error('The operation was aborted.'));
    if (signal?.aborted) return leave();
    signal?.addEventListener('abort', leave);
    relay.fetch(url, init).then(resolve, (cause) => reject(new Error(`fetch failed: ${cause.message}`)));
  });
}

async function textOf(stream) {
  let text = '';
  for await (const { event } of stream) text += event.text ?? '';
  return text;
}

for (const [realm, ...missing] of [['without DOMException and atob', 'DOMException', 'atob'], ['with DOMException']]) {
  const native = (name, run) => test(`React Native ${realm}: ${name}`, async (t) => {
    enter(t, ...missing);
    const [client, store, sdk, tools] = await Promise.all(['seseragi', 'store', 'ai-sdk', 'tools'].map((module) => import(`../../static/${module}.js`)));
    await run({ ...client, ...store, ...sdk, ...tools });
  });
  const leaves = (error) => error.name === 'AbortError' && (missing.length > 0) === !(globalThis.DOMException && error instanceof DOMException);

  native('an answer that is cut at any byte is whole', async ({ chat }) => {
    for (let at = 0; at < Buffer.byteLength(FRAMES.join('')); at += 5) {
      let bodies = 0;
      const relay = scriptedRelay([FRAMES], { cut: () => (bodies++ === 0 ? at : Infinity) });
      assert.equal(await textOf(chat({ messages: [] }, { ...AT_ONCE, url: URL_OF, fetch: fetchOf(relay), idempotencyKey: 'k' })), TEXT, `cut at ${at}`);
    }
  });

  native('a silent connection is replaced, before its head and in the body', async ({ chat, resume }) => {
    for (const silent of ['head', 'body']) {
      let gets = 0;
      const relay = scriptedRelay([FRAMES], { cut: (size, { gets: { length } }) => (length === (silent === 'body' ? 1 : 0) ? size - 150 : Infinity) });
      const script = relay.fetch;
      relay.keys.set('k', 0);
      relay.fetch = (url, init) => {
        gets += 1;
        relay.held = gets === 1 ? new Promise(() => {}) : null;
        return silent === 'head' && gets === 1 ? new Promise(() => {}) : script(url, init);
      };
      assert.equal(await textOf(resume(STREAM, { ...AT_ONCE, stallMs: 30, url: URL_OF, fetch: fetchOf(relay) })), TEXT);
      assert.equal(gets, 2, silent);
    }
  });

  native('leaving throws an AbortError: by disconnect(), and by a signal', async ({ chat, readEvents }) => {
    for (const how of ['disconnect', 'signal', 'before']) {
      const relay = scriptedRelay([FRAMES]);
      const controller = new AbortController();
      if (how === 'before') controller.abort();
      const stream = chat({ messages: [] }, { ...AT_ONCE, url: URL_OF, fetch: fetchOf(relay), signal: controller.signal });
      const read = async () => {
        for await (const _ of stream) {
          if (how === 'disconnect') stream.disconnect();
          else controller.abort();
        }
      };
      await assert.rejects(read(), leaves, how);
      const events = async () => {
        const response = await scriptedRelay([FRAMES]).fetch(URL_OF, { method: 'POST', body: '{}' });
        for await (const _ of readEvents(response, { signal: controller.signal })) controller.abort();
      };
      await assert.rejects(events(), leaves);
    }
  });

  native('a conversation is answered, stored, stopped and read on', async ({ ChatStore }) => {
    const storage = memoryStorage();
    const relay = scriptedRelay([FRAMES, FRAMES.map((frame) => frame.replaceAll(STREAM, 'st_1'))], { cut: (size, { posts }) => (posts.length === 2 ? size - 150 : Infinity) });
    const options = { ...AT_ONCE, url: URL_OF, fetch: fetchOf(relay), storage, credential: async () => ({ value: 'ek_e30.e30.c2ln', expires_at: 2e9 }) };
    const chat = new ChatStore(options);
    chat.subscribe(() => {});
    chat.send('hi');
    await until(() => chat.getSnapshot().messages.at(-1)?.status === 'completed');
    relay.held = new Promise(() => {});
    chat.send('more');
    await until(() => chat.getSnapshot().status === 'streaming');
    await chat.stop();
    assert.equal(relay.cancels.length, 1);
    relay.held = null;
    chat.setMessages(chat.getSnapshot().messages);
    const again = new ChatStore(options);
    again.subscribe(() => {});
    await until(() => again.getSnapshot().messages.length === 4);

    assert.deepEqual([chat.getSnapshot().error, again.getSnapshot().messages[1].status], [null, 'completed']);
  });

  native('the transport of the AI SDK answers, and says what was refused', async ({ SeseragiChatTransport }) => {
    let refused = false;
    const relay = scriptedRelay([UI], { refuse: () => (refused ? new Response('slower', { status: 429, headers: { 'content-type': 'text/plain', 'x-request-id': 'r' } }) : null) });
    const transport = new SeseragiChatTransport({ ...AT_ONCE, api: 'http://relay.test/v1/ui/chat', fetch: fetchOf(relay) });
    const send = () => transport.sendMessages({ chatId: 'c', messages: [], trigger: 'submit-message' });
    let text = '';
    const reader = (await send()).getReader();
    for (let read; !(read = await reader.read()).done; ) text += read.value.delta ?? '';

    assert.equal(text, 'one two');
    refused = true;
    await assert.rejects(send(), { message: 'slower', status: 429 });
  });

  native('a tool that is stopped is no output', async ({ runCall }) => {
    const controller = new AbortController();
    const run = () => { controller.abort(); throw new Error('stopped'); };
    await assert.rejects(runCall({ id: 'c', name: 'f', arguments: '{}' }, { f: { run } }, { signal: controller.signal }), leaves);
  });
}
