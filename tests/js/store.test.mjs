// The conversation store: events to messages and back, one generation a turn, several tabs.

import assert from 'node:assert/strict';
import nodeTest from 'node:test';

import { AnswerParts, assistantMessage, requestMessages, textOf } from '../../static/parts.js';
import { ChatStore } from '../../static/store.js';
import { chatWithTools } from '../../static/tools.js';
import { EVENTS, framesOf, memoryStorage, settle, STREAM } from './relay.mjs';
import { AT_ONCE, scriptedRelay, until } from './scripted.mjs';

const TEXT = EVENTS.map(({ text }) => text ?? '').join('');
const CALL = { id: 'call_1', name: 'add' };

/** The frames of a whole stream of these events between its start and its end. */
function answer(stream, events, end = { status: 'completed', finish_reason: 'stop' }) {
  const all = [{ type: 'stream.start', stream, model: 'demo', created: 1 }, ...events, { type: 'stream.end', ...end }];
  return framesOf(all, { retryMs: 0, stream }).split('\n\n').slice(0, -1).map((frame) => `${frame}\n\n`);
}
const said = (stream, text) => answer(stream, [{ type: 'text.start', block: 0 }, { type: 'text.delta', block: 0, text }, { type: 'text.end', block: 0 }]);
const asks = (stream, ...calls) => answer(stream, calls.flatMap(({ id, name, text }, block) => [
  { type: 'tool_call.start', block, id, name },
  { type: 'tool_call.delta', block, arguments: text.slice(0, 2) }, { type: 'tool_call.delta', block, arguments: text.slice(2) },
  { type: 'tool_call.end', block, arguments: text },
]), { status: 'completed', finish_reason: 'tool_calls' });
const PLAIN = framesOf(EVENTS, { retryMs: 0 }).split('\n\n').slice(0, -1).map((frame) => `${frame}\n\n`);

/** Which write of each storage is refused, or from which on; `most` is how many one storage was asked for. */
const writes = { refused: false, at: Infinity, andLater: false, most: 0 };

function refusing(storage) {
  let count = 0;
  return {
    ...storage,
    setItem(key, value) {
      const at = count++;
      writes.most = Math.max(writes.most, count);
      if (at === writes.at || (writes.andLater && at > writes.at)) throw new DOMException('full', 'QuotaExceededError');
      storage.setItem(key, value);
    },
  };
}

/** A test, which is run again with each write of its storages refused: alone, and with all that follow. */
function test(name, run) {
  nodeTest(name, run);
  nodeTest(`${name}: each write is refused in turn`, async (t) => {
    Object.assign(writes, { refused: true, most: 0 });
    try {
      await t.test('none', run);
      for (let at = 0; at < writes.most; at++) {
        for (const andLater of [false, true]) {
          Object.assign(writes, { at, andLater });
          await t.test(`write ${at}${andLater ? ' and all later ones' : ''}`, run);
        }
      }
    } finally {
      Object.assign(writes, { refused: false, at: Infinity, andLater: false });
    }
  });
}
/** Whether something was refused, so that a reload and other tabs may know less; a page itself never does. */
const isStoredLess = () => writes.at < Infinity;
/** The steps of a loop over bytes: not each one with each refusal. */
const every = (step) => (writes.refused ? 211 : step);

function open(relay, options = {}) {
  const storage = writes.refused ? refusing(memoryStorage()) : undefined;
  return new ChatStore({ ...AT_ONCE, fetch: relay.fetch, url: 'http://relay.test/v1/chat', request: { model: 'demo' }, storage, ...options });
}
const idle = (chat) => until(() => ['ready', 'error'].includes(chat.getSnapshot().status));
const shown = (chat) => chat.getSnapshot().messages.map((message) => [message.role, textOf(message), message.status]);
const WHOLE = [['user', 'hi', undefined], ['assistant', TEXT, 'completed']];

/** Tabs of one browser: a storage, whose events come to all but the one that wrote. */
function browser(t) {
  const storage = memoryStorage();
  const limited = refusing(storage);
  const tabs = [];
  const listeners = globalThis.addEventListener;
  const remove = globalThis.removeEventListener;
  t.after(() => { Object.assign(globalThis, { addEventListener: listeners, removeEventListener: remove }); });
  return {
    storage,
    /** Do something in a tab: what it listens for is its own. */
    tab() {
      const window = new EventTarget();
      tabs.push(window);
      const tell = (key, newValue) => {
        for (const other of tabs) if (other !== window) queueMicrotask(() => other.dispatchEvent(Object.assign(new Event('storage'), { key, newValue })));
      };
      const own = {
        ...storage,
        setItem: (key, value) => {
          limited.setItem(key, value);
          tell(key, value);
        },
        removeItem: (key) => {
          storage.removeItem(key);
          tell(key, null);
        },
      };
      return {
        storage: own,
        within: (act) => {
          globalThis.addEventListener = window.addEventListener.bind(window);
          globalThis.removeEventListener = window.removeEventListener.bind(window);
          return act();
        },
        close: () => { tabs.splice(tabs.indexOf(window), 1); window.dispatchEvent(new Event('pagehide')); },
      };
    },
  };
}

