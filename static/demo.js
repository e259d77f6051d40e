/**
 * The demo page: a chat on the left, its events on the right. This module wires them together.
 *
 * Hooks for tests, which stay as they are:
 *   #prompt, #send, #stop, #model            the composer
 *   #transport                               values `fetch` and `eventsource`
 *   #log                                     the chat log
 *   .message.user, .message.assistant        its entries; an answer has one .text for each text block,
 *                                            .reasoning, .tool, .refusal, .error, and
 *   .message.assistant[data-status]          streaming | completed | cancelled | failed | interrupted
 *   #events li[data-type]                    the inspector's rows, a row an event
 *   #stats [data-stat], #status              the figures; what is going on in words
 *   body[data-state]                         `busy` from sending to the answer's end, else `idle`
 */

import { Answer } from './answer.js';
import { byId, copyText, element, follow } from './dom.js';
import { Inspector } from './inspector.js';
import { SeseragiError } from './seseragi.js';
import { TRANSPORTS } from './transports.js';

// Relative to the page, so that it works below a path prefix too.
const CHAT_URL = new URL('v1/chat', document.baseURI).href;
const MODELS_URL = new URL('v1/models', document.baseURI).href;

const PROMPTS = [
  { model: 'demo', text: 'How do server-sent events work? Show some code.' },
  { model: 'demo', text: 'せせらぎについて、絵文字もまじえて教えてください。', lang: 'ja' },
  { model: 'demo-reasoning', text: '川を三人で渡るパズルを解いてください。', lang: 'ja' },
  { model: 'demo-tools', text: 'What is the weather in Kyoto tomorrow?' },
  { model: 'demo-slow', text: 'Take your time: what makes a stream murmur?' },
  { model: 'demo-error', text: 'Fail before the first byte.' },
  { model: 'demo-drop', text: '途中で途切れる答えを見せてください。', lang: 'ja' },
  { model: 'demo-long', text: 'Tell me a long story about a river.' },
];

const ENDINGS = { completed: 'Done', cancelled: 'Stopped', failed: 'Failed', interrupted: 'Interrupted', streaming: '' };

const prompt = byId('prompt', HTMLTextAreaElement);
const send = byId('send', HTMLButtonElement);
const stop = byId('stop', HTMLButtonElement);
const model = byId('model', HTMLSelectElement);
const transport = byId('transport', HTMLSelectElement);
const log = byId('log', HTMLElement);
const welcome = byId('welcome', HTMLElement);
const status = byId('status', HTMLElement);
const scroll = follow(byId('scroller', HTMLElement));
const inspector = new Inspector();

/** @type {{prompt: string, answer: Answer}[]} */
let turns = [];
/** @type {import('./transports.js').Reading|null} */
let reading = null;
/** @type {import('./seseragi.js').ChatRequest|null} */
let lastRequest = null;

/**
 * The request for a prompt: the turns that have an answer, then the prompt.
 * @param {string} text
 * @returns {import('./seseragi.js').ChatRequest}
 */
function requestFor(text) {
  const history = turns.filter(({ answer }) => answer.text).flatMap(({ prompt: content, answer }) => [
    { role: 'user', content },
    { role: 'assistant', content: answer.text },
  ]);
  return { ...(model.value ? { model: model.value } : {}), messages: [...history, { role: 'user', content: text }] };
}

/** @param {string} text */
async function ask(text) {
  if (reading) return;
  const request = requestFor(text);
  const answer = new Answer(model.value, () => ask(text));
  lastRequest = request;
  turns.push({ prompt: text, answer });
  welcome.hidden = true;
  log.append(element('article', { className: 'message user' }, element('h3', { className: 'hidden' }, 'You'), element('p', {}, text)), answer.article);
  scroll.jump();

  inspector.begin();
  reading = TRANSPORTS[transport.value](request, CHAT_URL, () => { status.textContent = 'Connection lost, reconnecting…'; });
  setBusy(true);
  try {
    await read(reading, answer);
  } finally {
    reading = null;
    setBusy(false);
  }
}

/**
 * @param {import('./transports.js').Reading} from
 * @param {Answer} answer
 */
