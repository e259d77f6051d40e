/**
 * A request as code for curl, fetch and EventSource. Pure text: it runs as it stands, with the key
 * in `RELAY_KEY` if the relay requires one.
 */

import { FORMATS, eventsUrl } from './relay.js';

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/**
 * `base` is the relay's address, ending in `/`; `keyed` whether it requires a key, whose value is
 * never shown; `stream` the answer, if it has begun, to be read again in `format`.
 * @typedef {{base: string, keyed: boolean, stream?: string|null, format?: import('./relay.js').Format}} Where
 */

/** A word of the shell. @param {string} text */
const word = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** A value as JSON, which is JavaScript too; a message takes a line. @param {ChatRequest} request */
function written({ messages, ...request }) {
  const fields = Object.entries(request).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)},`);
  return `{\n  ${fields.join(' ')}\n  "messages": [\n${messages.map((message) => `    ${JSON.stringify(message)}`).join(',\n')}\n  ]\n}`;
}

/** @param {import('./relay.js').Format} format */
const againAs = (format) => `The same answer again${format === 'native' ? '' : `, as ${FORMATS[format].name}`}; ?after=ID sends the part after an event:`;

/** @param {ChatRequest} request @param {Where} where */
function curl(request, { base, keyed, stream, format = 'native' }) {
  const key = keyed ? ' \\\n  -H "authorization: Bearer $RELAY_KEY"' : '';
  const again = stream ? `\n# ${againAs(format)}
curl -N ${word(eventsUrl(`${base}v1/streams`, stream, format))}${key}\n` : '';
  return `curl -N ${word(`${base}v1/chat`)}${key} \\\n  -H 'content-type: application/json' \\\n  -d ${word(written(request))}\n${again}`;
}

/** @param {ChatRequest} request @param {Where} where */
function overFetch(request, { base, keyed, stream, format = 'native' }) {
  const credential = keyed ? "\n  credential: 'RELAY_KEY',  // or a function that fetches a client secret" : '';
  const headers = keyed ? ", { headers: { authorization: 'Bearer RELAY_KEY' } }" : '';
  const again = stream ? `
// ${againAs(format)}
const again = await fetch(${JSON.stringify(eventsUrl(`${base}v1/streams`, stream, format))}${headers});
console.log(await again.text());\n` : '';
  return `import { chat } from 'seseragi';  // without a build: ${base}static/seseragi.js

const request = ${written(request)};
const stream = chat(request, {
  url: ${JSON.stringify(`${base}v1/chat`)},${credential}
});
for await (const { event } of stream) {
  if (event.type === 'text.delta') console.log(event.text);
  if (event.type === 'stream.end') console.log(event.status, event.usage);
}
${again}`;
}

/** @param {ChatRequest} request @param {Where} where */
function eventSource(request, { base, keyed, format = 'native' }) {
  const end = format === 'native' ? "source.addEventListener('stream.end', () => source.close());  // or it would come back"
    : "source.addEventListener('error', () => source.close());  // at the end, or it would come back";
  return `const response = await fetch(${JSON.stringify(`${base}v1/chat`)}, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    prefer: 'respond-async',${keyed ? "\n    authorization: 'Bearer RELAY_KEY'," : ''}
  },
  body: JSON.stringify(${written(request)}),
});
if (!response.ok) throw new Error(await response.text());
const { events_url } = await response.json();

const url = new URL(events_url, response.url);
${format === 'native' ? '' : `url.searchParams.set('format', '${format}');\n`}const source = new EventSource(url);
source.addEventListener('${FORMATS[format].event}', ({ data }) => console.log(data));
${end}
`;
}

/** Each client: its name, the language of its code, and how it is written. */
export const SNIPPETS = {
  curl: { name: 'curl', language: 'sh', write: curl },
  fetch: { name: 'fetch', language: 'js', write: overFetch },
  eventsource: { name: 'EventSource', language: 'js', write: eventSource },
};
