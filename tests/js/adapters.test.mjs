// The adapters under the real clients: each part once and in order, wherever a connection is cut.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import test from 'node:test';

import { memoryStorage, STREAM } from './relay.mjs';
import { AT_ONCE, framesIn, scriptedRelay, until } from './scripted.mjs';

const MODULES = new URL('../../node_modules/', import.meta.url);
const skip = ['ai', 'ai6', '@ag-ui/client', 'rxjs'].every((name) => existsSync(new URL(name, MODULES)))
  ? false : 'no node_modules: npm ci';
if (skip && process.env.CI === 'true') throw new Error(skip);

const WORDS = ['せせ', 'らぎ ', '🏞️', ' "ends"\n'];
const TEXT = WORDS.join('');
const KEY = /^[0-9a-f]{32}$/; // all 128 bits of it

const UI = framesIn('u', [
  { type: 'start', messageId: 'msg_1' },
  { type: 'data-seseragi', data: { type: 'stream.start', stream: STREAM }, transient: true },
  { type: 'start-step' },
  { type: 'reasoning-start', id: 'r0' }, { type: 'reasoning-delta', id: 'r0', delta: 'hm' }, { type: 'reasoning-end', id: 'r0' },
  { type: 'text-start', id: 't1' },
  ...WORDS.map((delta) => ({ type: 'text-delta', id: 't1', delta })),
  { type: 'text-end', id: 't1' },
  { type: 'tool-input-start', toolCallId: 'c1', toolName: 'look', dynamic: true },
  { type: 'tool-input-delta', toolCallId: 'c1', inputTextDelta: '{"a":1}' },
  { type: 'tool-input-available', toolCallId: 'c1', toolName: 'look', dynamic: true, input: { a: 1 } },
  { type: 'finish-step' },
  { type: 'finish', finishReason: 'tool-calls' },
  '[DONE]',
]);
const AG_UI = framesIn('g', [
  { type: 'RUN_STARTED', threadId: 't', runId: 'r', protocolVersion: '1.0' },
  { type: 'REASONING_START', messageId: 'msg_0' },
  { type: 'REASONING_MESSAGE_START', messageId: 'msg_0', role: 'reasoning' },
  { type: 'REASONING_MESSAGE_CONTENT', messageId: 'msg_0', delta: 'hm' },
  { type: 'REASONING_MESSAGE_END', messageId: 'msg_0' },
  { type: 'REASONING_END', messageId: 'msg_0' },
  { type: 'TEXT_MESSAGE_START', messageId: 'msg_1', role: 'assistant' },
  ...WORDS.map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'msg_1', delta })),
  { type: 'TEXT_MESSAGE_END', messageId: 'msg_1' },
  { type: 'TOOL_CALL_START', toolCallId: 'c1', toolCallName: 'look', parentMessageId: 'msg_1' },
  { type: 'TOOL_CALL_ARGS', toolCallId: 'c1', delta: '{"a":1}' },
  { type: 'TOOL_CALL_END', toolCallId: 'c1' },
  { type: 'RUN_FINISHED', threadId: 't', runId: 'r', outcome: { type: 'success', pendingToolCallIds: ['c1'] } },
]);
const bytesOf = (frames) => Buffer.byteLength(frames.join(''));

/** Cut the first body at a byte, and the second half way through the rest. */
const twice = (at) => {
  let bodies = 0;
  return (size) => [at, Math.floor(size / 2)][bodies++] ?? Infinity;
};

// ---- The AI SDK

async function sdk(name) {
  const { SeseragiChatTransport } = await import('../../static/ai-sdk.js');
  const { AbstractChat } = await import(name);
  class State {
    status = 'ready';
    error = undefined;
    constructor(messages) { this.messages = messages; }
    pushMessage = (message) => { this.messages = [...this.messages, message]; };
    popMessage = () => { this.messages = this.messages.slice(0, -1); };
    replaceMessage = (index, message) => { this.messages = this.messages.with(index, structuredClone(message)); };
    snapshot = (value) => structuredClone(value);
  }
  class Chat extends AbstractChat {
    constructor({ messages = [], ...init }) { super({ ...init, state: new State(messages) }); }
  }
  return (relay, { messages, ...options } = {}) => {
    const heard = [];
    const transport = new SeseragiChatTransport({ ...AT_ONCE, fetch: relay.fetch, api: 'http://relay.test/v1/ui/chat', ...options });
    return { transport, heard, chat: new Chat({ id: 'chat/1', messages, transport, onData: (part) => heard.push(part.data.type) }) };
  };
}

