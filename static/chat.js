/**
 * The demo page: a chat on the left, its events on the right. This module wires them together.
 *
 * Hooks for tests, which stay as they are:
 *   #prompt, #send, #stop, #model, #transport   the composer; transports `fetch` and `eventsource`
 *   #log                                     the chat log
 *   .message.user, .message.assistant        its entries; in an answer .text, .reasoning, .tool, .refusal, .error, .answer-foot
 *   .message.assistant[data-status]          streaming | completed | cancelled | failed | interrupted
 *   #events li[data-type]                    the inspector's rows, a row an event
 *   #format                                  the format of the frames listed, by the values of `?format=`
 *   #stats [data-stat], #status              the figures; the state in words
 *   #cut, #retry-now                         break the connection; connect again now
 *   #tab                                     the link `#stream=<id>`, which shows the stream in a second tab
 *   #show-code, #code; #show, dialog.show    the request as code; the show
 *   #key-form, #key, #key-error, #forget-key the form for a key, and forgetting it
 *   .actions button, .shared input           a link to an answer
 *   body[data-watching], #watching           `#watch=<id>&token=<token>`: somebody else's stream
 *   body[data-state]                         `busy` from sending to the answer's end, else `idle`
 *   body[data-ready]                         the readyState: connecting | open | reconnecting | closed
 */

import { Access } from './chat/access.js';
import { CodeDialog } from './chat/code.js';
import { focusField, model, onSubmit, prompt, transport } from './chat/composer.js';
import { Conversation, resultsFor } from './chat/conversation.js';
import { Inspector } from './chat/inspector.js';
import { say } from './chat/language.js';
import { PROMPTS, offerPrompts, offerRunning } from './chat/prompts.js';
import { Reader } from './chat/reader.js';
import { showWatching, watched } from './chat/sharing.js';
import { tell } from './chat/status.js';
import { byId } from './dom.js';
import { storedKey, takeFromAddress } from './key.js';

/** @typedef {import('./chat/conversation.js').Turn} Turn */

const isOther = takeFromAddress(say); // another key, which does not own what the tab has kept
const inspector = new Inspector();
const conversation = new Conversation({
  retry(turn) {
    if (!turn.kept.prompt) return location.reload(); // another tab's
    conversation.remove(turn);
    ask(turn.kept.prompt);
  },
  inspect(turn) {
    inspector.show(turn);
    show('events');
  },
});
const reader = new Reader({
  change(turn) {
    inspector.update(turn);
    conversation.follow();
  },
  start(turn) {
    inspector.begin(turn);
    conversation.save();
  },
  end(turn, problem) {
    inspector.end(turn, problem);
    if (watched && !turn.recording.last) return conversation.clear(); // the link shows nothing
    conversation.save();
    const results = turn.kept.prompt && resultsFor(turn);
    if (results && turn === conversation.turns.at(-1)) ask(turn.kept.prompt, results);
  },
  unauthenticated: () => access.ask(),
});
const access = new Access({
  models(rows) {
    const offered = new Set(rows.map(({ id }) => id));
    byId('show', HTMLButtonElement).hidden = !rows.some(({ id, owned_by }) => id === 'demo' && owned_by === 'demo'); // it costs nothing
    offerPrompts(offered, (text, wanted) => {
      model.value = wanted;
      ask(text);
    });
    const used = conversation.turns.at(-1)?.kept.model;
    if (used && offered.has(used)) model.value = used;
  },
  key() {
    readOn();
    offerRunning();
  },
  forget() { // what is on the page belongs to the key
    beginAnew();
    byId('running', HTMLElement).replaceChildren();
  },
});
const code = new CodeDialog();

/** @param {string} text @param {any[]} [results] of the tools that the answer before has called */
function ask(text, results) {
  if (reader.reading) return;
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  const question = { prompt: text, model: model.value, transport: transport.value, results };
  const request = conversation.requestFor(question);
  const turn = conversation.add(question);
  conversation.save();
  inspector.show(turn);
  reader.ask(turn, request);
}

/** Go on with the last answer, if it has not ended. */
function readOn() {
  const turn = conversation.turns.at(-1);
  if (!turn || reader.reading) return;
  transport.value = turn.kept.transport;
  inspector.show(turn);
  if (!turn.running) return;
  if (turn.kept.stream) reader.readOn(turn);
  else reader.ask(turn, conversation.requestOf(turn));
}

/** Leave the conversation; its answer is stopped, unless it was asked for elsewhere. */
function beginAnew() {
  reader.leave({ stops: Boolean(conversation.turns.at(-1)?.kept.prompt) });
  conversation.clear();
  inspector.show(null);
  history.replaceState(null, '', location.pathname + location.search);
  show('chat');
  tell(say('Ready'));
}

/** @param {'chat'|'events'} view */
function show(view) {
  document.body.dataset.view = view;
  byId('view-chat', HTMLButtonElement).ariaPressed = String(view === 'chat');
  byId('view-events', HTMLButtonElement).ariaPressed = String(view === 'events');
}

/** Show the request in the composer, or the last one. */
function showCode() {
  const last = conversation.turns.at(-1);
  const text = prompt.value.trim();
  const where = { base: new URL('./', document.baseURI).href, keyed: storedKey() !== null, format: inspector.format };
  if (last?.kept.prompt && !text) code.open(conversation.requestOf(last), { ...where, stream: last.kept.stream }, transport.value);
  else code.open(conversation.requestFor({ prompt: text || PROMPTS[0].text, model: model.value }), where, transport.value);
}

/** @param {string} id @param {() => void} press */
function onClick(id, press) {
  byId(id, HTMLButtonElement).addEventListener('click', press);
}

onSubmit((text) => {
  if (reader.reading) return false;
  ask(text);
  return true;
});
onClick('stop', () => reader.stop());
onClick('cut', () => reader.reading?.cut());
onClick('retry-now', () => reader.reading?.retry());
onClick('new-chat', () => {
  beginAnew();
  prompt.focus();
});
onClick('view-chat', () => show('chat'));
onClick('view-events', () => show('events'));
onClick('copy-events', () => inspector.copy().then(() => say('Copied the events as JSON'), () => say('The browser did not allow copying')).then(tell));
onClick('show-code', showCode);
onClick('show', async () => {
  const { Show } = await import('./chat/show.js'); // few look at it: the page does not wait for it
  new Show().open();
});
addEventListener('keydown', (event) => {
  if (event.key !== 'Escape' || event.defaultPrevented || event.isComposing || !reader.reading || document.querySelector('dialog[open]')) return;
  event.preventDefault();
  reader.stop();
});
addEventListener('hashchange', () => location.reload());

const elsewhere = watched ?? /^#stream=([\w.~-]+)$/.exec(location.hash)?.[1];
if (elsewhere) conversation.add({ stream: elsewhere, model: say('Shared stream') });
else if (isOther) conversation.clear();
else conversation.restore();
readOn();
if (watched) showWatching();
else {
  access.begin();
  offerRunning();
  focusField();
}
