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
 *   #cut                                     while busy: breaks the connection, which comes back by itself
 *   #tab                                     once the stream is known: the link `#stream=<id>` that shows it
 *                                            live in a second tab
 *   #key-form, #key, #key-error, #forget-key what asks for a key, and forgets it
 *   .actions button, .shared input           a link to an answer
 *   body[data-watching], #watching           `#watch=<id>&token=<token>`: somebody else's stream
 *   body[data-state]                         `busy` from sending to the answer's end, else `idle`
 *   body[data-ready]                         the readyState: connecting | open | reconnecting | closed
 *
 * A reload brings the conversation back and reads the running answer on.
 */

import { Turn, keep, recall } from './conversation.js';
import { byId, copyText, element, follow } from './dom.js';
import { Inspector } from './inspector.js';
import { KeyForm, showing, storeKey, storedKey, takeFromAddress } from './key.js';
import { SeseragiError } from './seseragi.js';
import { CHAT_URL, STREAMS_URL, TRANSPORTS } from './transports.js';

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

const OFFLINE = 'Offline: it is sent when the network is back';
const NO_LINK = 'This link has expired, or is not whole. Ask whoever gave it to you for another.';
const NO_STREAM = 'The stream of this link is not kept any more.';
const ENDINGS = { completed: 'Done', cancelled: 'Stopped', failed: 'Failed', interrupted: 'Interrupted', streaming: '' };

const prompt = byId('prompt', HTMLTextAreaElement);
const send = byId('send', HTMLButtonElement);
const stop = byId('stop', HTMLButtonElement);
const model = byId('model', HTMLSelectElement);
const transport = byId('transport', HTMLSelectElement);
const log = byId('log', HTMLElement);
const welcome = byId('welcome', HTMLElement);
const status = byId('status', HTMLElement);
const cut = byId('cut', HTMLButtonElement);
const tab = byId('tab', HTMLAnchorElement);
const forget = byId('forget-key', HTMLButtonElement);
const keyForm = new KeyForm(byId('composer', HTMLFormElement), useKey);
const scroll = follow(byId('scroller', HTMLElement));
const inspector = new Inspector();

// Who followed a link with a key begins anew: what was said before is not told to its owner.
if (takeFromAddress()) keep([]);

const link = new URLSearchParams(location.hash.slice(1));
const watched = link.get('watch');
const watchedUrl = `${STREAMS_URL}/${encodeURIComponent(watched ?? '')}/events${
  link.has('token') ? `?token=${encodeURIComponent(link.get('token') ?? '')}` : ''}`; // an open relay gives none

/** @type {Turn[]} */
let turns = [];
/** @type {import('./transports.js').Reading|null} */
let reading = null;
/** @type {import('./seseragi.js').ChatRequest|null} */
let lastRequest = null;

/**
 * The request for a prompt: the turns that have an answer, then the prompt.
 * @param {string} text
 * @param {Turn} [without] a turn that is left out
 * @returns {import('./seseragi.js').ChatRequest}
 */
function requestFor(text, without) {
  const answered = turns.filter((turn) => turn !== without && turn.kept.prompt && turn.answer.text);
  const history = answered.flatMap(({ kept, answer }) => [
    { role: 'user', content: kept.prompt },
    { role: 'assistant', content: answer.text },
  ]);
  return { ...(model.value ? { model: model.value } : {}), messages: [...history, { role: 'user', content: text }] };
}

/** Ask a question again, in place of what came of it. @param {Turn} turn */
function askAgain(turn) {
  if (reading) return;
  const { prompt: text } = turn.kept;
  if (!text) return location.reload(); // another tab's
  if (turn === turns.at(-1)) {
    turns.pop();
    turn.answer.article.previousElementSibling?.remove();
    turn.answer.article.remove();
  }
  ask(text, turn);
}

/**
 * @param {string} text
 * @param {Turn} [instead] the turn that it is asked in place of
 */
function ask(text, instead) {
  if (reading) return;
  const request = lastRequest = requestFor(text, instead);
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  const turn = addTurn({ prompt: text, model: model.value, transport: transport.value, key: newKey(), request });
  save();
  inspector.begin();
  read(turn, (onState) => TRANSPORTS[turn.kept.transport].ask(request, turn.kept.key, onState),
    navigator.onLine ? 'Sent, waiting for the answer…' : OFFLINE);
}

/** @param {Partial<import('./conversation.js').Kept>} kept */
function addTurn(kept) {
  const turn = new Turn(kept, () => askAgain(turn));
  turns.push(turn);
  welcome.hidden = true;
  log.append(element('article', { className: 'message user' }, element('h3', { className: 'hidden' }, watched ? 'Somebody else' : 'You'),
    kept.prompt ? element('p', { dir: 'auto' }, kept.prompt)
      : element('p', { className: 'elsewhere' }, watched ? 'Asked by somebody else' : 'Asked in another tab')), turn.answer.article);
  offerSharing(turn);
  scroll.jump();
  return turn;
}

/**
 * Read a turn's answer to its end, over whatever connections that takes.
 * @param {Turn} turn
 * @param {(onState: import('./transports.js').OnState) => import('./transports.js').Reading} begin
 * @param {string} waiting what to say until something comes
 */