// ---- Events to messages and back

test('events of all kinds become parts by block, and the message to send back', () => {
  const parts = new AnswerParts();
  const events = [
    { type: 'stream.start', stream: STREAM, model: 'demo', created: 1 },
    { type: 'reasoning.start', block: 0 }, { type: 'reasoning.delta', block: 0, text: 'h' }, { type: 'reasoning.delta', block: 0, text: 'm' },
    { type: 'text.start', block: 1 }, { type: 'tool_call.start', block: 2, id: 'c1', name: 'add' },
    { type: 'text.delta', block: 1, text: 'so' }, { type: 'reasoning.end', block: 0, signature: 's', format: 'f' },
    { type: 'tool_call.delta', block: 2, arguments: '{"a"' }, { type: 'tool_call.end', block: 2, arguments: '{"a":1}' },
    { type: 'opaque', block: 2, format: 'g', data: { x: 1 } }, { type: 'opaque', format: 'g', data: 2 },
    { type: 'text.start', block: 3, choice: 1 }, { type: 'text.delta', block: 3, choice: 1, text: 'another' },
    { type: 'text.end', block: 1 }, { type: 'source', url: 'https://a.example' }, { type: 'a.later.event', block: 1 },
  ];
  const changed = events.map((event) => parts.receive(event));

  assert.deepEqual(changed, events.map(({ type }) => !/^(stream|a\.later)/.test(type)));
  assert.deepEqual(parts.parts.map(({ type, text, done }) => [type, text, done]), [
    ['reasoning', 'hm', true], ['text', 'so', true], ['tool_call', undefined, true], ['opaque', undefined, undefined],
    ['opaque', undefined, undefined], ['text', 'another', false], ['source', undefined, undefined],
  ]);
  assert.deepEqual(assistantMessage(parts.parts), {
    role: 'assistant',
    content: [{ type: 'reasoning', text: 'hm', signature: 's', format: 'f' }, { type: 'text', text: 'so' }, { type: 'opaque', format: 'g', data: 2 }],
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' }, opaque: [{ format: 'g', data: { x: 1 } }] }],
  });
  // Begun anew from what was kept, at any event, it comes to the same.
  for (let at = 0; at < events.length; at++) {
    const before = new AnswerParts();
    for (const event of events.slice(0, at)) before.receive(event);
    const after = new AnswerParts(JSON.parse(JSON.stringify(before.parts)));
    for (const event of events.slice(at)) after.receive(event);
    assert.deepEqual(after.parts, parts.parts);
  }
});

test('calls without an output and answers without words are not sent', () => {
  const call = { type: 'tool_call', block: 0, id: 'c1', name: 'add', arguments: '{}', done: true };
  const user = { id: 'u', role: 'user', parts: [{ type: 'text', text: 'hi' }] };
  const say = (status, ...parts) => ({ id: 'a', role: 'assistant', parts, status });

  assert.deepEqual(requestMessages([user, say('completed', call), say('failed')]), [{ role: 'user', content: 'hi' }]);
  assert.deepEqual(requestMessages([say('cancelled', { ...call, output: 'x' })]), []);
  assert.deepEqual(requestMessages([say('completed', { ...call, output: 'no', isError: true })])[1], { role: 'tool', tool_call_id: 'c1', content: 'no', is_error: true });
  const picture = [{ type: 'image_url', image_url: { url: 'data:,' } }];
  assert.deepEqual(requestMessages([{ id: 'u', role: 'user', parts: picture }]), [{ role: 'user', content: picture }]);
});

// ---- Turns

test('an answer that is cut at any byte is one answer, asked for once', async () => {
  const bytes = Buffer.byteLength(PLAIN.join(''));
  for (let at = 0; at < bytes; at += every(1)) {
    let bodies = 0;
    const relay = scriptedRelay([PLAIN], { cut: (size) => [at, Math.floor(size / 2)][bodies++] ?? Infinity });
    const chat = open(relay);
    const seen = [];
    chat.options.onEvent = ({ event }) => seen.push(event);
    assert.equal(chat.send('hi'), true);
    await idle(chat);

    assert.deepEqual(shown(chat), WHOLE, `cut at ${at}`);
    assert.deepEqual(seen, EVENTS);
    assert.equal(new Set(relay.posts.map(({ key }) => key)).size, 1);
  }
});

