// The AI SDK with a tool that OpenAI runs: two turns, the second refers to the search.
const [, , version, baseURL] = process.argv;
const { generateText, streamText } = await import(`ai${version}`);
const { createOpenAI } = await import(`openai${version}`);

const openai = createOpenAI({ baseURL, apiKey: 'k' });
const call = { model: openai('m'), tools: { web_search: openai.tools.webSearch({}) }, maxRetries: 0 };
const messages = [{ role: 'user', content: 'Tea?' }];
const failures = [];
const onError = ({ error }) => failures.push(String(error));
const first = streamText({ ...call, messages, onError });
const parts = [];
for await (const part of first.fullStream) parts.push(part.type);
const made = (await first.responseMessages) ?? (await first.response).messages;
const then = [...messages, ...made, { role: 'user', content: 'And now?' }];
const second = await generateText({ ...call, messages: then });
console.log(JSON.stringify({ parts, text: second.text, failures }));