async function read(turn, begin, waiting) {
  /** @param {import('./seseragi.js').ReadyState} state */
  const onState = (state) => {
    if (mine !== reading) return;
    if (state === 'reconnecting') status.textContent = navigator.onLine ? 'Reconnecting…' : 'Offline: reading on when the network is back';
    if (state === 'open' && document.body.dataset.ready === 'reconnecting') {
      inspector.reconnected();
      status.textContent = 'Back, answering…';
    }
    showReady(state);
  };
  const mine = reading = begin(onState);
  setBusy(true);
  showReady('connecting');
  showTab(turn.kept.stream);
  status.textContent = waiting;
  let problem = '';
  let answering = false;
  let keyNeeded = false;
  try {
    for await (const received of mine.events) {
      if (mine !== reading) continue; // the conversation was left: only its end is waited for
      if (!answering) status.textContent = 'Answering…';
      answering = true;
      inspector.receive(received);
      turn.receive(received);
      scroll.keep();
      if (received.event.type === 'stream.start') {
        showTab(received.event.stream);
        offerSharing(turn);
        save();
      }
      if (received.event.type === 'stream.end') problem = received.event.error?.message ?? '';
    }
  } catch (error) {
    if (mine !== reading) return;
    if (error instanceof DOMException && error.name === 'AbortError') {
      turn.stop();
    } else {
      if (!(error instanceof SeseragiError)) throw error;
      if (watched && [401, 403, 404, 410].includes(error.status)) problem = notToBeWatched(turn, error.status);
      else if (error.status === 401) keyNeeded = true; // the turn goes on once there is one
      else turn.fail(error);
      problem ||= error.message;
    }
  } finally {
    if (mine === reading) {
      reading = null;
      scroll.keep();
      save();
      inspector.end(problem && `No events: ${problem.replace(/\.$/, '')}.`);
      status.textContent = [ENDINGS[turn.answer.status], problem].filter(Boolean).join(': ');
      showReady('closed');
      setBusy(false);
      if (keyNeeded) askForKey();
    }
  }
}

/** Keep the conversation for a reload, unless it is somebody else's. */
function save() {
  if (!watched) keep(turns);
}

/** Show a stream that another tab began, or what this one had before a reload; nothing if there is nothing. */
function comeBack() {
  const elsewhere = watched || /^#stream=([\w.~-]+)$/.exec(location.hash)?.[1];
  for (const kept of elsewhere ? [{ stream: elsewhere, model: 'Shared stream', transport: transport.value }] : recall()) addTurn(kept);
  readOn(elsewhere ? 'Joining the stream…' : 'Reading on after the reload…');
}

/** Go on with the last turn, if its answer has not ended. @param {string} waiting */
function readOn(waiting) {
  const last = turns.at(-1);
  if (!last || reading) return;
  const { stream, cursor, request, key } = last.kept;
  const over = TRANSPORTS[last.kept.transport] ?? TRANSPORTS.fetch;
  lastRequest = request;
  transport.value = last.kept.transport;
  if (last.running && stream) {
    inspector.begin();
    read(last, (onState) => over.resume(watched ? watchedUrl : stream, cursor, onState), waiting);
  } else if (last.running && request) {
    inspector.begin();
    read(last, (onState) => over.ask(request, key, onState), 'Looking for the answer after the reload…');
  } else {
    showTab(stream);
  }
}

/**
 * Say plainly why a link shows nothing, or no more.
 * @param {Turn} turn
 * @param {number} code the status that the relay answered with
 */
function notToBeWatched(turn, code) {
  const problem = code === 401 || code === 403 ? NO_LINK : NO_STREAM;
  byId('watching-note', HTMLElement).textContent = problem;
  if (turn.kept.cursor) {
    turn.answer.receive({ type: 'stream.end', status: 'interrupted' });
  } else {
    byId('watching-title', HTMLElement).textContent = 'This link shows nothing any more';
    log.replaceChildren();
  }
  return problem;
}

/** @param {Turn} turn */
function offerSharing({ kept, answer }) {
  if (watched || !kept.stream) return;
  const { stream } = kept;
  answer.offerSharing(() => share(stream).catch((error) => {
    status.textContent = `Could not share: ${error.message}`;
    return null;
  }));
}

/** Have a link made to a stream, and copy it. @param {string} stream */
async function share(stream) {
  const response = await fetch(`${STREAMS_URL}/${stream}/share`, { method: 'POST', headers: { accept: 'application/json', ...showing() } });
  if (!response.ok) throw new Error(await problemOf(response));
  const { page_url, expires_at } = await response.json();
  const url = new URL(new URL(page_url, document.baseURI).hash, document.baseURI).href; // of this page, below a path prefix too
  await tellCopied(copyText(url), 'a link to the answer');
  return { url, until: new Date(expires_at * 1000) };
}

/** What an answer with an error status says, in whichever dialect. @param {Response} response */
async function problemOf(response) {
  const body = await response.json().catch(() => null);
  return body?.detail ?? body?.error?.message ?? `the server answered ${response.status}`;
}