test('a page that is loaded again at any byte has one whole answer and has asked for it once', async (t) => {
  const bytes = Buffer.byteLength(PLAIN.join(''));
  for (const kept of [true, false]) { // a page that is closed well stores how far it came
    for (let at = 0; at < bytes; at += every(7)) {
      const { storage, tab } = browser(t);
      let bodies = 0;
      const relay = scriptedRelay([PLAIN], { cut: () => (bodies++ === 0 ? at : Infinity) });
      relay.held = new Promise(() => {});
      const page = tab();
      const first = open(relay, { storage: () => page.storage });
      let count = 0;
      first.options.onEvent = () => { count += 1; };
      const leave = page.within(() => first.subscribe(() => {}));
      first.send('hi');
      const frames = Buffer.from(PLAIN.join('')).subarray(0, at).toString('latin1').split('\n\n').length - 1;
      await until(() => count === frames && relay.posts.length === 1);
      const record = storage.getItem('seseragi.chat');
      page.close();
      leave();
      await settle();
      if (!kept && record) storage.setItem('seseragi.chat', record);
      relay.held = null;
      const again = tab();
      const second = open(relay, { storage: () => again.storage });
      // Mounted twice, as StrictMode does.
      again.within(() => second.subscribe(() => {}))();
      again.within(() => second.subscribe(() => {}));
      if (isStoredLess() && !storage.getItem('seseragi.chat')) {
        assert.deepEqual([shown(second), relay.posts.length], [[], 1]);
        continue;
      }
      await until(() => second.getSnapshot().messages.at(-1)?.status === 'completed');

      assert.deepEqual(shown(second), WHOLE, `left at ${at}`);
      assert.equal(new Set(relay.posts.map(({ key }) => key)).size, 1);
      if (!isStoredLess()) assert.equal(JSON.parse(storage.getItem('seseragi.chat')).turn, null);
    }
  }
});

test('another tab joins by the id, both have the answer once, and both go on from it', async (t) => {
  const bytes = Buffer.byteLength(PLAIN.slice(1).join('')); // what the other tab reads
  for (let at = 0; at < bytes; at += every(23)) {
    const { tab } = browser(t);
    let bodies = 0;
    const relay = scriptedRelay([PLAIN, said('st_1', 'more')], { cut: () => (bodies++ < 2 ? at : Infinity) });
    let free;
    relay.held = new Promise((resolve) => { free = resolve; });
    const [one, two] = [tab(), tab()];
    const first = open(relay, { storage: () => one.storage });
    const second = open(relay, { storage: () => two.storage });
    one.within(() => first.subscribe(() => {}));
    two.within(() => second.subscribe(() => {}));
    first.send('hi');
    await settle();
    const asks = second.send('me too'); // it does where nobody could tell it of the first question
    assert.equal(asks, isStoredLess() && asks, `cut at ${at}: ${JSON.stringify([shown(first), shown(second)])}`);
    relay.held = null;
    free();
    await until(() => [first, second].every((chat) => chat.getSnapshot().messages.at(-1)?.status === 'completed'));
    await settle();

    assert.deepEqual([shown(first), shown(second)], [WHOLE, asks ? [['user', 'me too', undefined], ['assistant', 'more', 'completed']] : WHOLE]);
    assert.equal(new Set(relay.posts.map(({ key }) => key)).size, asks ? 2 : 1);
    if (asks) continue;
    second.send('more?');
    if (isStoredLess()) {
      await idle(second);
      assert.deepEqual([shown(second).length, shown(first).slice(0, 2)], [4, WHOLE]);
      continue;
    }
    await until(() => [first, second].every((chat) => shown(chat).length === 4 && chat.getSnapshot().status === 'ready'));

    assert.deepEqual(shown(first).at(-1), ['assistant', 'more', 'completed']);
    assert.equal(relay.posts.at(-1).body.messages.length, 3);
  }
});

test('a tab does not wait for ever for another that asked and is gone', async (t) => {
  const waits = new Map(); // how long it waits is up to the test
  const [start, clear] = [globalThis.setTimeout, globalThis.clearTimeout];
  t.mock.method(globalThis, 'setTimeout', (act, ms, ...rest) => {
    const timer = start(ms === 5000 ? () => {} : act, ms, ...rest);
    if (ms === 5000) waits.set(timer, act);
    return timer;
  });
  t.mock.method(globalThis, 'clearTimeout', (timer) => {
    waits.delete(timer);
    clear(timer);
  });
  for (const end of ['itself', 'retry', 'stop', 'setMessages', 'leave']) {
    const { tab } = browser(t);
    const relay = scriptedRelay([PLAIN, said('st_1', 'more')]);
    const silent = { ...relay, fetch: (url, init) => { if (init.method === 'POST') relay.posts.push({ key: new Headers(init.headers).get('idempotency-key') }); return new Promise(() => {}); } };
    const [one, two] = [tab(), tab()];
    const first = open(silent, { storage: () => one.storage });
    const second = open(relay, { storage: () => two.storage });
    one.within(() => first.subscribe(() => {}));
    const leave = two.within(() => second.subscribe(() => {}));
    first.send('hi');
    if (writes.at === 0) { // nobody tells the other tab
      await settle();
      assert.deepEqual([shown(first)[0], shown(second)], [WHOLE[0], []]);
      first.setMessages([]);
      leave();
      continue;
    }
    await until(() => second.getSnapshot().status === 'submitted' && relay.posts.length === 1);
    assert.equal(waits.size, 1);
    one.close();
    const [asked] = relay.posts;
    if (end === 'retry') second.retry();
    if (end === 'stop') await second.stop();
    if (end === 'setMessages') second.setMessages([]);
    if (end === 'leave') {
      leave();
      await until(() => waits.size === 0);
    }
    for (const [timer, act] of waits) {
      clearTimeout(timer);
      act();
    }
    if (end === 'itself' || end === 'retry') {
      await idle(second);
      assert.deepEqual(shown(second), WHOLE);
      assert.deepEqual(relay.posts.map(({ key }) => key), [asked.key, asked.key]);
      continue;
    }
    await settle();
    assert.equal(relay.posts.length, 1, end);
    if (end === 'leave') continue;
    assert.deepEqual([second.getSnapshot().status, shown(second).at(-1)], ['ready', end === 'stop' ? ['assistant', '', 'cancelled'] : undefined]);
    assert.equal(second.send('more'), true);
    await idle(second);
    assert.equal(shown(second).at(-1)[2], 'completed');
  }
});