function assertWholeUi(chat) {
  assert.equal(chat.error, undefined);
  assert.equal(chat.status, 'ready');
  const answers = chat.messages.filter(({ role }) => role === 'assistant');
  assert.equal(answers.length, 1);
  assert.deepEqual(answers[0].parts.map(({ type, text, input }) => [type, text ?? input]), [
    ['step-start', undefined], ['reasoning', 'hm'], ['text', TEXT], ['dynamic-tool', { a: 1 }],
  ]);
}

const AI5 = new URL('../clients/ai5/node_modules/ai/dist/index.mjs', import.meta.url);
const no5 = existsSync(AI5) ? false : 'no packages of ai5: npm ci --prefix tests/clients/ai5';
if (no5 && process.env.CI === 'true') throw new Error(no5);

for (const version of ['ai', 'ai6', AI5.href]) {
  const lacks = version === AI5.href ? skip || no5 : skip;
  const name = version === AI5.href ? 'ai5' : version;
  test(`${name}: an answer that is cut at any byte is one answer, and asked for once`, { skip: lacks }, async () => {
    const open = await sdk(version);
    for (let at = 0; at < bytesOf(UI); at += version === 'ai' ? 1 : 7) {
      const relay = scriptedRelay([UI], { cut: twice(at) });
      const { chat, heard } = open(relay);
      await chat.sendMessage({ text: 'hi' });

      assertWholeUi(chat);
      assert.deepEqual([heard, relay.posts.length], [['stream.start'], 1], `cut at ${at}`);
      assert.match(relay.posts[0].key, KEY);
      const [{ path, cursor }] = relay.gets;
      assert.equal(path, `http://relay.test/v1/streams/${STREAM}/events?format=ui&suffix`);
      const whole = Buffer.from(UI.join('')).subarray(0, at).toString('latin1').split('\n\n').length - 1;
      assert.equal(cursor, whole ? `${STREAM}.u${whole}` : null);
    }
  });

  test(`${name}: a page that is loaded again, and cut, has the answer once`, { skip: lacks }, async () => {
    const open = await sdk(version);
    for (let at = 0; at < bytesOf(UI); at += 7) {
      const relay = scriptedRelay([UI], { cut: twice(at) });
      relay.keys.set('before', 0);
      const half = { id: 'msg_1', role: 'assistant', parts: [{ type: 'step-start' }, { type: 'text', text: 'せせ', state: 'streaming' }] };
      const { chat } = open(relay, { messages: [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'hi' }] }, half] });
      // Mounted twice, as StrictMode does.
      await Promise.all([chat.resumeStream(), chat.resumeStream()]);

      assertWholeUi(chat);
      assert.equal(relay.posts.length, 0);
    }
  });

  test(`${name}: nothing to resume is no error, and a refusal is its message`, { skip: lacks }, async () => {
    const open = await sdk(version);
    const { chat } = open(scriptedRelay([]));
    await chat.resumeStream();

    assert.deepEqual([chat.status, chat.error], ['ready', undefined]);
    const refusal = (status) => new Response('the provider is away', { status, headers: { 'content-type': 'text/plain; charset=utf-8', 'x-request-id': 'req_1' } });
    for (const status of [400, 429, 502, 503]) {
      let calls = 0;
      const refused = open(scriptedRelay([UI], { refuse: () => { calls += 1; return refusal(status); } }));
      await refused.chat.sendMessage({ text: 'hi' });

      assert.deepEqual([refused.chat.status, refused.chat.error.message, calls], ['error', 'the provider is away', 1]);
    }
  });

  test(`${name}: stop() of the chat leaves, stop() of the transport stops`, { skip: lacks }, async () => {
    const open = await sdk(version);
    const relay = scriptedRelay([UI], { cut: (size) => size - 400 });
    relay.held = new Promise(() => {});
    const { chat, transport } = open(relay);
    const sent = chat.sendMessage({ text: 'hi' });
    await until(() => chat.status === 'streaming');
    await transport.stop('chat/1');
    assert.deepEqual(relay.cancels, [`/v1/streams/${STREAM}/cancel`]);
    await chat.stop();
    await sent;

    assert.deepEqual([chat.status, relay.cancels.length], ['ready', 1]);
    await transport.stop('chat/1');
    assert.equal(relay.cancels[1], '/v1/ui/chat/chat%2F1/stop');
  });
}

// ---- AG-UI

async function agentOf(relay, config = {}) {
  const { SeseragiAgent } = await import('../../static/ag-ui.js');
  return new SeseragiAgent({ url: 'http://relay.test/v1/ag-ui', threadId: 't', reading: AT_ONCE, fetch: relay.fetch, initialMessages: [{ id: 'u', role: 'user', content: 'hi' }], ...config });
}

function assertWholeRun(agent) {
  assert.deepEqual(agent.messages.map(({ id, role, content, toolCalls }) => [id, role, content, toolCalls?.map((call) => call.function.arguments)]), [
    ['u', 'user', 'hi', undefined], ['msg_0', 'reasoning', 'hm', undefined], ['msg_1', 'assistant', TEXT, ['{"a":1}']],
  ]);
  assert.equal(agent.isRunning, false);
}

