// Adapter of the browser client: node adapters/javascript.mjs [DIRECTORY OF seseragi.js]
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

const folder = resolve(process.argv[2] ?? fileURLToPath(new URL('../../static', import.meta.url)));
const load = (name) => import(pathToFileURL(`${folder}/${name}`).href);
const { chat, resume } = await load('seseragi.js');
const { AnswerParts } = await load('parts.js');
const { pendingCalls } = await load('turns.js');

const LACKS = {
  json_lines: 'the browser client reads event streams only',
  snapshot: 'the browser client asks for every event',
};

async function run({ action, url, after, request, needs }) {
  const lacking = needs.find((need) => need in LACKS);
  if (lacking) return { not_verified: LACKS[lacking] };
  const answer = new AnswerParts();
  const events = [];
  let text = '';
  let status = null;
  let finishReason;
  let error = null;
  try {
    const stream = action === 'chat' ? chat(request, { url }) : resume(url, { after });
    for await (const { id, event } of stream) {
      events.push({ id, event });
      answer.receive(event);
      if (event.type === 'text.delta' && !event.choice) text += event.text;
      if (event.type === 'stream.end') ({ status, finish_reason: finishReason } = event);
    }
  } catch (cause) {
    error = cause.code ?? String(cause);
  }
  const calls = pendingCalls({ status, finishReason, parts: answer.parts });
  return { events, text, status, error, calls: calls.map(({ id, name, arguments: json }) => ({ id, name, arguments: json })) };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