test('what is sent twice is asked once', async () => {
  const relay = scriptedRelay([PLAIN]);
  const chat = open(relay);

  assert.deepEqual([chat.send('hi', { id: 'u' }), chat.send('hi', { id: 'u' }), chat.send('no')], [true, false, false]);
  await idle(chat);
  assert.equal(chat.send('hi', { id: 'u' }), false);
  assert.equal(relay.posts.length, 1);
});

test('a page that sends as it begins goes on with what is stored, also before it knew the stream', async (t) => {
  const { storage, tab } = browser(t);
  const relay = scriptedRelay([PLAIN]);
  const turn = { key: 'k', stream: null, cursor: null, request: { messages: [{ role: 'user', content: 'hi' }] }, step: 1 };
  const messages = [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'hi' }] }, { id: 'k', role: 'assistant', parts: [], status: 'running' }];
  storage.setItem('seseragi.chat', JSON.stringify({ revision: 'r', messages, turn }));
  const page = tab();
  const chat = open(relay, { storage: () => page.storage });

  assert.equal(chat.send('hi'), false);
  page.within(() => chat.subscribe(() => {}));
  await idle(chat);
  assert.deepEqual(shown(chat), WHOLE);
  assert.deepEqual(relay.posts.map(({ key, body }) => [key, body]), [['k', turn.request]]);
});

test('nobody listens, and the answer is left; who comes back reads on from the cursor', async () => {
  let bodies = 0;
  const relay = scriptedRelay([PLAIN], { cut: (size) => (bodies++ === 0 ? size - 150 : Infinity) });
  relay.held = new Promise(() => {});
  const chat = open(relay);
  const leave = chat.subscribe(() => {});
  chat.send('hi');
  await until(() => chat.getSnapshot().status === 'streaming');
  leave();
  await new Promise((resolve) => { setTimeout(resolve, 5); });
  relay.held = null;
  assert.equal(relay.gets.length, 0);
  chat.subscribe(() => {});
  await idle(chat);

  assert.deepEqual(shown(chat), WHOLE);
  assert.match(relay.gets[0].cursor, /\.[1-9]/);
});

test('what is refused is not sent with what follows; retry asks it again, remove takes it away', async () => {
  for (const [status, code] of [[413, 'request_too_large'], [429, 'rate_limited'], [401, 'unauthenticated'], [400, 'invalid_request']]) {
    let refusing = true;
    const relay = scriptedRelay([PLAIN, said('st_1', 'more')], { refuse: () => (refusing ? Response.json({ code, detail: 'no' }, { status }) : null) });
    const chat = open(relay);
    chat.send('hi', { id: 'u' });
    await idle(chat);

    assert.deepEqual([chat.getSnapshot().error.message, shown(chat)], ['no', [['user', 'hi', 'unsent']]]);
    chat.send('else');
    await idle(chat);
    assert.deepEqual(shown(chat), [['user', 'hi', 'unsent'], ['user', 'else', 'unsent']]);
    refusing = false;
    assert.equal(chat.retry(), true);
    assert.equal(chat.remove('u'), false);
    await idle(chat);
    assert.deepEqual([relay.posts[0].body.messages, shown(chat)[1]], [[{ role: 'user', content: 'else' }], ['user', 'else', undefined]]);
    assert.deepEqual([chat.remove('u'), chat.remove('u'), shown(chat)[0]], [true, false, ['user', 'else', undefined]]);
    refusing = true;
    chat.send('bad', { id: 'bad' });
    await idle(chat);
    assert.deepEqual([chat.remove('bad'), chat.getSnapshot().status, shown(chat).length], [true, 'ready', 2]);
  }
});

test('a question that nobody can say of whether it was sent is removed with its answer', async () => {
  const chat = open({ fetch: async () => { throw new TypeError('offline'); } }, { maxAttempts: 0 });
  chat.send('hi', { id: 'u' });
  await idle(chat);
  assert.deepEqual(shown(chat), [['user', 'hi', undefined], ['assistant', '', 'running']]);
  assert.equal(chat.remove('u'), true);
  assert.deepEqual([shown(chat), chat.getSnapshot().status], [[], 'ready']);
});

