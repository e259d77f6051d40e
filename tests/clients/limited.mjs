// Asks a relay through clients of four kinds, each for as long as it is answered, and tells what each made of the
// refusal, and how often it has asked.
// usage: node limited.mjs BASE_URL CREDENTIAL
import { HttpAgent } from "@ag-ui/client";
import Anthropic from "@anthropic-ai/sdk";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";

import { Chat } from "./chat.mjs";

const [base, credential] = process.argv.slice(2);
const messages = [{ role: "user", content: "hello" }];
const model = "openai/m";
console.warn = () => {};

let asked = 0;
const counted = (...request) => (asked++, fetch(...request));

async function outcome(work) {
  asked = 0;
  try {
    await work();
    return { told: "answered" };
  } catch (error) {
    const kind = error.error?.error?.type ?? error.type ?? null;
    return { name: error.constructor.name, status: error.status ?? null, code: error.code ?? null, kind, told: error.message, asked };
  }
}

const headers = { Authorization: `Bearer ${credential}` };
const openai = new OpenAI({ apiKey: credential, baseURL: `${base}/v1`, fetch: counted, maxRetries: 1 });
const anthropic = new Anthropic({ apiKey: credential, authToken: null, baseURL: base, fetch: counted, maxRetries: 1 });
const request = { model, messages, max_tokens: 99 };
const found = {
  chat: await outcome(() => openai.chat.completions.create({ model, messages })),
  chatStream: await outcome(() => openai.chat.completions.stream({ model, messages }).finalMessage()),
  responses: await outcome(() => openai.responses.create({ model, input: "hello" })),
  responsesStream: await outcome(() => openai.responses.stream({ model, input: "hello" }).finalResponse()),
  completions: await outcome(() => openai.completions.create({ model, prompt: "hello" })),
  messages: await outcome(() => anthropic.messages.create(request)),
  messagesStream: await outcome(() => anthropic.messages.stream(request).finalMessage()),
};
asked = 0;
const chat = new Chat({ transport: new DefaultChatTransport({ api: `${base}/v1/ui/chat`, headers, fetch: counted }) });
await chat.sendMessage({ text: "hello" });
found.useChat = { name: chat.status, told: chat.error?.message, asked };
const agent = new HttpAgent({ url: `${base}/v1/ag-ui`, headers, threadId: "t" });
agent.messages.push({ id: "u1", role: "user", content: "hello" });
found.agUi = await outcome(() => agent.runAgent({}));
console.log(JSON.stringify(found));
