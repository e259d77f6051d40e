// Asks a relay with different credentials through clients of four kinds: what each made of that.
// usage: node refused.mjs BASE_URL CREDENTIALS_JSON
import { HttpAgent } from "@ag-ui/client";
import Anthropic from "@anthropic-ai/sdk";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";

import { Chat } from "./chat.mjs";

const [base, credentials] = process.argv.slice(2);
const messages = [{ role: "user", content: "hello" }];
const model = "openai/m";
console.warn = () => {};

async function gather(stream) {
  for await (const _ of stream);
}

async function outcome(work) {
  try {
    await work();
    return "answered";
  } catch (error) {
    return [error.constructor.name, error.status ?? null, error.message];
  }
}

const found = {};
for (const credential of JSON.parse(credentials)) {
  const openai = new OpenAI({ apiKey: credential, baseURL: `${base}/v1` });
  const anthropic = new Anthropic({ apiKey: credential, authToken: null, baseURL: base });
  const bearer = new Anthropic({ apiKey: null, authToken: credential, baseURL: base });
  const headers = { Authorization: `Bearer ${credential}` };
  const asked = { model, messages, max_tokens: 9 };
  const told = {
    chat: () => openai.chat.completions.create({ model, messages }),
    chatStream: () => openai.chat.completions.stream({ model, messages }).finalMessage(),
    responses: () => openai.responses.create({ model, input: "hello" }),
    responsesStream: () => openai.responses.stream({ model, input: "hello" }).finalResponse(),
    completions: () => openai.completions.create({ model, prompt: "hello" }),
    embeddings: () => openai.embeddings.create({ model, input: "hello" }),
    models: async () => gather(await openai.models.list()),
    messages: () => anthropic.messages.create(asked),
    messagesStream: () => anthropic.messages.stream(asked).finalMessage(),
    messagesBearer: () => bearer.messages.create(asked),
    count: () => anthropic.messages.countTokens({ model, messages }),
    anthropicModels: async () => gather(await anthropic.models.list()),
  };
  const all = {};
  for (const [name, work] of Object.entries(told)) all[name] = await outcome(work);
  const chat = new Chat({ transport: new DefaultChatTransport({ api: `${base}/v1/ui/chat`, headers }) });
  await chat.sendMessage({ text: "hello" });
  all.useChat = chat.status === "ready" ? "answered" : [chat.status, null, chat.error.message];
  const agent = new HttpAgent({ url: `${base}/v1/ag-ui`, headers, threadId: "t" });
  agent.messages.push({ id: "u1", role: "user", content: "hello" });
  all.agUi = await outcome(() => agent.runAgent({}));
  found[credential] = all;
}
console.log(JSON.stringify(found));
