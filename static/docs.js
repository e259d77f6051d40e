/** The API as a page, drawn from `openapi.json`: calls, what they take and answer, and curl. */

import { copyText } from './chat/clipboard.js';
import { byId, element } from './dom.js';
import { KeyForm, showing, storeKey, storedKey, takeFromAddress } from './key.js';

const BASE = new URL('.', document.baseURI).href.slice(0, -1); // below a path prefix too
const METHODS = ['get', 'post', 'put', 'patch', 'delete'];
const DEEPEST = 8; // of an example: no schema holds itself, but a later one might
/** What an example says where the schema leaves it open. @type {Record<string, any>} */
const WORDS = { model: 'demo', content: 'Hello!', input: 'Hello!', prompt: 'Hello!', role: 'user', parts: [{ type: 'text', text: 'Hello!' }], max_tokens: 1024 };

const calls = byId('calls', HTMLElement);
const status = byId('status');

/** @typedef {Record<string, any>} Schema */
/** @type {Record<string, Schema>} */
let schemas = {};

/** @param {string} reference */
const nameOf = (reference) => reference.slice(reference.lastIndexOf('/') + 1);
/** @param {Schema} schema @returns {Schema} */
const resolve = (schema) => (schema.$ref ? schemas[nameOf(schema.$ref)] ?? {} : schema);
const code = (/** @type {string} */ text) => element('code', {}, text);

/** A type in a few words. @param {Schema} schema @returns {string} */
function typeOf(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.enum) return schema.enum.map((/** @type {any} */ one) => JSON.stringify(one)).join(' | ');
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' | ');
  if (schema.type === 'array') return `list of ${typeOf(schema.items ?? {})}`;
  return [schema.type ?? 'any'].flat().join(' | ');
}

/** The schemas that one names. @param {Schema} schema @returns {string[]} */
function namesIn(schema) {
  if (schema.$ref) return [nameOf(schema.$ref)];
  return [...(schema.anyOf ?? []), ...(schema.items ? [schema.items] : [])].flatMap(namesIn);
}

/** A `<details>` that is filled when it is first opened. @param {(Node|string)[]} summary @param {() => Node[]} fill */
function opening(summary, fill, properties = {}) {
  const made = element('details', properties, element('summary', {}, ...summary));
  made.addEventListener('toggle', () => made.append(...fill()), { once: true });
  return made;
}

/** @param {Schema} schema @returns {Node[]} */
function described(schema) {
  const { properties, required = [], description } = resolve(schema);
  const names = properties ? [] : namesIn(schema.$ref ? resolve(schema) : schema);
  return [
    ...(description ? [element('p', {}, description)] : []),
    element('ul', { className: 'fields' }, ...Object.entries(properties ?? {}).map(([name, field]) => element('li', {},
      code(name), ' ', element('span', { className: 'note' }, typeOf(field)), required.includes(name) ? element('b', {}, ' required') : '',
      field.description ? ` ${field.description}` : '', ...parts(namesIn(field))))),
    ...parts(names),
  ];
}

/** @param {string[]} names @returns {Node[]} */
const parts = (names) => [...new Set(names)].map((name) => opening([code(name)], () => described(schemas[name] ?? {})));

/** An example of a schema: what is required of it. @param {Schema} given @param {string} [name] @returns {any} */
function example(given, name = '', depth = 0) {
  const schema = resolve(given);
  const { discriminator, anyOf } = schema;
  if (schema.enum) return schema.enum.includes(WORDS[name]) ? WORDS[name] : schema.enum[0];
  if (depth > DEEPEST) return null;
  if (anyOf) return example(discriminator?.mapping?.user ? { $ref: discriminator.mapping.user } : anyOf[0], name, depth + 1);
  if (name in WORDS) return WORDS[name];
  if (schema.type === 'array') return [example(schema.items ?? {}, '', depth + 1)];
  if (schema.type === 'object') return Object.fromEntries((schema.required ?? []).map((/** @type {string} */ one) => [one, example(schema.properties[one], one, depth + 1)]));
  return { string: name || 'text', integer: schema.minimum ?? 1, number: schema.minimum ?? 1, boolean: true }[/** @type {string} */ (schema.type)] ?? null;
}

