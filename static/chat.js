/**
 * The demo page: a chat on the left, its events on the right. This module wires them together.
 *
 * Hooks for tests, which stay as they are:
 *   #prompt, #send, #stop, #model            the composer
 *   #pick-model, #picker                     what #model is chosen by
 *   #show-code, #code                        the request as code
 *   #attach, #files                          files of the question
 *   #open-settings, #settings                what its requests say beside: #system, #temperature, #max-tokens
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
 *   .answer-foot, .save-cassette             what an answer took, and saving it
 *   body[data-watching], #watching           `#watch=<id>&token=<token>`: somebody else's stream
 *   #open-history, #history                  the conversations that are kept: .reopen, .rename, .save, .delete, #delete-all, #load,
 *                                            #undo-delete, #find-conversation; in #dock beside the talk where there is room
 *   .edit, .editing, .step, .count           a question edited; versions of it and its answer
 *   .regenerate, .go-on                      another answer; the rest of one that was cut off
 *   #connection, #retry-now                  a connection that is away; the next attempt
 *   body[data-state]                         `busy` from sending to the answer's end, else `idle`
 *   body[data-ready]                         the readyState: connecting | open | reconnecting | closed
 *
 * A reload brings the conversation back and reads the running answer on.
 */

import { Access } from './chat/access.js';
import { SettingsDialog } from './chat/adjust.js';
import { Archive } from './chat/archive.js';
import { Attachments } from './chat/attachments.js';
import { CodeDialog } from './chat/code.js';
import { focusField, model, onSubmit, prompt } from './chat/composer.js';
import { ConnectionNotice } from './chat/connection.js';
import { Conversation } from './chat/conversation.js';
import { Drawer } from './chat/drawer.js';
import { Inspector } from './chat/inspector.js';
import { say } from './chat/language.js';
import { Log } from './chat/log.js';
import { ModelPicker } from './chat/picker.js';
import { offerShow } from './chat/offer.js';
import { PROMPTS } from './chat/prompts.js';
import { Reader } from './chat/reader.js';
import { forgetTimes } from './chat/recording.js';
import { requestFor } from './chat/request.js';
import { tellCopied } from './chat/status.js';
import { offerPrompts } from './chat/suggestions.js';
import { Talk } from './chat/talk.js';
import { showWatching, watched } from './chat/watching.js';
import { byId } from './dom.js';
import { storedKey, takeFromAddress } from './key.js';

if (takeFromAddress()) forgetTimes(); // what was kept under another key is not shown

// Before the conversation: as the page goes, it keeps its times first, before a broken connection is told as a cut.
/** @type {Inspector} */
const inspector = new Inspector(() => conversation.turns);
const conversation = new Conversation();
const notice = new ConnectionNotice();
const log = new Log();
/** @type {Reader} */
const reader = new Reader({ conversation, log, inspector, notice, needKey: () => access.ask() });
const talk = new Talk({ conversation, log, reader, inspector });
const archive = new Archive(conversation, talk);
const picker = new ModelPicker();
const code = new CodeDialog(new URL('./', document.baseURI).href);
const attachments = new Attachments(byId('composer', HTMLFormElement), prompt, () => picker.model, () => conversation.files);
const adjust = new SettingsDialog({ read: () => conversation.settings, take: (settings, usual) => conversation.adjust(settings, usual), model: () => picker.model });
const access = new Access({
  onModels: showModels,
  onKey() {
    conversation.changeKey();
    talk.readOn(say('Going on with the key…'));
  },
  onAsk() {
    if (!reader.busy) notice.hide();
    openHistory.hidden = true;
    drawer.close();
  },
  onForget() {
    // What is on the page belongs to the key.
    talk.beginAnew();
    conversation.forgetKey();
    forgetTimes();
  },
  onFailure(error, at) {
    if (!reader.busy) notice.show({ problem: { code: error instanceof TypeError ? 'connection_failed' : '', status: error.status ?? 0 }, at, retry: () => access.begin() });
  },
});
const openHistory = byId('open-history', HTMLButtonElement);
const drawer = new Drawer({ find: (query) => archive.find(query), open: openKept, rename: (id, name) => archive.rename(id, name), save: (id, format) => archive.export(id, format), load, remove: (ids) => archive.remove(ids) });
const untitled = document.title;

/** @param {import('./chat/models.js').Row[]} rows */
function showModels(rows) {
  if (!reader.busy && navigator.onLine) notice.hide();
  picker.offer(rows);
  offerShow(rows);
  offerPrompts((text) => talk.ask(text));
  openHistory.hidden = false;
  drawer.restore();
  showModel();
}

/** Choose the model that was asked last. */
function showModel() {
  const used = conversation.turns.at(-1)?.kept.model;
  if ([...model.options].some(({ value }) => value === used)) model.value = used ?? '';
}

/** @param {string} id */
function openKept(id) {
  talk.open(id);
  showModel();
  show('chat');
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  focusField();
}

/** @param {File} file */
async function load(file) {
  await archive.import(file);
  showModel();
  show('chat');
}

/** @param {'chat'|'events'} view */
function show(view) {
  document.body.dataset.view = view;
  byId('view-chat', HTMLButtonElement).ariaPressed = String(view === 'chat');
  byId('view-events', HTMLButtonElement).ariaPressed = String(view === 'events');
}

/** What is in the composer, else what was sent last. */
function shownRequest() {
  const text = prompt.value.trim();
  const { files } = attachments;
  const { turns, lastRequest, settings: { settings } } = conversation;
  if (!text && !files.length && lastRequest) return lastRequest;
  return requestFor(turns, { text: text || (files.length ? '' : PROMPTS[0].text), files }, { model: model.value, settings });
}

/** @param {string} id @param {() => void} press */
function onClick(id, press) {
  byId(id, HTMLButtonElement).addEventListener('click', press);
}

onSubmit((text) => {
  if (reader.busy || !(text || attachments.files.length) || !attachments.check()) return false;
  talk.ask(text, attachments.take());
  return true;
});
onClick('stop', () => reader.stop());
onClick('cut', () => reader.cut());
onClick('new-chat', () => {
  talk.beginAnew();
  show('chat');
  prompt.focus();
});
talk.onAdjust = () => adjust.open();
conversation.onChange = () => {
  drawer.refresh();
  adjust.tell();
  document.title = conversation.title ? `${conversation.title} · Seseragi` : untitled;
};
prompt.addEventListener('keydown', (event) => {
  if (event.key !== 'ArrowUp' || prompt.value || event.isComposing) return;
  event.preventDefault();
  talk.editLast();
});
addEventListener('keydown', (event) => {
  // What is open is closed first, by the browser or by what opened it.
  if (event.key !== 'Escape' || event.defaultPrevented || event.isComposing || !reader.busy) return;
  const { activeElement: focused } = document;
  if (document.querySelector('dialog[open], :popover-open') || (focused instanceof HTMLInputElement && focused.type === 'search' && focused.value)) return;
  event.preventDefault();
  reader.stop();
});
onClick('view-chat', () => show('chat'));
onClick('view-events', () => show('events'));
onClick('clear-events', () => inspector.clear());
onClick('copy-events', () => tellCopied(inspector.copy(), say('Copied the events as JSON')));
onClick('show-code', () => code.open(shownRequest(), storedKey() !== null));
addEventListener('hashchange', () => location.reload());

talk.comeBack();
if (watched) showWatching();
else {
  drawer.restore(); // at once: the page would move otherwise
  access.begin();
  focusField();
}