async function read({ events }, answer) {
  let problem = '';
  try {
    for await (const received of events) {
      if (received.event.type === 'stream.start') status.textContent = 'Answering…';
      inspector.receive(received);
      answer.receive(received.event);
      scroll.keep();
      if (received.event.type === 'stream.end') problem = received.event.error?.message ?? '';
    }
  } catch (error) {
    if (error instanceof SeseragiError) answer.fail(error);
    else if (error instanceof DOMException && error.name === 'AbortError') answer.stop();
    else throw error;
    if (error instanceof SeseragiError) problem = error.message;
  } finally {
    scroll.keep();
    inspector.end(problem && `No events: ${problem}.`);
    status.textContent = problem ? `${ENDINGS[answer.status]}: ${problem}` : ENDINGS[answer.status];
  }
}

/** @param {boolean} busy */
function setBusy(busy) {
  const focused = document.activeElement;
  document.body.dataset.state = busy ? 'busy' : 'idle';
  send.hidden = busy;
  stop.hidden = !busy;
  if (busy) status.textContent = 'Sent, waiting for the answer…';
  if (focused === stop) prompt.focus(); // its button has gone
  if (focused === send) stop.focus();
}

function submit() {
  const text = prompt.value.trim();
  if (!text || reading) return;
  prompt.value = '';
  fitPrompt();
  ask(text);
}

function fitPrompt() {
  prompt.style.height = 'auto';
  prompt.style.height = `${prompt.scrollHeight}px`;
}

/** @param {'chat'|'events'} view */
function show(view) {
  document.body.dataset.view = view;
  byId('view-chat', HTMLButtonElement).ariaPressed = String(view === 'chat');
  byId('view-events', HTMLButtonElement).ariaPressed = String(view === 'events');
}

/** The request as a shell command: what is in the composer, else what was sent last. */
function asCurl() {
  const text = prompt.value.trim();
  const request = text || !lastRequest ? requestFor(text || PROMPTS[0].text) : lastRequest;
  const quoted = (/** @type {string} */ word) => `'${word.replaceAll("'", String.raw`'\''`)}'`;
  return `curl -N ${quoted(CHAT_URL)} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(request))}`;
}

/**
 * @param {Promise<void>} copying
 * @param {string} what
 */
async function tellCopied(copying, what) {
  status.textContent = await copying.then(() => `Copied ${what}`, () => 'The browser did not allow copying');
}

async function loadModels() {
  const response = await fetch(MODELS_URL, { headers: { accept: 'application/json' } });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const { data } = await response.json();
  model.replaceChildren(...data.map((/** @type {{id: string}} */ { id }) => element('option', { value: id }, id)));
}

function offerPrompts() {
  const known = new Set([...model.options].map(({ value }) => value));
  for (const { model: wanted, text, lang } of PROMPTS) {
    if (!known.has(wanted)) continue;
    const words = element('span', { className: 'words' }, text);
    if (lang) words.lang = lang;
    const button = element('button', { type: 'button' }, words, element('span', { className: 'for-model' }, wanted));
    button.addEventListener('click', () => {
      model.value = wanted;
      prompt.value = text;
      fitPrompt();
      prompt.focus();
    });
    byId('prompts', HTMLElement).append(element('li', {}, button));
  }
}

byId('composer', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  submit();
});
prompt.addEventListener('input', fitPrompt);
prompt.addEventListener('keydown', (event) => {
  // While Japanese is being converted, Enter takes the conversion. Safari ends the composition
  // before this event and tells only by the key code.
  const converting = event.isComposing || event.keyCode === 229;
  if (event.key !== 'Enter' || event.shiftKey || converting) return;
  event.preventDefault();
  submit();
});
stop.addEventListener('click', () => {
  status.textContent = 'Stopping…';
  reading?.stop().catch((error) => { status.textContent = `Could not stop: ${error.message}`; });
});
byId('new-chat', HTMLButtonElement).addEventListener('click', () => {
  reading?.stop().catch(() => {});
  turns = [];
  log.replaceChildren();
  welcome.hidden = false;
  show('chat');
  prompt.focus();
});
byId('view-chat', HTMLButtonElement).addEventListener('click', () => show('chat'));
byId('view-events', HTMLButtonElement).addEventListener('click', () => show('events'));
byId('clear-events', HTMLButtonElement).addEventListener('click', () => inspector.clear());
byId('copy-events', HTMLButtonElement).addEventListener('click', () => tellCopied(inspector.copy(), 'the events as JSON'));
byId('copy-curl', HTMLButtonElement).addEventListener('click', () => tellCopied(copyText(asCurl()), 'the request as a curl command'));

loadModels().then(() => {
  offerPrompts();
  status.textContent = 'Ready';
}, (error) => {
  model.replaceChildren(element('option', { value: '' }, 'default'));
  status.textContent = `Could not load the models: ${error.message}`;
});
