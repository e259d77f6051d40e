/** The operator's page: a summary every two seconds, and the inspector on a stream. */

import { Inspector } from './admin/inspector.js';
import { overview } from './admin/panels.js';
import { put } from './admin/table.js';
import { clock, owner, plain } from './admin/words.js';
import { byId } from './dom.js';
import { KeyForm, showing, storeKey, storedKey, takeFromAddress } from './key.js';

const EVERY_MS = 2000;
const LONGEST_MS = 30_000; // the longest pause between attempts
const PATIENCE_MS = 10_000;

const V1 = new URL('v1/', document.baseURI).href; // below a path prefix too
const SUMMARY = `${V1}admin/summary`;

const { body } = document;
const [main, status, banner, forget] = ['main', 'status', 'banner', 'forget-key'].map((id) => byId(id));
const dialog = byId('dialog');

async function call(url, init = {}, key = storedKey()) {
  const headers = { accept: 'application/json', ...showing(key) };
  const response = await fetch(url, { ...init, headers, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  throw Object.assign(new Error(plain(answer?.detail ?? `the relay answered ${response.status}`)), { code: response.status });
}

const reason = ({ code, message }) => (code ? message : 'no answer');

// ---- The summary ----

let summary;
let show;
let timer;
let asking = false;
let failures = 0;

async function ask() {
  clearTimeout(timer);
  if (body.dataset.credential === 'key' && storedKey() === null) return turnAway({ code: 401 });
  if (asking) return; // the next follows this one
  if (document.hidden) return say('paused');
  asking = true;
  try {
    take(await call(SUMMARY));
  } catch (error) {
    if ([401, 403, 404].includes(error.code)) return turnAway(error);
    failures += 1;
    put(byId('banner-text'), `The relay does not answer: ${reason(error)}. ${summary ? `This is its state at ${clock(summary.at)}. ` : ''}Trying again.`);
    banner.hidden = false;
    say('offline');
  } finally {
    asking = false;
  }
  timer = setTimeout(ask, Math.min(LONGEST_MS, EVERY_MS * 2 ** Math.max(0, failures - 1)));
}

function take(answer) {
  const start = performance.now();
  summary = answer;
  for (const row of summary.live) row.readers = summary.readers[row.id] ?? 0;
  failures = 0;
  banner.hidden = true;
  main.hidden = false;
  forget.hidden = storedKey() === null;
  show ??= overview(act);
  if (body.dataset.view === 'overview') show(summary);
  follow();
  body.dataset.state = summary.live.length ? 'busy' : 'idle';
  say('live', clock(summary.at));
  performance.measure('seseragi.update', { start });
}

function say(link, words = link) {
  body.dataset.link = link;
  byId('link').textContent = words;
}

// ---- The key ----

takeFromAddress();
const keyForm = new KeyForm(main, async (key) => {
  try {
    const answer = await call(SUMMARY, {}, key);
    storeKey(key);
    keyForm.hide();
    take(answer);
  } catch (error) {
    return problemOf(error, key);
  }
  byId('to-overview').focus();
  ask();
  return '';
});

function turnAway(error) {
  say('closed');
  banner.hidden = forget.hidden = true;
  inspector.open('');
  keyForm.show(problemOf(error, storedKey()));
}

function problemOf(error, key) {
  if (error.code === 403 && key !== null) return 'This key does not have the role “admin”.';
  if (error.code === 401) return key === null ? '' : 'The relay does not accept this key.';
  return `${reason(error)}.`;
}

forget.onclick = () => {
  storeKey(null);
  location.reload();
};

// ---- The views ----

const inspector = new Inspector((id, dialect) => `${V1}streams/${encodeURIComponent(id)}${dialect ? `/events?format=${dialect}&suffix&uncounted` : ''}`);
let cameFrom;

/** The stream in the address: "" for none, undefined for the overview. */
const inspected = () => (location.hash.startsWith('#stream=') ? location.hash.slice(8) : undefined);
const rowOf = (id) => [...summary.live, ...summary.recent].find((row) => row.id === id);

function follow() {
  const stream = inspected();
  const view = stream === undefined ? 'overview' : 'inspector';
  const changed = body.dataset.view !== view;
  body.dataset.view = view;
  for (const name of ['overview', 'inspector']) {
    byId(name).hidden = name !== view;
    byId(`to-${name}`).ariaCurrent = name === view ? 'page' : null;
  }
  if (!summary) return;
  inspector.open(stream ?? '');
  inspector.tell(rowOf(stream));
  if (!changed) return;
  scrollTo(0, 0);
  if (view === 'inspector') return byId('inspector-title').focus();
  show(summary);
  if (cameFrom?.isConnected) cameFrom.focus();
}

const goTo = (stream) => { location.hash = `stream=${stream}`; };

addEventListener('hashchange', () => {
  if (takeFromAddress()) return location.reload();
  if (body.dataset.view === 'overview') cameFrom = document.activeElement;
  follow();
});
byId('open-stream').onsubmit = () => {
  goTo(byId('stream-id').value.trim());
  return false;
};

// ---- Actions ----

/** Ask for confirmation; Enter alone does nothing. */
function sure(title, text, yes) {
  for (const [name, words] of Object.entries({ title, text, yes })) byId(`dialog-${name}`).textContent = words;
  dialog.returnValue = '';
  dialog.showModal();
  byId('dialog-no').focus();
  return new Promise((resolve) => { dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true }); });
}

/** Run an action and show its result. */
async function perform(done, url) {
  status.textContent = await call(url, { method: 'POST' }).then(() => done, (error) => `Not done: ${reason(error)}.`);
  ask();
}

async function act(what, row) {
  if (what === 'open') {
    const id = row.stream ?? row.id;
    if (id?.startsWith('st_')) goTo(id);
  } else {
    const told = row.readers ? `Its readers (${row.readers}) will see it cancelled.` : '';
    if (!await sure('Stop this stream?', `${plain(row.id)}, ${owner(row)}. ${told} Usage so far is billed.`, 'Stop it')) return;
    await perform(`Stopped ${plain(row.id)}.`, `${V1}streams/${encodeURIComponent(row.id)}/cancel?operator`);
  }
}

byId('stop').onclick = () => act('stop', rowOf(inspected()) ?? { id: inspected() });
byId('ask-now').onclick = ask;
document.addEventListener('visibilitychange', ask);
addEventListener('online', ask);

for (const path of document.querySelectorAll('.current path')) path.setAttribute('d', path.getAttribute('d') + path.dataset.on.repeat(40));
follow();
ask();