test('AG-UI: a run that is cut at any byte is one run, and asked for once', { skip }, async () => {
  for (let at = 0; at < bytesOf(AG_UI); at += 2) {
    const relay = scriptedRelay([AG_UI], { cut: twice(at) });
    const agent = await agentOf(relay);
    const seen = [];
    await agent.runAgent({}, { onEvent: ({ event }) => { seen.push(event.type); } });

    assertWholeRun(agent);
    assert.deepEqual(seen, AG_UI.map((frame) => /"type":"([A-Z_]+)"/.exec(frame)[1]));
    assert.equal(relay.posts.length, 1);
    assert.equal(relay.posts[0].body.forwardedProps.on_disconnect, 60);
    assert.match(relay.posts[0].key, KEY);
    assert.match(relay.gets[0].path, /\/v1\/streams\/st_[^/]+\/events\?format=ag_ui&suffix$/);
  }
});

test('AG-UI: a run that was left at any byte is taken up, mounted twice and by another page', { skip }, async () => {
  for (let at = 0; at < bytesOf(AG_UI); at += 17) {
    const storage = memoryStorage();
    const relay = scriptedRelay([AG_UI], { cut: (size, { gets }) => (gets.length === 0 ? at : Infinity) });
    const held = Promise.withResolvers?.() ?? {};
    relay.held = held.promise ?? new Promise(() => {});
    const agent = await agentOf(relay, { storage });
    let begun = 0;
    agent.runAgent({}, { onEvent: () => { begun += 1; } }).catch(() => {});
    const whole = Buffer.from(AG_UI.join('')).subarray(0, at).toString('latin1').split('\n\n').length - 1;
    await until(() => begun === whole && relay.posts.length === 1);
    relay.held = null;
    const page = JSON.parse(JSON.stringify(agent.messages)); // as far as a page has stored it
    const other = await agentOf(relay, { storage, initialMessages: page });
    // The page itself, whose effect is run, undone and run again, and one that was loaded again.
    const first = agent.detachActiveRun();
    agent.connectAgent().catch(() => {});
    const again = agent.detachActiveRun();
    await Promise.all([first, again, agent.connectAgent(), other.connectAgent()]);

    if (whole === 0) continue; // nothing was known of a run
    assertWholeRun(agent);
    assertWholeRun(other);
    assert.equal(relay.posts.length, 1);
    const gets = relay.gets.length;
    await (await agentOf(relay, { storage, initialMessages: agent.messages })).connectAgent(); // it is known whole
    assert.equal(relay.gets.length, gets);
    const late = await agentOf(relay, { storage, initialMessages: page }); // the run has ended meanwhile
    await late.connectAgent();
    assertWholeRun(late);
  }
});

test('AG-UI: two runs at once are one, abort asks the relay to stop, a clone runs by itself', { skip }, async () => {
  const relay = scriptedRelay([AG_UI, AG_UI.map((frame) => frame.replaceAll(STREAM, 'st_1'))], { cut: (size, { posts }) => (posts.length === 1 ? size - 200 : Infinity) });
  relay.held = new Promise(() => {});
  const agent = await agentOf(relay);
  let begun = 0;
  agent.runAgent({}, { onEvent: () => { begun += 1; } }).catch(() => {});
  agent.runAgent().catch(() => {});
  await until(() => begun > 3);
  agent.abortRun();
  await until(() => relay.cancels.length === 1);
  relay.held = null;
  const clone = agent.clone();
  clone.setMessages([{ id: 'u', role: 'user', content: 'hi' }]);
  await clone.runAgent();
  await agent.detachActiveRun();

  assertWholeRun(clone);
  assert.equal(relay.posts.length, 2);
  assert.deepEqual(relay.cancels, [`/v1/streams/${STREAM}/cancel`]);
});

test('AG-UI: connecting without a run, or to one that is gone, does nothing', { skip }, async () => {
  const storage = memoryStorage();
  for (const kept of [null, JSON.stringify({ stream: 'st_gone', made: ['msg_1'] })]) {
    if (kept) storage.setItem('seseragi.ag-ui.t', kept);
    const gone = Response.json({ code: 'stream_expired', detail: 'gone' }, { status: 410 });
    const half = { id: 'msg_1', role: 'assistant', content: 'せせ' };
    const agent = await agentOf(scriptedRelay([], { refuse: () => gone.clone() }), { storage, initialMessages: [{ id: 'u', role: 'user', content: 'hi' }, half] });
    const { newMessages } = await agent.connectAgent();

    assert.deepEqual([newMessages, agent.messages.at(-1), storage.items.size], [[], half, 0]);
  }
});
