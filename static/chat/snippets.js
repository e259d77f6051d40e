/**
 * A request as code, in the words of each client. Nothing here touches the page: what is written
 * can be run as it stands, with the key in `RELAY_KEY` where the relay asks for one.
 */

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** @typedef {{base: string, keyed: boolean}} Where the relay's address, ending in `/`, and whether it asks for a key */
/** @typedef {(request: ChatRequest, where: Where) => string} Writer */
/** @typedef {{key: (name: string) => string, string: (text: string) => string, words: [string, string, string], indent: string}} Style `words`: true, false, null */

const WIDTH = 88;
const DATA_SHOWN = 56; // characters of a file's data
const TEXT_SHOWN = 200; // characters of a file's text

/** @type {Style} */
const JSON_STYLE = { key: (name) => JSON.stringify(name), string: (text) => JSON.stringify(text), words: ['true', 'false', 'null'], indent: '  ' };
/** @type {Style} */
const PYTHON_STYLE = { ...JSON_STYLE, words: ['True', 'False', 'None'], indent: '    ' };
/** @type {Style} */
const SCRIPT_STYLE = {
  ...JSON_STYLE,
  key: (name) => (/^[A-Za-z_]\w*$/.test(name) && name !== '__proto__' ? name : quoted(name)),
  string: quoted,
};

/** A string of JavaScript, in single quotes. @param {string} text */
function quoted(text) {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}

/** A word of the shell. @param {string} text */
function word(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * Write a value, on one line where that is short.
 * @param {unknown} value
 * @param {Style} style
 * @param {number} [depth] levels that its lines are indented by
 * @param {number} [taken] characters that stand before it on its line
 * @returns {string}
 */
export function literal(value, style, depth = 0, taken = 0) {
  if (typeof value === 'string') return style.string(value);
  if (value === null || value === undefined) return style.words[2];
  if (typeof value === 'boolean') return style.words[value ? 0 : 1];
  if (typeof value !== 'object') return String(value);
  const list = Array.isArray(value);
  /** @type {[string, unknown][]} */
  const entries = list ? value.map((one) => ['', one]) : Object.entries(value).filter(([, one]) => one !== undefined).map(([name, one]) => [`${style.key(name)}: `, one]);
  const [open, close] = list ? '[]' : '{}';
  if (!entries.length) return open + close;
  const gap = !list && style === SCRIPT_STYLE ? ' ' : '';
  const short = `${open}${gap}${entries.map(([name, one]) => name + literal(one, style)).join(', ')}${gap}${close}`;
  const line = '\n' + style.indent.repeat(depth);
  if (depth * style.indent.length + taken + short.length <= WIDTH && !short.includes('\n')) return short;
  const last = style === JSON_STYLE ? '' : ',';
  const lines = entries.map(([name, one]) => `${line}${style.indent}${name}${literal(one, style, depth + 1, name.length + 1)}`);
  return `${open}${lines.join(',')}${last}${line}${close}`;
}

/**
 * Return a request with what files hold cut short, for reading.
 * @param {ChatRequest} request
 * @returns {ChatRequest}
 */
export function shortened(request) {
  /** @param {unknown} value @returns {unknown} */
  const cut = (value) => {
    if (typeof value === 'string') {
      return value.length > 2 * DATA_SHOWN && /^data:[^,]{1,100},/.test(value) ? `${value.slice(0, DATA_SHOWN)}…` : value;
    }
    if (Array.isArray(value)) return value.map(cut);
    if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one)]));
    return value;
  };
  const messages = request.messages.map((message) => {
    if (!Array.isArray(message.content)) return message;
    // What was typed stands last; the texts before it are files.
    const last = message.content.findLastIndex((part) => part.type === 'text');
    const content = message.content.map((part, at) => (part.type === 'text' && at !== last && part.text.length > TEXT_SHOWN
      ? { ...part, text: `${part.text.slice(0, TEXT_SHOWN)}…` } : cut(part)));
    return { ...message, content };
  });
  return { ...request, messages };
}

/** @type {Writer} */
function curl(request, { base, keyed }) {
  const key = keyed ? ' \\\n  -H "authorization: Bearer $RELAY_KEY"' : '';
  return `curl -N ${word(`${base}v1/chat`)}${key} \\\n  -H 'content-type: application/json' \\\n  -d ${word(literal(request, JSON_STYLE))}\n`;
}

/** @type {Writer} */
function client(request, { base, keyed }) {
  return `import { chat } from 'seseragi';

const request = ${literal(request, SCRIPT_STYLE, 0, 16)};
const stream = chat(request, {
  url: ${quoted(`${base}v1/chat`)},${keyed ? "\n  credential: 'RELAY_KEY',  // or a function that fetches a client secret" : ''}
});
for await (const { event } of stream) {
  if (event.type === 'text.delta') console.log(event.text);
  if (event.type === 'stream.end') console.log(event.status, event.usage);
}
`;
}

