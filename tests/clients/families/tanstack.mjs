// A program: talks to a relay by TanStack AI's client: tanstack.mjs URL RUNS_JSON
// Each run says something, and stops if it shall, or gives the result of a call that waits for it.
// The client runs `weather` itself, and with `leave` loses the connection after the first text. Prints the messages, the status after each run, and what failed.
import { toolDefinition } from '@tanstack/ai/client';
import { ChatClient, fetchServerSentEvents } from '@tanstack/ai-client';

const [url, words] = process.argv.slice(2);
const runs = JSON.parse(words);
const [{ leave }] = runs;
const complaints = [];
console.warn = console.error = (...words) => complaints.push(words.join(' '));
const errors = [];
const states = [];
const given = [];
let hasText = false;

const tool = (name) => toolDefinition({ name, description: 'd', inputSchema: { type: 'object' } });
const weather = (input) => {
  given.push(input);
  return { sky: 'blue' };
};
let requests = 0;
async function fetchClient(...request) {
  const response = await fetch(...request);
  requests += 1;
  if (!leave || requests > 1) return response;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const body = new ReadableStream({
    async pull(controller) {
      const end = () => text.indexOf('\n\n', text.indexOf('TEXT_MESSAGE_CONTENT') >>> 0);
      if (end() >= 0) {
        await reader.cancel();
        return controller.error(new TypeError('lost'));
      }
      while (end() < 0) text += (await reader.read()).value;
      controller.enqueue(new TextEncoder().encode(text.slice(0, end() + 2)));
    },
  });
  return new Response(body, response);
}
const client = new ChatClient({
  connection: fetchServerSentEvents(`${url}/v1/ag-ui`, { fetchClient, reconnect: { delayMs: 10 } }),
  tools: [tool('weather').client(weather), tool('confirm').client()],
  forwardedProps: { temperature: 0.5, on_disconnect: leave ?? 'cancel' },
  onChunk: ({ type }) => (hasText ||= type === 'TEXT_MESSAGE_CONTENT'),
  onError: ({ message, code }) => errors.push([message, code]),
});
for (const { say, answer, stop } of runs) {
  const done = answer === undefined ? client.sendMessage(say) : client.addToolResult(answer);
  while (stop && !hasText) await new Promise(setImmediate);
  if (stop) client.stop();
  await done;
  states.push(client.getStatus());
}
console.log(JSON.stringify({ messages: client.getMessages(), states, errors, given, requests, complaints }));
process.exit(0);
