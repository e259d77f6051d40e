/** The panels of the overview. */

import { byId, element } from '../dom.js';
import { Table, put } from './table.js';
import { DASH, clock, count, owner, plain, seconds, usd } from './words.js';

const SVG = 'http://www.w3.org/2000/svg';

const text = (title, width, of, more) => ({ title, width, of, by: of, ...more });
const field = (title, width, name) => text(title, width, (row) => plain(row[name]));
const number = (title, width, name, write = count) => ({ title, width, number: true, of: (row) => write(row[name], row), by: (row) => row[name] && Number(row[name]) });
const cost = number('Cost', 5, 'cost', usd);

const stream = (name) => text('Stream', 8.5, (row) => plain(row[name]), {
  paint: (cell, words, row) => cell.replaceChildren(row[name] ? element('a', { href: `#stream=${row[name]}` }, words) : words),
});

const route = text('Route', 10, ({ route: name, target }) => (target && !target.endsWith(`/${name}`) ? `${plain(name)} → ${plain(target)}` : plain(target ?? name)));

const state = (title, width, of, name) => text(title, width, of, {
  paint: (cell, words, row) => {
    cell.textContent = words;
    cell.dataset[name] = row[name];
  },
});

const stop = {
  title: 'Actions',
  width: 4,
  of: () => 'stop',
  paint: (cell, action, row) => cell.replaceChildren(element('button', {
    type: 'button', className: `quiet ${action}`, ariaLabel: `Stop… ${row.id}`, data: { do: action },
  }, 'Stop…')),
};

/** Used (full) and reserved (striped) money, against its limit. */
const money = (title, name) => ({
  title,
  width: 13,
  by: (row) => Number(row[name].used),
  of: ({ [name]: { used, held, limit } }) => `${usd(used)}${limit === null ? '' : ` of ${usd(limit)}`}${Number(held) ? `, ${usd(held)} held` : ''}`,
  paint: (cell, words, { [name]: { used, held, limit } }) => {
    cell.replaceChildren(words);
    if (limit === null) return;
    const share = (sum, most) => Math.min(most, Number(limit) ? (100 * sum) / limit : 100);
    const full = share(used, 100);
    const kept = share(held, 100 - full);
    const bar = element('span', { className: full + kept > 99.9 ? 'money-bar full' : 'money-bar', ariaHidden: 'true' }, element('span'), element('span'));
    bar.style.setProperty('--used', `${full}%`);
    bar.style.setProperty('--held', `${kept}%`);
    cell.append(bar);
  },
});

const limited = (title, width, name) => ({ ...number(title, width, name, ({ used, limit }) => `${count(used)}${limit === null ? '' : ` of ${count(limit)}`}`), by: (row) => row[name].used ?? -1 });

/** A bar for each of the last 60 minutes. */
const minutes = {
  title: 'By minute',
  width: 9,
  of: ({ minutes: all }) => all.join(' '),
  paint: (cell, _, { minutes: all }) => {
    const most = Math.max(1, ...all);
    const ago = all.length - 1 - all.lastIndexOf(most);
    const svg = document.createElementNS(SVG, 'svg');
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', all.map((n, at) => (n ? `M${at * 2} 20v${-2 - Math.round((18 * n) / most)}h1.5V20z` : '')).join(''));
    for (const [name, value] of Object.entries({ viewBox: '0 0 120 20', preserveAspectRatio: 'none', role: 'img', 'aria-label': `at most ${most} in a minute, ${ago ? `${ago} min ago` : 'now'}` })) svg.setAttribute(name, value);
    svg.append(path);
    cell.replaceChildren(svg);
  },
};

const STATES = { closed: '● healthy', open: '▲ skipped', 'half-open': '◐ on trial' };
const age = (value) => seconds(value).replace(/\.\d+/, '');

function stateOf({ state: name, wait, processes: { open, of } = {} }) {
  const when = name === 'open' && wait > 0 ? ` for ${wait} s` : '';
  return `${STATES[name] ?? plain(name)}${when}${open && open < of ? `, in ${open} of ${of}` : ''}`;
}

function fitness({ draining, log_healthy: healthy, silent }) {
  const told = [draining && 'draining', healthy === false && 'log failing', silent > 10 && `silent for ${age(silent)}`].filter(Boolean);
  return told.length ? `▲ ${told.join(', ')}` : '● healthy';
}

