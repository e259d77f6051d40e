// The AI SDK with its OpenAI provider as it comes: two turns, the first with a tool call.
// Says what it has sent in place of earlier items, and what it has got.
const [, , version, baseURL] = process.argv;
const { generateText, streamText, tool, stepCountIs, isStepCount } = await import(`ai${version}`);
const { createOpenAI } = await import(`openai${version}`);
const { z } = await import('zod');

const sent = [];
const openai = createOpenAI({
  baseURL,
  apiKey: 'k',
  fetch: (url, init) => {
    sent.push(JSON.parse(init.body));
    return fetch(url, init);
  },
});
const model = openai('m');
const tools = {
  now: tool({
    description: 'The time',
    inputSchema: z.object({ a: z.number() }),
    execute: async () => '12:00',
  }),
};
const stopWhen = (stepCountIs ?? isStepCount)(3);
const failures = [];
const texts = [];

const messages = [{ role: 'user', content: 'when?' }];
const first = await generateText({ model, tools, stopWhen, messages, maxRetries: 0 });
texts.push(first.text);
const madeBy = async (result) => (await result.responseMessages) ?? (await result.response).messages;
messages.push(...(await madeBy(first)), { role: 'user', content: 'thanks' });
const second = streamText({
  model,
  tools,
  stopWhen,
  messages,
  maxRetries: 0,
  onError: ({ error }) => failures.push(String(error)),
});
texts.push(await second.text);
messages.push(...(await madeBy(second)), { role: 'user', content: 'bye' });
const third = await generateText({ model, tools, stopWhen, messages, maxRetries: 0 });
texts.push(third.text);

// By the id of the response before.
const responseId = third.providerMetadata.openai.responseId;
const fourth = await generateText({
  model,
  prompt: 'and?',
  maxRetries: 0,
  providerOptions: { openai: { previousResponseId: responseId } },
});
texts.push(fourth.text);
const references = sent.map(({ input }) =>
  input.filter((item) => item.type === 'item_reference').map((item) => item.id.split('_')[0]),
);
console.log(JSON.stringify({ texts, references, failures }));
