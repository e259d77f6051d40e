// The official Node clients beside their generations: what they made of it, as JSON on stdout.
// usage: node beside.mjs URL

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';

const [url] = process.argv.slice(2);
const gpt = new OpenAI({ apiKey: 'k', baseURL: `${url}/v1`, maxRetries: 0 });
const claude = new Anthropic({ apiKey: 'k', baseURL: url, maxRetries: 0 });
const messages = [{ role: 'user', content: 'hello' }];
const found = {};

async function failure(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return [error.constructor.name, error.requestID];
  }
}

const vectors = await gpt.embeddings.create({ model: 'openai/e', input: ['a cat'] });
found.vectors = vectors.data.map(({ embedding }) => embedding);
found.ids = [vectors._request_id];

const completion = await gpt.completions.create({ model: 'demo', prompt: 'hello' });
found.completion = completion.choices[0].text;
found.streamed = '';
for await (const { choices } of await gpt.completions.create({ model: 'demo', prompt: 'hello', stream: true })) {
  found.streamed += choices[0]?.text ?? '';
}

found.models = (await gpt.models.retrieve('demo')).context_length;
found.input = (await gpt.responses.inputTokens.count({ model: 'demo', input: 'hello' })).input_tokens;
const counted = await claude.messages.countTokens({ model: 'demo', messages });
found.counted = counted.input_tokens;
found.ids.push(counted._request_id);
found.claudes = [];
for await (const { id, created_at } of claude.models.list()) found.claudes.push([id, created_at]);

found.failures = [await failure(claude.messages.batches.list()), await failure(gpt.files.list())];
console.log(JSON.stringify(found));
