// OpenAI's Node client against the relay: what it made of the answers, as JSON on stdout.
// usage: node openai.mjs BASE_URL CUTTING_URL

import OpenAI from 'openai';

const [baseURL, cuttingURL] = process.argv.slice(2);
const client = new OpenAI({ apiKey: 'k', baseURL, maxRetries: 0 });
const through = new OpenAI({ apiKey: 'k', baseURL: cuttingURL, maxRetries: 0 });
const messages = [{ role: 'user', content: 'hello' }];
const model = 'openai/m';
const found = {};

async function gather(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

async function failure(promise) {
  try {
    const stream = await promise;
    if (stream[Symbol.asyncIterator]) await gather(stream);
    return null;
  } catch (error) {
    return [error.constructor.name, error.code ?? null];
  }
}

const usual = { model, messages };

found.models = (await gather(client.models.list())).map(({ id }) => id);

const chunks = await gather(await client.chat.completions.create({ ...usual, stream: true, stream_options: { include_usage: true } }));
found.chat = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
found.usage = chunks.at(-1).usage;
found.whole = (await client.chat.completions.create(usual)).choices[0].message.content;

const helped = await client.chat.completions.stream({ ...usual, n: 2, model: 'openai/calls' }).finalChatCompletion();
found.calls = helped.choices.map(({ message, finish_reason }) => [message.content, message.tool_calls?.[0]?.function.arguments ?? null, finish_reason]);

found.busy = await failure(client.chat.completions.create({ ...usual, model: 'openai/busy' }));
found.refused = await failure(client.chat.completions.create({ ...usual, temperature: 99 }));
found.cut = await failure(client.chat.completions.create({ ...usual, model: 'openai/cut', stream: true }));
found.cutHelper = await failure(client.chat.completions.stream({ ...usual, model: 'openai/cut' }).finalChatCompletion());

const response = await client.responses.stream({ model, input: 'hello' }).finalResponse();
found.response = [response.status, response.output_text];
found.failed = await failure(client.responses.stream({ model: 'openai/cut', input: 'hello' }).finalResponse());

const background = await client.responses.create({ model: 'openai/paced', input: 'hello', background: true });
found.background = background.status;
const seen = [];
found.cuts = 0;
while (seen.at(-1)?.type !== 'response.completed') {
  const after = seen.length ? { starting_after: seen.at(-1).sequence_number } : {};
  try {
    for await (const one of await through.responses.retrieve(background.id, { stream: true, ...after })) seen.push(one);
  } catch {
    found.cuts += 1;
  }
}
found.numbers = seen.map(({ sequence_number }) => sequence_number);
found.deltas = seen.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);

const again = client.responses.stream({ response_id: background.id, starting_after: 9 });
found.replayed = (await gather(again))[0].sequence_number;
found.replay = (await again.finalResponse()).output_text;
found.retrieved = (await client.responses.retrieve(background.id)).status;
found.cancelled = (await client.responses.cancel(background.id)).status;
found.empty = (await gather(await client.responses.retrieve(background.id, { stream: true, starting_after: seen.length - 1 }))).length;

const next = await client.responses.create({ model, input: 'more', previous_response_id: response.id });
const listed = await gather(client.responses.inputItems.list(next.id, { order: 'asc', limit: 1 }));
found.stored = [next.previous_response_id === response.id, listed.map(({ role, content }) => `${role}: ${content[0].text}`)];
found.gone = await failure(client.responses.create({ model, input: 'more', previous_response_id: 'resp_none' }));

console.log(JSON.stringify(found));
