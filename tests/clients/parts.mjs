// Asks models of a relay, and compares what the package makes of the events with what the relay says: parts.mjs URL MODEL...
import assert from 'node:assert/strict';

import { AnswerParts, assistantMessage, requestMessages } from '../../static/parts.js';
import { chat } from '../../static/seseragi.js';
import { ChatStore } from '../../static/store.js';

const [url, ...models] = process.argv.slice(2);

for (const model of models) {
  const answer = new AnswerParts();
  const stream = chat({ model, messages: [{ role: 'user', content: 'Hi' }] }, { url: `${url}/v1/chat` });
  for await (const { event } of stream) answer.receive(event);
  const result = await (await fetch(`${url}/v1/streams/${stream.streamId}`)).json();

  const message = assistantMessage(answer.parts, { calls: () => result.status === 'completed' });
  assert.deepEqual(message, result.message);
  const blocks = answer.parts.map(({ done, ...block }) => block);
  assert.deepEqual(blocks, result.blocks);

  // A conversation of two turns, by the store: what is sent back is taken.
  const store = new ChatStore({ url: `${url}/v1/chat`, request: { model }, tools: { get_weather: { parameters: { type: 'object' }, run: () => 'sunny' } } });
  for (const prompt of ['Hi', 'And now?']) {
    await new Promise((resolve, reject) => {
      store.options.onFinish = resolve;
      store.subscribe(() => { if (store.getSnapshot().error) reject(store.getSnapshot().error); });
      assert.ok(store.send(prompt));
    });
  }
  const { messages } = store.getSnapshot();
  assert.ok(messages.every(({ role, status }) => role !== 'assistant' || status === 'completed'));
  assert.ok(requestMessages(messages).length >= 4);
}
console.log('the same');
process.exit();