/** @param {string} [problem] what was wrong with the key that was shown */
function askForKey(problem = storedKey() === null ? '' : 'The relay does not take this tab’s key any more.') {
  status.textContent = 'A key is needed';
  keyForm.show(problem);
}

/** Take a key that the relay takes. @param {string} key @returns {Promise<string>} what is wrong with it */
async function useKey(key) {
  try {
    if (!await loadModels(key)) return 'The relay does not take this key.';
  } catch (error) {
    return `Could not try this key: ${/** @type {Error} */ (error).message}`;
  }
  storeKey(key);
  keyForm.hide();
  showModels();
  prompt.focus();
  readOn('Going on with the key…');
  return '';
}

/** A name for one request, under which it can be sent again. (`randomUUID` is for https only.) */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** @param {import('./seseragi.js').ReadyState} state */
function showReady(state) {
  document.body.dataset.ready = state;
  byId('ready', HTMLElement).textContent = state;
}

/** @param {string|null} stream */
function showTab(stream) {
  tab.hidden = stream === null;
  if (stream !== null) tab.href = `#stream=${stream}`;
}

/** @param {boolean} busy */
function setBusy(busy) {
  const focused = document.activeElement;
  document.body.dataset.state = busy ? 'busy' : 'idle';
  send.hidden = busy;
  stop.hidden = !busy;
  cut.hidden = !busy;
  if (focused === stop || focused === cut) prompt.focus(); // its button has gone
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
  const key = storedKey() === null ? '' : ' \\\n  -H "authorization: Bearer $RELAY_KEY"';
  return `curl -N ${quoted(CHAT_URL)}${key} \\\n  -H 'content-type: application/json' \\\n  -d ${quoted(JSON.stringify(request))}`;
}

/**
 * @param {Promise<void>} copying
 * @param {string} what
 */
async function tellCopied(copying, what) {
  status.textContent = await copying.then(() => `Copied ${what}`, () => 'The browser did not allow copying');
}

/** Ask for the models. @param {string|null} key @returns {Promise<boolean>} false where the relay does not take the key, or wants one */
async function loadModels(key) {
  const response = await fetch(MODELS_URL, { headers: { accept: 'application/json', ...showing(key) } });
  if (response.status === 401) return false;
  if (!response.ok) throw new Error(await problemOf(response));
  const { data } = await response.json();
  model.replaceChildren(...data.map((/** @type {{id: string}} */ { id }) => element('option', { value: id }, id)));
  return true;
}

function showModels() {
  offerPrompts();
  const used = turns.at(-1)?.kept.model;
  if ([...model.options].some(({ value }) => value === used)) model.value = used ?? '';
  forget.hidden = storedKey() === null;
  if (!reading) status.textContent = 'Ready';
}

/** See what the relay offers, and whether it asks for a key. */
async function begin() {
  try {
    if (await loadModels(storedKey())) showModels();
    else askForKey();
  } catch (error) {
    model.replaceChildren(element('option', { value: '' }, 'default'));
    forget.hidden = storedKey() === null;
    if (!reading) status.textContent = `Could not load the models: ${/** @type {Error} */ (error).message}`;
  }
}

function offerPrompts() {
  const known = new Set([...model.options].map(({ value }) => value));
  byId('prompts', HTMLElement).replaceChildren();
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
cut.addEventListener('click', () => reading?.cut());
byId('new-chat', HTMLButtonElement).addEventListener('click', () => {
  const left = reading;
  reading = null;
  left?.stop().catch(() => {}).finally(left.leave);
  setBusy(false);
  showReady('closed');
  showTab(null);
  status.textContent = 'Ready';
  turns = [];
  save();
  history.replaceState(null, '', location.pathname + location.search);
  log.replaceChildren();
  welcome.hidden = false;
  show('chat');
  prompt.focus();
});
forget.addEventListener('click', () => {
  storeKey(null);
  forget.hidden = true;
  prompt.focus(); // where the relay needs none; the form takes it otherwise
  begin();
});
byId('view-chat', HTMLButtonElement).addEventListener('click', () => show('chat'));
byId('view-events', HTMLButtonElement).addEventListener('click', () => show('events'));
byId('clear-events', HTMLButtonElement).addEventListener('click', () => inspector.clear());
byId('copy-events', HTMLButtonElement).addEventListener('click', () => tellCopied(inspector.copy(), 'the events as JSON'));
byId('copy-curl', HTMLButtonElement).addEventListener('click', () => tellCopied(copyText(asCurl()), 'the request as a curl command'));

// A phone may end a page that is hidden without another word.
addEventListener('pagehide', save);
document.addEventListener('visibilitychange', save);
addEventListener('hashchange', () => location.reload());
addEventListener('offline', () => {
  if (reading && status.textContent?.startsWith('Sent')) status.textContent = OFFLINE;
});
addEventListener('online', () => {
  if (reading && status.textContent === OFFLINE) status.textContent = 'Back, sending again…';
});

comeBack();
if (watched) {
  document.body.dataset.watching = '';
  byId('composer', HTMLFormElement).hidden = true;
  byId('watching', HTMLElement).hidden = false;
} else {
  begin();
}
