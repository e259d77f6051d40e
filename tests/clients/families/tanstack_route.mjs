// A program: TanStack AI's client against the example's route, which is imported from this folder's copy.
// Prints what each client has, and how often the first one asked.
import { ChatClient, fetchServerSentEvents } from '@tanstack/ai-client';

import { GET, POST } from './route.js';

let requests = 0;
const complaints = [];
console.warn = console.error = (...words) => complaints.push(words.join(' '));

const errors = [];
let runId = null;
async function fetchClient(url, init = {}) {
  const request = new Request(new URL(url, 'http://page'), { method: init.method, headers: init.headers, body: init.body, signal: init.signal });
  requests += 1;
  runId ??= request.headers.get('x-run-id');
  const response = await (init.method === 'POST' ? POST : GET)(request);
  if (requests > 1 || !response.ok) return response;
  // The connection is lost with the first text.
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
const connection = fetchServerSentEvents('http://page/api/chat', { fetchClient, reconnect: { delayMs: 10 } });
const client = new ChatClient({ connection, forwardedProps: JSON.parse(process.argv[2]), onError: ({ message }) => errors.push(message) });
await client.sendMessage('hello');
const joined = [];
if (!errors.length) for await (const chunk of connection.joinRun(runId)) joined.push(chunk);
const textOf = (chunks) => chunks.filter(({ type }) => type === 'TEXT_MESSAGE_CONTENT').map(({ delta }) => delta).join('');
console.log(JSON.stringify({ messages: client.getMessages(), errors, requests, complaints, joined: textOf(joined), last: joined.at(-1)?.type }));
process.exit(0);