test('a stream that failed is an error with what came, and retry asks anew', async () => {
  const failed = answer(STREAM, [{ type: 'text.start', block: 0 }, { type: 'text.delta', block: 0, text: 'ha' }, { type: 'text.end', block: 0 }],
    { status: 'failed', error: { code: 'upstream_truncated', message: 'cut off', retryable: true } });
  const relay = scriptedRelay([failed, said('st_1', 'whole')]);
  const chat = open(relay);
  chat.send('hi');
  await idle(chat);

  assert.deepEqual([chat.getSnapshot().error.code, shown(chat).at(-1)], ['upstream_truncated', ['assistant', 'ha', 'failed']]);
  chat.retry();
  await idle(chat);
  assert.deepEqual(shown(chat).at(-1), ['assistant', 'whole', 'completed']);
  assert.deepEqual(relay.posts[1].body.messages, [{ role: 'user', content: 'hi' }]);
});

test('a connection that does not come back is an error; retry reads on, and a new question can be asked', async () => {
  for (const next of ['retry', 'send']) {
    let away = false;
    const relay = scriptedRelay([PLAIN, said('st_1', 'more')], { cut: (size) => (away ? size : size - 150), refuse: ({ posts }) => {
      if (away === false) return null;
      if (away === 'now') throw new TypeError('failed to fetch');
      return posts ? null : null;
    } });
    const chat = open(relay, { maxAttempts: 2, onEvent: () => { if (!away) away = 'now'; } });
    chat.send('hi');
    await idle(chat);
    assert.deepEqual([chat.getSnapshot().error.code, chat.getSnapshot().messages[1].status], ['connection_lost', 'running']);
    away = 'over';
    if (next === 'retry') chat.retry();
    else assert.equal(chat.send('other'), true);
    await idle(chat);

    if (next === 'retry') assert.deepEqual(shown(chat), WHOLE);
    else assert.deepEqual(shown(chat).map(([, , status]) => status), [undefined, 'lost', undefined, 'completed']);
  }
});

test('stop asks the relay, and what came stays', async () => {
  const relay = scriptedRelay([PLAIN], { cut: (size) => size - 150 });
  relay.held = new Promise(() => {});
  const chat = open(relay);
  chat.send('hi');
  await until(() => chat.getSnapshot().status === 'streaming');
  await chat.stop();

  assert.deepEqual(relay.cancels, [`/v1/streams/${STREAM}/cancel`]);
  assert.deepEqual(chat.getSnapshot().messages[1].status, 'running');
  chat.setMessages([]);
  assert.deepEqual([chat.getSnapshot().status, chat.getSnapshot().messages], ['ready', []]);
});

nodeTest('where no tab follows, the others give way to a stop that waits for a connection', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const pass = async (ms) => { await settle(); t.mock.timers.tick(ms); await settle(); };
  const { tab } = browser(t);
  const relay = scriptedRelay([PLAIN], { cut: (size) => size - 150 });
  relay.held = new Promise(() => {});
  let free = 3;
  const waiting = [];
  const fetch = async (url, init) => { // as a browser with three connections
    if (free === 0) await new Promise((resolve) => { waiting.push(resolve); });
    if (init.signal?.aborted) waiting.shift()?.();
    init.signal?.throwIfAborted();
    free -= 1;
    const leave = () => { free += 1; waiting.shift()?.(); };
    const response = await relay.fetch(url, init);
    if (url.endsWith('/cancel')) leave();
    else init.signal.addEventListener('abort', leave, { once: true });
    return response;
  };
  const chats = [];
  for (let at = 0; at < 5; at++) {
    const page = tab();
    const chat = open({ fetch }, { storage: () => page.storage });
    page.within(() => chat.subscribe(() => {}));
    chats.push(chat);
    if (at === 0) chat.send('hi');
    for (let wait = 0; wait < 3; wait++) await pass(20);
  }
  assert.equal(waiting.length, 2);
  chats[0].stop();
  await pass(1999);
  assert.deepEqual(relay.cancels, []);
  await pass(1);
  for (let wait = 0; wait < 9; wait++) await pass(0);
  assert.deepEqual(relay.cancels, [`/v1/streams/${STREAM}/cancel`]);
  for (const chat of chats) chat.setMessages([]);
});

// ---- Several users of a browser

const claims = (said) => `e30.${Buffer.from(JSON.stringify(said)).toString('base64url')}.c2ln`;
const secretOf = (user) => ({ value: `ek_${claims({ iss: 'seseragi', tenant: '', user, exp: Math.random() })}`, expires_at: Date.now() / 1000 + 600 });

/** A conversation of a page of its own, and what has it left. */
function visit(t, page, relay, options) {
  const chat = open(relay, { storage: () => page.storage, ...options });
  return { chat, leave: page.within(() => chat.subscribe(() => {})) };
}