/** @param {string} method @param {string} path @param {Schema|undefined} body */
function curl(method, path, body) {
  const shown = path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase());
  const words = ['curl', ...(body ? ['-N'] : []), ...(method === 'get' || body ? [] : ['-X', method.toUpperCase()]), `${BASE}${shown}`];
  if (storedKey() !== null) words.push('-H "authorization: Bearer $KEY"');
  if (body) words.push("-H 'content-type: application/json'", `-d '${JSON.stringify(example(body)).replaceAll("'", "'\\''")}'`);
  return words.join(' ');
}

/** @param {string} path @param {string} method @param {Schema} operation */
function call(path, method, operation) {
  const { parameters = [], requestBody, responses = {} } = operation;
  const body = requestBody?.content['application/json']?.schema;
  const name = `${method.toUpperCase()} ${path}`;
  return opening([element('b', { className: 'method' }, method.toUpperCase()), ' ', code(path), ' ', element('span', { className: 'note' }, operation.summary ?? '')], () => {
    const line = curl(method, path, body);
    const copy = element('button', { type: 'button', className: 'quiet', ariaLabel: `Copy the command for ${name}` }, 'Copy');
    copy.onclick = () => copyText(line).then(() => 'Copied', () => 'Not allowed').then((told) => { copy.textContent = told; });
    return [
      element('pre', { tabIndex: 0, role: 'region', ariaLabel: `curl for ${name}` }, code(line)), copy,
      ...(parameters.length ? [element('h2', {}, 'Parameters'), element('ul', { className: 'fields' }, ...parameters.map((/** @type {Schema} */ one) => element('li', {},
        code(one.name), ' ', element('span', { className: 'note' }, `${one.in}, ${typeOf(one.schema ?? {})}`), one.description ? ` ${one.description}` : '')))] : []),
      ...(body ? [element('h2', {}, 'Body'), ...described(body)] : []),
      element('h2', {}, 'Answers'),
      element('ul', { className: 'fields' }, ...Object.entries(responses).map(([code_, { description = '', content = {} }]) => element('li', {},
        code(code_), ` ${description}`, ...Object.entries(content).map(([kind, { schema = {} }]) => element('div', {}, element('span', { className: 'note' }, kind), ...parts(namesIn(schema['x-data-schema'] ?? schema))))))),
    ];
  }, { className: 'card call', id: operation.operationId });
}

/** Ask for the document and draw it. @param {string|null} key @returns {Promise<string>} what is wrong with the key, "" if nothing */
async function load(key) {
  const response = await fetch(`${BASE}/openapi.json`, { headers: showing(key), cache: 'no-cache' }).catch(() => null);
  if (response?.status === 401 || response?.status === 403) {
    form.show(key === null ? '' : 'The relay does not take this key.');
    return 'The relay does not take this key.';
  }
  const told = response?.ok ? await response.json().catch(() => null) : null;
  if (!told) return status.textContent = response ? `The relay answered ${response.status}.` : 'The relay cannot be reached. Load the page again.';
  storeKey(key);
  form.hide();
  schemas = told.components?.schemas ?? {};
  status.textContent = `${told.info.title} ${told.info.version} at ${BASE}`;
  calls.replaceChildren(...Object.entries(told.paths).flatMap(([path, operations]) => METHODS.filter((method) => operations[method]).map((method) => call(path, method, operations[method]))));
  const file = /** @type {HTMLAnchorElement} */ (byId('document'));
  file.href = URL.createObjectURL(new Blob([JSON.stringify(told, null, 2)], { type: 'application/json' })); // a link sends no key
  file.download = 'openapi.json';
  const named = document.getElementById(location.hash.slice(1));
  if (named instanceof HTMLDetailsElement) named.open = true;
  return '';
}

takeFromAddress();
const form = new KeyForm(calls, load);
await load(storedKey());
