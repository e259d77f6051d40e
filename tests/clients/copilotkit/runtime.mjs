// A program: CopilotKit's client against two servers of the example, which is imported from this folder's copy.
// A page asks at the first, which is gone after the first text, and another reads on at the second,
// or stops the run there. Prints what the pages have.
import { CopilotKitCore, ProxiedCopilotRuntimeAgent } from '@copilotkit/core';

import { createHandler } from './route.js';

const [model, stops] = JSON.parse(process.argv[2]);
const complaints = [];
console.warn = console.error = (...words) => complaints.push(words.join(' '));
process.on('unhandledRejection', ({ message }) => complaints.push(message)); // AG-UI's client leaves that of the lost body

// Each server has a handler of its own; the first one ends with what it sends.
const gone = new AbortController();
const servers = { first: createHandler(), second: createHandler() };
globalThis.fetch = ((fetchRelay) => async (url, init = {}) => {
  const { hostname } = new URL(url);
  if (!servers[hostname]) return fetchRelay(url, init);
  const request = new Request(url, { ...init, duplex: 'half' });
  const response = await servers[hostname](request);
  if (hostname !== 'first' || !response.body) return response;
  const reader = response.body.getReader();
  const body = new ReadableStream({
    start(controller) {
      gone.signal.addEventListener('abort', () => {
        controller.error(gone.signal.reason);
        reader.cancel();
      });
    },
    async pull(controller) {
      const { done, value } = await reader.read();
      if (gone.signal.aborted) return;
      if (done) controller.close();
      else controller.enqueue(value);
    },
  });
  return new Response(body, response);
})(globalThis.fetch);

function open(server) {
  const core = new CopilotKitCore({ runtimeUrl: `http://${server}/api/copilotkit`, properties: { model } });
  const errors = [];
  core.subscribe({ onError: ({ error }) => errors.push(error.message) });
  const agent = new ProxiedCopilotRuntimeAgent({ runtimeUrl: core.runtimeUrl, agentId: 'default', threadId: 'thread-1', runtimeMode: 'sse' });
  return { core, agent, errors };
}
const textOf = (agent) => agent.messages.map(({ role, content }) => [role, content]);
const until = async (condition) => { while (!condition()) await new Promise((resolve) => { setTimeout(resolve, 5); }); };

const first = open('first');
first.agent.addMessage({ id: 'u1', role: 'user', content: 'hello' });
const run = first.core.runAgent({ agent: first.agent }).catch((error) => first.errors.push(error.message));
await until(() => first.agent.messages.some(({ role, content }) => role === 'assistant' && content) || first.errors.length);
gone.abort(new TypeError('lost'));
await run;
const second = open('second');
const joined = second.core.connectAgent({ agent: second.agent });
if (stops) {
  await until(() => textOf(second.agent).length > 1);
  second.agent.abortRun();
}
await joined;
console.log(JSON.stringify({ joined: textOf(second.agent), errors: second.errors, complaints }));
process.exit(0);
