// Plays a scene through the AI SDK's own chat: ui.mjs FOLDER API SCENE
// Prints what a page would have: the status, the error, the messages, what `onData` heard.
const [folder, api, scene] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } =
  await import(`${folder}/dist/index.mjs`).catch(() => import(`${folder}/dist/index.js`));

class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) =>
    (this.messages = this.messages.with(index, structuredClone(message)));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ messages = [], ...init }) {
    const state = new State();
    state.messages = messages;
    super({ ...init, state });
  }
}

const id = `chat/${Math.random().toString(36).slice(2)}`;
const heard = [];
const finished = [];

function open(init = {}, { body, fetch } = {}) {
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({ api, body, fetch }),
    onData: (part) => heard.push(part.data.type),
    onFinish: ({ finishReason, isError, isAbort }) =>
      finished.push({ finishReason: finishReason ?? null, isError, isAbort }),
    ...init,
  });
  return chat;
}

function show(chat) {
  const { status, messages, error } = chat;
  return { status, messages, error: error?.message ?? null };
}

// Whether the answer has any text yet.
const begun = ({ lastMessage }) =>
  lastMessage?.role === "assistant" && lastMessage.parts.some(({ text }) => text);

async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

// A connection that breaks as they do in browsers, once a text has begun.
async function breaking(url, init) {
  const response = await fetch(url, init);
  const reader = response.body.getReader();
  let seen = "";
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      seen += new TextDecoder().decode(value);
      controller.enqueue(value);
      if (!seen.includes("text-delta")) return;
      await reader.cancel();
      // Errors throw away what was not read yet.
      setTimeout(() => controller.error(new TypeError("network error")), 100);
      await new Promise(() => {});
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

const scenes = {
  async approve() {
    const chat = open();
    await chat.sendMessage({ text: "hello" });
    const [part] = chat.lastMessage.parts.filter(({ type }) => type === "dynamic-tool");
    if (!part.approval) return show(chat); // version 5 has none
    await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
    await chat.sendMessage();
    return { ...show(chat), asked: part.state };
  },
  async send() {
    const chat = open({}, { body: { temperature: 0.5 } });
    await chat.sendMessage({ text: "hello" });
    return show(chat);
  },
  async automatic() {
    const chat = open({ sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls });
    await chat.sendMessage({ text: "hello" });
    await until(() => ["ready", "error"].includes(chat.status));
    return show(chat);
  },
  async regenerate() {
    const chat = open();
    await chat.sendMessage({ text: "hello" });
    const first = chat.lastMessage.id;
    await chat.regenerate();
    return { ...show(chat), first };
  },
  async reloadBare() {
    return this.reload(true);
  },
  async reload(bare = false) {
    const left = open();
    left.sendMessage({ text: "hello" });
    await until(() => begun(left));
    await left.stop();
    const messages = structuredClone(left.messages);
    const stored = open({ messages: bare ? messages.filter(({ role }) => role === "user") : messages });
    await stored.resumeStream();
    const whole = structuredClone(stored.messages);
    whole.at(-1).metadata.rating = "up";
    const again = open({ messages: whole });
    await again.resumeStream();
    return { left: show(left), stored: show(stored), again: show(again) };
  },
  async cut() {
    const chat = open({}, { fetch: breaking });
    await chat.sendMessage({ text: "hello" });
    const broken = structuredClone(show(chat));
    chat.transport.fetch = undefined;
    await chat.resumeStream();
    return { ...show(chat), broken };
  },
  async nothing() {
    const chat = open();
    await chat.resumeStream();
    return show(chat);
  },
  async stop() {
    const chat = open();
    const sending = chat.sendMessage({ text: "hello" });
    await until(() => begun(chat));
    const response = await fetch(`${api}/${encodeURIComponent(id)}/stop`, { method: "POST" });
    await sending;
    return { ...show(chat), stopped: response.status };
  },
  async tools() {
    const chat = open({
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall: ({ toolCall }) => {
        const { toolCallId, toolName: tool, input } = toolCall;
        chat.addToolOutput({ tool, toolCallId, output: { sky: "blue", asked: input } });
      },
    });
    await chat.sendMessage({ text: "hello" });
    await until(() => finished.length === 2 && chat.status !== "streaming");
    return show(chat);
  },
};

const result = await scenes[scene]();
console.log(JSON.stringify({ ...result, heard, finished }));