for (const [what, optionsOf] of Object.entries({
  'secrets that a function fetches': (user) => ({ credential: async () => secretOf(user) }),
  'tokens of an identity provider': (user) => ({ credential: claims({ iss: 'https://id.example', sub: `${user}ü` }) }),
  'keys': (user) => ({ credential: `ssk_${user}` }),
  'names': (user) => ({ owner: user }),
})) {
  test(`users told by their ${what} have conversations of their own`, async (t) => {
    const relay = scriptedRelay([PLAIN, said('st_1', 'for bob')]);
    const { tab } = browser(t);
    const page = tab();
    const alice = visit(t, page, relay, optionsOf('alice'));
    assert.equal(alice.chat.send('hi'), true);
    await until(() => alice.chat.getSnapshot().messages.at(-1)?.status === 'completed');
    alice.leave();
    await settle();
    const bob = visit(t, page, relay, optionsOf('bob'));
    await settle();
    assert.deepEqual(shown(bob.chat), []);
    bob.chat.send('me');
    await until(() => bob.chat.getSnapshot().messages.at(-1)?.status === 'completed');

    assert.deepEqual(relay.posts[1].body.messages, [{ role: 'user', content: 'me' }]);
    bob.leave();
    const again = visit(t, page, relay, optionsOf('alice'));
    if (!isStoredLess()) await until(() => shown(again.chat).length === 2);
    await settle();
    assert.equal(JSON.stringify(shown(again.chat)).includes('bob'), false);
    // Signed out, she leaves nothing, here and in her other tab.
    const other = tab();
    const beside = visit(t, other, relay, optionsOf('alice'));
    await settle();
    again.chat.forget();
    await settle();
    assert.deepEqual([shown(again.chat), shown(beside.chat)], [[], []]);
    for (const { chat } of [alice, bob, again, beside]) chat.options = { ...chat.options, storage: undefined };
    const late = visit(t, tab(), relay, optionsOf('alice'));
    await settle();
    assert.deepEqual(shown(late.chat), []);
  });
}

test('a question before the credential has come follows what is stored, also an answer that runs', async (t) => {
  for (const running of [true, false]) {
    const relay = scriptedRelay([PLAIN, said('st_1', 'more')]);
    const { tab } = browser(t);
    const page = tab();
    let give;
    let calls = 0;
    const before = visit(t, page, relay, { owner: JSON.stringify(['seseragi', '', 'alice']) });
    before.chat.send('hi');
    if (running) await until(() => relay.posts.length === 1);
    else await idle(before.chat);
    before.leave();
    await settle();
    const credential = () => { calls += 1; return new Promise((resolve, reject) => { give = (given) => (given ? resolve(given) : reject(new Error('away'))); }); };
    const { chat } = visit(t, page, relay, { credential });
    assert.deepEqual([chat.send('more?'), chat.send('more?')], [true, false]);
    give(null);
    await until(() => chat.getSnapshot().status === 'error');
    assert.equal(chat.retry(), true);
    await until(() => calls === 2);
    give(secretOf('alice'));
    await until(() => chat.getSnapshot().messages.at(-1)?.status === 'completed' && chat.getSnapshot().status === 'ready');

    const asked = [['user', 'more?', undefined], ['assistant', 'more', 'completed']];
    if (!isStoredLess()) assert.deepEqual(shown(chat), [...WHOLE, ...asked]);
    assert.deepEqual([shown(chat).at(-2), new Set(relay.posts.map(({ key }) => key)).size, calls], [asked[0], 2, 2]);
  }
});

// ---- A storage that is full

test('a turn that is not stored stays on its page, and is told once', async (t) => {
  const relay = scriptedRelay([PLAIN, said('st_1', 'two'), said('st_2', 'three'), said('st_3', 'four')]);
  const { storage, tab } = browser(t);
  let limit = Infinity;
  const [one, two] = [tab(), tab()];
  const limited = { ...one.storage, setItem: (key, value) => {
    if (value.length > limit) throw new DOMException('full', 'QuotaExceededError');
    one.storage.setItem(key, value);
  } };
  const chat = open(relay, { storage: () => limited });
  const other = open(relay, { storage: () => two.storage });
  one.within(() => chat.subscribe(() => {}));
  two.within(() => other.subscribe(() => {}));
  chat.send('hi');
  await idle(chat);
  limit = storage.getItem('seseragi.chat')?.length ?? 0;
  const told = new Set();
  chat.subscribe(() => told.add(chat.getSnapshot().storageError));
  const asked = chat.send([{ type: 'image_url', image_url: { url: 'data:,' } }]);
  await idle(chat);

  assert.equal(asked, true);
  assert.deepEqual(shown(chat), [...WHOLE, ['user', '', undefined], ['assistant', 'two', 'completed']]);
  assert.deepEqual([...told].filter(Boolean).map(({ code }) => code), ['storage']);
  if (isStoredLess()) return;
  // Another tab goes on from what is stored: neither ends what the other one has.
  other.send('else');
  await idle(other);
  assert.equal(chat.send('more'), true);
  await idle(chat);
  assert.deepEqual([shown(chat).length, shown(chat).at(-1), shown(other).at(-1)], [6, ['assistant', 'four', 'completed'], ['assistant', 'three', 'completed']]);
  limit = Infinity;
  chat.setMessages([]);
  assert.deepEqual([chat.getSnapshot().storageError, JSON.parse(storage.getItem('seseragi.chat')).messages], [null, []]);
});

// ---- Tools

const TOOLS = { add: { description: 'Adds', parameters: { type: 'object' }, run: ({ a, b }) => a + b }, ask: { description: 'Asks the user' } };