const sum = (rows, name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
const id = (row) => row.id;
const named = (row) => `${row.kind} ${row.name}`;

/** The row of an account, from its usage. */
function accountOf({ account, today, month, streams, limits }) {
  const spent = ({ cost: used, held }, limit) => ({ used, held, limit: limit?.limit ?? null });
  const rate = (limit) => ({ used: limit ? limit.limit - limit.remaining : null, limit: limit?.limit ?? null });
  return {
    kind: account.kind,
    name: account[account.kind] ?? null,
    day: spent(today, limits.usd_per_day),
    month: spent(month, limits.usd_per_month),
    streams: { ...rate(limits.streams), used: streams },
    requests_per_minute: rate(limits.requests_per_minute),
    tokens_per_minute: rate(limits.tokens_per_minute),
  };
}

/** Name, title, key of a row, columns, text without rows, note on the summary. */
const PANELS = [
  ['live', 'Live streams', id, [
    stream('id'), text('Owner', 10, owner), route, number('Age', 5, 'age', age),
    number('Attempt', 6, 'attempt', (n, row) => `${count(n)}${row.attempt > 1 ? `, ${row.attempt - 1} failed` : ''}`),
    number('Events', 4.5, 'events'), number('Gap', 5, 'gap_s', seconds),
    number('Readers', 4.5, 'readers'), stop,
  ], 'No running streams.', ({ live, processes }) => (sum(processes, 'streams') > live.length ? `the oldest ${live.length} of ${count(sum(processes, 'streams'))}` : '')],
  ['targets', 'Targets', (row) => row.target, [
    field('Target', 10, 'target'), state('State', 11, stateOf, 'state'),
    number('Failures', 4.5, 'failures'), text('Last error', 11, ({ last_error: error }) => (error ? `${plain(error.code)}, ${clock(error.at)}` : DASH)),
    text('Routes', 7, (row) => plain(row.routes?.join(', '))),
  ], 'No targets.'],
  ['money', 'Money', named, [
    text('Account', 9, (row) => (row.name === null ? `the ${row.kind}` : plain(named(row)))), money('Today', 'day'), money('This month', 'month'),
    limited('Streams', 5.5, 'streams'), limited('Requests/min', 7, 'requests_per_minute'), limited('Tokens/min', 7.5, 'tokens_per_minute'),
  ], 'Unknown: the log cannot be read.', ({ money: { more } }) => (more ? `and ${count(more)} more accounts` : 'USD, by days and months of UTC')],
  ['codes', 'The last hour', (row) => `${row.kind} ${row.code}`,
    [field('Kind', 4.5, 'kind'), field('Code', 12, 'code'), number('Count', 4, 'count'), minutes], 'No errors.'],
  ['processes', 'Processes', id, [
    text('Process', 10, (row) => plain(`${row.host} : ${row.pid}`)), text('State', 8, fitness),
    number('Streams', 4.5, 'streams'), number('Readers', 4.5, 'readers'), number('Up for', 5.5, 'age', age),
  ], 'None.', ({ version, log, processes, records, rows_waiting: waiting }) => `${plain(version)} · log: ${plain(log)}, ${count(sum(processes, 'log_streams'))} streams, ${count(sum(processes, 'log_bytes') / 1e6)} MB${
    records ? ` · records: ${plain(records)}, ${count(waiting)} waiting` : ''}`],
  ['last', 'Refused and failed', (row) => JSON.stringify([row.at, row.request_id, row.code]), [
    text('At', 5, (row) => clock(row.at)), field('Kind', 4.5, 'kind'), field('Code', 11, 'code'), field('Message', 20, 'message'),
    field('Model', 6, 'model'), text('Owner', 9, owner), field('Request', 9, 'request_id'), stream('stream'),
  ], 'No errors.', () => 'the newest'],
  ['recent', 'Ended', id, [
    text('At', 5, (row) => clock(row.ended_at), { by: (row) => row.ended_at }), stream('id'), state('Status', 10, (row) => plain([row.status, row.code].filter(Boolean).join(': ')), 'status'),
    route, text('Owner', 9, owner), number('Took', 5, 'duration_s', seconds), number('Tokens', 4.5, 'output_tokens'), cost,
  ], 'None yet.', () => 'the newest'],
];

function rowsOf({ at, live, targets, money: { accounts }, counts, last, recent, processes }) {
  const timed = (rows) => rows.map((row) => ({ ...row, age: at - row.started_at, silent: at - row.at, wait: Math.ceil(row.retry_at - at) }));
  const first = Math.floor(at / 60) - 59;
  const codes = ['refused', 'failed'].flatMap((kind) => Object.entries(counts[kind]).map(([code, by]) => {
    const all = Array.from({ length: 60 }, (_, n) => by[first + n] ?? 0);
    return { kind, code, minutes: all, count: all.reduce((a, b) => a + b) };
  }).sort((a, b) => b.count - a.count));
  return { live: timed(live), targets: timed(targets), money: accounts.map(accountOf), codes, last, recent, processes: timed(processes) };
}

/** Build a panel; return its update. */
function build([name, title, key, columns, empty, note = () => ''], act) {
  const table = new Table({ label: title, key, columns, empty, act });
  const said = element('p', { className: 'note' });
  const head = element('div', { className: 'head' }, element('h2', {}, title), said);
  byId('overview').append(element('section', { id: name, className: 'card', ariaLabel: title }, head, ...table.elements));
  if (name === 'live') head.append(element('a', { href: '#targets', className: 'quiet' }, 'Skip to targets'), element('input', { type: 'search', ariaLabel: 'Filter the streams', placeholder: 'Filter', oninput: ({ target }) => table.filter(target.value) }));
  return (summary, rows) => {
    table.update(rows[name]);
    put(said, note(summary));
  };
}

/** Build the overview; return its update. `act(action, row)` runs an action. */
export function overview(act) {
  const updates = PANELS.map((panel) => build(panel, act));
  const figures = byId('figures').querySelectorAll('dd');
  return (summary) => {
    const { processes } = summary;
    const rows = rowsOf(summary);
    const total = (kind) => count(sum(rows.codes.filter((row) => row.kind === kind), 'count'));
    const relay = rows.money.find(({ kind }) => kind === 'relay');
    const values = [
      count(sum(processes, 'streams')), count(sum(processes, 'readers')),
      usd(relay?.day.used), usd(relay?.month.used), total('refused'), total('failed'),
    ];
    for (const [at, value] of values.entries()) put(figures[at], value);
    for (const update of updates) update(summary, rows);
  };
}
