// A program: talks to a relay by CopilotKit's core: copilotkit.mjs URL RUNS_JSON
// Each run says something, and stops if it shall. The core runs `weather` and asks again. Prints
// the messages and what failed.
import { HttpAgent } from '@ag-ui/client';
import { CopilotKitCore } from '@copilotkit/core';

const [url, runs] = process.argv.slice(2);
const complaints = [];
console.warn = (...words) => complaints.push(words.join(' ')); // its errors are told by `onError`
console.error = () => {};
const errors = [];
const given = [];
let hasText = false;

const agent = new HttpAgent({ agentId: 'default', url: `${url}/v1/ag-ui` });
const handler = async (input) => {
  given.push(input);
  return { sky: 'blue' };
};
const validate = (value) => ({ value });
const jsonSchema = { input: () => ({ type: 'object' }), output: () => ({ type: 'object' }) };
const parameters = { '~standard': { version: 1, vendor: 'tests', validate, jsonSchema } };
const core = new CopilotKitCore({
  agents__unsafe_dev_only: { default: agent },
  properties: { temperature: 0.5 },
  tools: [{ name: 'weather', description: 'd', parameters, handler }],
});
core.subscribe({ onError: ({ code, error }) => errors.push([error.message, code]) });
agent.subscribe({ onTextMessageContentEvent: () => void (hasText = true) });
for (const { say, stop } of JSON.parse(runs)) {
  agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: say });
  const done = core.runAgent({ agent });
  while (stop && !hasText) await new Promise(setImmediate);
  if (stop) core.stopAgent({ agent });
  await done;
}
console.log(JSON.stringify({ messages: agent.messages, errors, given, complaints }));
process.exit(0);