test('tools are run when the answer is whole, and their results sent back until there are no more calls', async () => {
  const streams = [asks(STREAM, { ...CALL, text: '{"a":1,"b":2}' }, { id: 'call_2', name: 'add', text: '{"a"' }), said('st_1', '3')];
  const relay = scriptedRelay(streams);
  const chat = open(relay, { tools: TOOLS });
  chat.send('1+2?');
  await idle(chat);

  assert.deepEqual(shown(chat).map(([, text]) => text), ['1+2?', '', '3']);
  assert.deepEqual(relay.posts[0].body.tools.map((tool) => tool.function.name), ['add', 'ask']);
  const results = [
    { role: 'tool', tool_call_id: 'call_1', content: '3' },
    { role: 'tool', tool_call_id: 'call_2', content: 'the arguments are no valid JSON', is_error: true },
  ];
  assert.deepEqual(relay.posts[1].body.messages.slice(2), results);

  const again = scriptedRelay(streams);
  const loop = chatWithTools({ messages: [{ role: 'user', content: '1+2?' }] }, { tools: TOOLS, fetch: again.fetch, url: 'http://relay.test/v1/chat' });
  let text = '';
  for await (const { event } of loop) text += event.type === 'text.delta' ? event.text : '';
  assert.deepEqual([text, loop.messages.slice(2, 4), loop.messages.at(-1)], ['3', results, { role: 'assistant', content: '3' }]);
});

test('a call of an answer that a limit cut is not run, and not sent back', async () => {
  const cut = [
    { type: 'tool_call.start', block: 0, ...CALL }, { type: 'tool_call.delta', block: 0, arguments: '{"a":1}' },
    { type: 'tool_call.end', block: 0, arguments: '{"a":1}', incomplete: true },
  ];
  const before = cut.map(({ incomplete, ...event }) => event);
  for (const events of [cut, before]) {
    const streams = [answer(STREAM, events, { status: 'completed', finish_reason: 'length' }), said('st_1', 'well')];
    const run = [];
    const tools = { add: { ...TOOLS.add, run: (input) => run.push(input) } };
    const relay = scriptedRelay(streams);
    const chat = open(relay, { tools });
    chat.send('1+2?');
    await idle(chat);
    assert.equal(chat.addToolOutput('call_1', '3'), false);
    chat.send('and?');
    await idle(chat);
    assert.deepEqual(relay.posts.map(({ body }) => body.messages.map(({ role }) => role)), [['user'], ['user', 'user']]);

    const again = scriptedRelay(streams);
    const loop = chatWithTools({ messages: [{ role: 'user', content: '1+2?' }] }, { tools, fetch: again.fetch, url: 'http://relay.test/v1/chat' });
    for await (const { event } of loop) assert.ok(event);
    assert.deepEqual([again.posts.length, loop.messages.length, run], [1, 1, []]);
  }
  const part = { type: 'tool_call', block: 0, ...CALL, arguments: '{"a":1}', done: true };
  assert.equal(assistantMessage([{ ...part, incomplete: true }]), null);
  assert.equal(assistantMessage([part]).tool_calls.length, 1);
});

test('a call that only the page can answer waits for it', async () => {
  const relay = scriptedRelay([asks(STREAM, { ...CALL, text: '{"a":1,"b":2}' }, { id: 'call_2', name: 'ask', text: '{}' }), said('st_1', 'fine')]);
  const chat = open(relay, { tools: TOOLS });
  chat.send('?');
  await idle(chat);
  await until(() => chat.getSnapshot().messages[1].parts[0].output === '3');

  assert.equal(relay.posts.length, 1);
  assert.equal(chat.addToolOutput('call_9', 'no'), false);
  assert.equal(chat.addToolOutput('call_2', { yes: true }), true);
  await idle(chat);
  assert.deepEqual(relay.posts[1].body.messages.slice(2).map(({ content }) => content), ['3', '{"yes":true}']);
});

test('in two tabs each tool is run once', async (t) => {
  const { tab } = browser(t);
  const relay = scriptedRelay([asks(STREAM, { ...CALL, text: '{"a":1,"b":2}' }), said('st_1', '3')]);
  let runs = 0;
  const tools = { add: { run: async () => { runs += 1; await settle(); return 3; } } };
  const [one, two] = [tab(), tab()];
  const [first, second] = [one, two].map((page) => open(relay, { storage: () => page.storage, tools }));
  one.within(() => first.subscribe(() => {}));
  two.within(() => second.subscribe(() => {}));
  first.send('?');
  await until(() => [first, second].every((chat) => isStoredLess() && chat === second || shown(chat).at(-1)?.[1] === '3' && chat.getSnapshot().status === 'ready'));
  await settle();

  assert.deepEqual([runs, new Set(relay.posts.map(({ key }) => key)).size], [1, 2]);
});

// ---- One reader a browser