/** @type {Writer} */
function react({ messages, ...request }, { base, keyed }) {
  const [asked] = messages.slice(-1);
  const before = messages.slice(0, -1);
  const said = { ...request, ...(before.length ? { messages: before } : {}) };
  return `import { textOf } from 'seseragi/parts';
import { useChat } from 'seseragi/react';

const request = ${literal(said, SCRIPT_STYLE, 0, 16)};

export function Chat() {
  const { messages, status, error, send, stop, retry } = useChat({
    url: ${quoted(`${base}v1/chat`)},
    request,${keyed ? "\n    credential: 'RELAY_KEY',  // or a function that fetches a client secret" : ''}
  });
  const ask = () => send(${literal(asked.content, SCRIPT_STYLE, 1, 26)});
  return (
    <main>
      {messages.map((message) => <p key={message.id} className={message.role}>{textOf(message)}</p>)}
      {error && <p>{error.message} <button onClick={retry}>Try again</button></p>}
      {status === 'ready' || status === 'error'
        ? <button onClick={ask}>Send</button> : <button onClick={stop}>Stop</button>}
    </main>
  );
}
`;
}

/** @type {Writer} */
function eventSource(request, { base, keyed }) {
  return `const response = await fetch(${quoted(`${base}v1/chat`)}, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    prefer: 'respond-async',${keyed ? "\n    authorization: 'Bearer RELAY_KEY'," : ''}
  },
  body: JSON.stringify(${literal(request, SCRIPT_STYLE, 1, 23)}),
});
if (!response.ok) throw new Error(await response.text());
const { events_url } = await response.json();

const source = new EventSource(new URL(events_url, response.url));
source.addEventListener('text.delta', ({ data }) => console.log(JSON.parse(data).text));
source.addEventListener('stream.end', ({ data }) => {
  source.close();  // or it would come back
  console.log(JSON.parse(data).status);
});
`;
}

/** @type {Writer} */
function openai({ model, messages, stream: _, temperature, max_tokens, ...rest }, { base, keyed }) {
  const plain = Object.entries({ temperature, max_tokens }).filter(([, value]) => value !== undefined)
    .map(([name, value]) => `\n    ${name}=${literal(value, PYTHON_STYLE)},`).join('');
  const more = Object.keys(rest).length ? `\n    extra_body=${literal(rest, PYTHON_STYLE, 1, 11)},` : '';
  return `${keyed ? 'import os\n\n' : ''}from openai import OpenAI

client = OpenAI(base_url=${literal(`${base}v1`, PYTHON_STYLE)}, api_key=${keyed ? 'os.environ["RELAY_KEY"]' : '"none"'})
messages = ${literal(messages, PYTHON_STYLE, 0, 11)}
stream = client.chat.completions.create(
    model=${literal(model ?? 'MODEL', PYTHON_STYLE)},
    messages=messages,
    stream=True,${plain}${more}
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
`;
}

/** @type {Writer} */
function httpx(request, { base, keyed }) {
  return `import json${keyed ? '\nimport os' : ''}

import httpx

request = ${literal(request, PYTHON_STYLE, 0, 10)}
${keyed ? `headers = {"authorization": f"Bearer {os.environ['RELAY_KEY']}"}\n` : ''}url = ${literal(`${base}v1/chat`, PYTHON_STYLE)}
with httpx.stream("POST", url, json=request${keyed ? ', headers=headers' : ''}, timeout=60) as answer:
    answer.raise_for_status()
    rest = b""
    for data in answer.iter_bytes():
        *lines, rest = (rest + data).split(b"\\n")
        for line in lines:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if event["type"] == "text.delta":
                    print(event["text"], end="", flush=True)
`;
}

/** Each way to ask: its name, the language of its code, what it needs, and how it is written. */
export const SNIPPETS = {
  curl: { name: 'curl', language: 'sh', needs: '', write: curl },
  client: { name: 'seseragi.js', language: 'js', needs: 'In a page without a build step, import it from {base}static/seseragi.js', write: client },
  react: { name: 'React', language: 'tsx', needs: 'Needs the package seseragi and React 18.2 or later', write: react },
  eventsource: { name: 'EventSource', language: 'js', needs: 'Needs nothing but the browser', write: eventSource },
  openai: { name: 'Python, openai', language: 'python', needs: 'pip install openai', write: openai },
  httpx: { name: 'Python, httpx', language: 'python', needs: 'pip install httpx', write: httpx },
};
