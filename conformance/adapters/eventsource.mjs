// Adapter of a naive reader over the npm package eventsource: node adapters/eventsource.mjs
import { createInterface } from 'node:readline';
import { EventSource } from 'eventsource';

const TYPES = ['stream.start', 'stream.target', 'stream.end', 'choice.end', 'usage', 'notice',
  ...['text', 'reasoning', 'refusal', 'tool_call'].flatMap((kind) => ['start', 'delta', 'end'].map((step) => `${kind}.${step}`))];
const CAN = new Set(['after', 'snapshot']);

function read({ url, after }) {
  const events = [];
  let text = '';
  return new Promise((resolve) => {
    const source = new EventSource(after ? `${url}?after=${after}` : url);
    const finish = (status, error) => {
      source.close();
      resolve({ events, text, status, error });
    };
    for (const type of TYPES) {
      source.addEventListener(type, ({ lastEventId, data }) => {
        const event = JSON.parse(data);
        events.push({ id: lastEventId, event });
        if (type === 'text.delta' && !event.choice) text += event.text;
        if (type === 'stream.end') finish(event.status, null);
      });
    }
    source.onerror = ({ code, message }) => {
      if (source.readyState === EventSource.CLOSED) finish(null, `gave up: ${code ?? message}`);
    };
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  const lacking = wanted.needs.find((need) => !CAN.has(need));
  const report = lacking ? { not_verified: `an EventSource does not do '${lacking}'` } : await read(wanted);
  console.log(JSON.stringify(report));
}