/** Web Locks, as the standard has them: in order, stolen, aborted while they wait. */
function locksOf() {
  const held = new Map(); // by name: the holder's `reject`
  const queues = new Map();
  const next = (name) => {
    if (held.has(name)) return;
    queues.get(name)?.shift()?.();
  };
  const grant = (name, run, resolve, reject) => {
    held.set(name, reject);
    Promise.resolve().then(() => run({ name })).then(resolve, reject).finally(() => {
      if (held.get(name) === reject) {
        held.delete(name);
        next(name);
      }
    });
  };
  return {
    held,
    request: (name, { steal, signal, ifAvailable }, run) => new Promise((resolve, reject) => {
      const queue = queues.get(name) ?? [];
      queues.set(name, queue);
      const begin = () => grant(name, run, resolve, reject);
      if (steal) held.get(name)?.(new DOMException('stolen', 'AbortError'));
      if (steal || !held.has(name)) return begin();
      if (ifAvailable) return resolve(run(null));
      queue.push(begin);
      signal?.addEventListener('abort', () => {
        if (!queue.includes(begin)) return;
        queue.splice(queue.indexOf(begin), 1);
        reject(signal.reason);
      });
    }),
  };
}

/** So many tabs of one conversation in a browser with locks; the first has asked and has half an answer. */
async function tabsOf(t, count, options = {}) {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  const locks = locksOf();
  Object.defineProperty(globalThis, 'navigator', { value: { locks }, configurable: true });
  t.after(() => (before ? Object.defineProperty(globalThis, 'navigator', before) : delete globalThis.navigator));
  const { tab } = browser(t);
  let bodies = 0;
  let free;
  const relay = scriptedRelay([PLAIN], { cut: (size) => (bodies++ < (options.halves ?? 1) ? size - 150 : Infinity) });
  relay.held = new Promise((resolve) => { free = () => { relay.held = null; resolve(); }; });
  const tabs = [];
  const join = () => {
    const page = tab();
    const events = [];
    const chat = open(relay, { storage: () => page.storage, onEvent: ({ event }) => { events.push(event); } });
    const joined = { chat, events, leave: page.within(() => chat.subscribe(() => {})) };
    tabs.push(joined);
    t.after(() => chat.setMessages([]));
    return joined;
  };
  for (let index = 0; index < count; index++) join();
  tabs[0].chat.send('hi');
  const half = () => tabs[0].chat.getSnapshot().messages.at(-1).parts[0]?.text;
  await until(() => tabs.every(({ chat }) => chat.getSnapshot().status === 'streaming' && chat.getSnapshot().messages.at(-1).parts[0]?.text === half()) && half());
  return { tabs, relay, locks, free, join, half, whole: () => until(() => tabs.every(({ chat }) => shown(chat).at(-1)?.[2] === 'completed')) };
}

nodeTest('eight tabs have the answer over one connection, also one that comes later', async (t) => {
  const { tabs, relay, free, join, half, whole } = await tabsOf(t, 7, { halves: 2 });
  const late = join();
  await until(() => shown(late.chat).at(-1)?.[1] === half());
  assert.deepEqual([relay.posts.length, relay.gets.length], [1, 1]);
  free();
  await whole();

  for (const { chat, events } of tabs) {
    assert.deepEqual(shown(chat), WHOLE);
    assert.deepEqual(events, tabs[0].events.slice(chat === late.chat ? 1 : 0)); // the turn was stored with its first
  }
  assert.deepEqual([relay.posts.length, relay.gets.length], [1, 2]);
});

nodeTest('the tab that reads is closed: one of the others reads on from its cursor', async (t) => {
  const { tabs, relay, free, whole } = await tabsOf(t, 4, { halves: 1 });
  const [{ leave }] = tabs.splice(0, 1);
  leave();
  await until(() => relay.gets.length === 1);
  free();
  await whole();

  for (const { chat } of tabs) assert.deepEqual(shown(chat), WHOLE);
  assert.deepEqual([relay.posts.length, relay.gets.length], [1, 1]);
});

nodeTest('stop in a tab that follows makes it the reader', async (t) => {
  const { tabs, relay, free, whole } = await tabsOf(t, 4, { halves: 2 });
  await tabs[2].chat.stop();
  assert.deepEqual([relay.cancels, relay.gets.length], [[`/v1/streams/${STREAM}/cancel`], 1]);
  free();
  await whole();

  for (const { chat } of tabs) assert.deepEqual(shown(chat), WHOLE);
  assert.deepEqual([relay.posts.length, relay.gets.length], [1, 2]);
});

nodeTest('a tab that reads and says nothing, such as a frozen one, is replaced', async (t) => {
  const start = globalThis.setTimeout;
  const waits = [];
  let isFrozen = false;
  t.mock.method(globalThis, 'setTimeout', (act, ms, ...rest) => {
    if (isFrozen && ms === 4000) waits.push(ms);
    return start(act, isFrozen && ms === 4000 ? 20 : ms, ...rest);
  });
  const { tabs, relay, locks, free, whole } = await tabsOf(t, 2);
  const [name] = locks.held.keys();
  const frozen = new Promise(() => {});
  isFrozen = true;
  locks.request(name, { steal: true }, () => frozen).catch(() => {});
  await until(() => relay.gets.length >= 1);
  free();
  await whole();

  for (const { chat } of tabs) assert.deepEqual(shown(chat), WHOLE);
  assert.equal(relay.posts.length, 1);
  assert.ok(waits.length >= 1);
});
