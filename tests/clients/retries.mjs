// Answers each SDK with an error and then with success: how often it asked, and what it waited for.
// usage: node retries.mjs <ROWS_JSON
import Anthropic from "@anthropic-ai/sdk";
import { APICallError } from "@ai-sdk/provider";
import { generateText } from "ai";
import OpenAI from "openai";
import { text } from "node:stream/consumers";

const later = globalThis.setTimeout;
let waits = [];
globalThis.setTimeout = (work, ms, ...more) => {
  if (ms > 100 && ms < 200_000) waits.push(ms); // longer ones are timeouts of requests
  return ms < 200_000 ? later(work, 0, ...more) : later(work, ms, ...more);
};
console.warn = () => {};

const messages = [{ role: "user", content: "hello" }];

async function count(work) {
  let asked = 0;
  waits = [];
  try {
    await work(() => asked++ === 0);
  } catch {}
  return [asked, waits];
}

const answer = (isFirst, [status, headers]) =>
  isFirst ? new Response("{}", { status, headers }) : Response.json({ choices: [], content: [] });

const found = [];
for (const { heads } of JSON.parse(await text(process.stdin))) {
  const { openai_chat: openai, anthropic } = heads;
  found.push({
    openai: await count((isFirst) => {
      const client = new OpenAI({ apiKey: "k", maxRetries: 1, fetch: async () => answer(isFirst(), openai) });
      return client.chat.completions.create({ model: "m", messages });
    }),
    anthropic: await count((isFirst) => {
      const fetch = async () => answer(isFirst(), anthropic);
      const client = new Anthropic({ apiKey: "k", authToken: null, maxRetries: 1, fetch });
      return client.messages.create({ model: "m", messages, max_tokens: 9 });
    }),
    ai: await count((isFirst) =>
      generateText({
        maxRetries: 1,
        prompt: "hello",
        model: {
          specificationVersion: "v3",
          provider: "p",
          modelId: "m",
          supportedUrls: {},
          async doGenerate() {
            if (!isFirst()) throw new Error("done");
            const [statusCode, responseHeaders] = openai;
            throw new APICallError({ message: "m", url: "/", requestBodyValues: {}, statusCode, responseHeaders });
          },
        },
      }),
    ),
  });
}
console.log(JSON.stringify(found));
process.exit(0);
