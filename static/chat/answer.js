/**
 * One answer in the log: draws each event as it comes, and keeps the text for the next question.
 */

import { element } from '../dom.js';
import { copyButton } from './clipboard.js';
import { moment, number, say } from './language.js';
import { Markdown } from './markdown.js';
import { makeSharing } from './sharing.js';

/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */
/** @typedef {import('../seseragi.js').StreamFailure} StreamFailure */
/** @typedef {import('../seseragi.js').StreamEnd} StreamEnd */
/** A block that grows. @typedef {{append(text: string): void, whole?(text: string): void, end(): void}} Block */

const SOON_S = 120;
const BRIEF = 200; // characters of a call's arguments that are shown when it is folded

/** JSON with the characters that turn the direction of text as escapes. @param {string} json */
export const escaped = (json) => json.replace(/\p{Bidi_Control}/gu, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);

export class Answer {
  /** The text so far. */
  text = '';
  /** @type {'streaming'|import('../seseragi.js').Status} */
  status = 'streaming';
  #target = element('span', { className: 'target' });
  #parts = element('div', { className: 'parts' });
  #outcome = element('footer', { className: 'outcome', data: { away: say('reconnecting…') } });
  /** @type {ReturnType<typeof makeSharing>|null} */
  #sharing = null;
  /** @type {HTMLElement|null} */
  #sources = null;
  /** @type {Map<number, Block>} */
  #blocks = new Map();
  #acts;
  #model;

  /** @param {string} model @param {{retry: () => void, inspect: () => void}} acts ask again; list the events */
  constructor(model, acts) {
    this.#acts = acts;
    this.#model = model;
    this.article = element('article', { className: 'message assistant', ariaBusy: 'true', data: { status: 'streaming' } },
      element('h3', { className: 'who' }, model || say('default model'), this.#target),
      this.#parts, this.#outcome);
  }

  /** Offer a link to this answer. @param {string} stream */
  offerSharing(stream) {
    if (this.#sharing) return;
    this.#sharing = makeSharing(stream);
    this.#parts.before(this.#sharing.root); // below them it would move with every line
  }

  /** @param {StreamEvent} event */
  receive(event) {
    switch (event.type) {
      case 'stream.target':
        if (![this.#model, `demo/${this.#model}`].includes(`${event.upstream}/${event.model}`)) this.#target.textContent = ` via ${event.upstream}/${event.model}`;
        break;
      case 'text.start':
      case 'refusal.start':
        this.#blocks.set(event.block, this.#prose(this.#add('div', event.type.split('.')[0])));
        break;
      case 'reasoning.start':
        this.#blocks.set(event.block, this.#reasoning());
        break;
      case 'tool_call.start':
        this.#blocks.set(event.block, this.#toolCall(event.name));
        break;
      case 'text.delta':
        this.text += event.text; // falls through
      case 'reasoning.delta':
      case 'refusal.delta':
        this.#blocks.get(event.block)?.append(event.text);
        break;
      case 'tool_call.delta':
        this.#blocks.get(event.block)?.append(event.arguments);
        break;
      case 'tool_call.end':
        this.#blocks.get(event.block)?.whole?.(event.arguments);
        break;
      case 'text.end':
      case 'reasoning.end':
      case 'refusal.end':
        this.#blocks.get(event.block)?.end();
        break;
      case 'provider_tool':
        this.#providerTool(event);
        break;
      case 'source':
        this.#source(event);
        break;
      case 'media':
        this.#media(event);
        break;
      case 'notice':
        this.#add('p', 'notice').append(element('code', {}, event.code), ` ${event.message}`);
        break;
      case 'stream.end':
        this.#end(event);
        break;
    }
  }

  /** It failed outside the stream of events. @param {import('../seseragi.js').SeseragiError} error @param {boolean} begun whether it had begun: the rest is lost then */
  fail({ code, message, retryable, retryAfterS, requestId }, begun) {
    const error = { code, message, retryable, retry_after_s: retryAfterS ?? undefined };
    this.#end({ type: 'stream.end', status: begun ? 'interrupted' : 'failed', error }, { requestId, lost: begun });
  }

  /** @param {StreamEnd} end @param {{requestId?: string|null, lost?: boolean}} [about] */
  #end(end, about) {
    for (const block of this.#blocks.values()) block.end();
    if (end.error) this.#outcome.append(this.#error(end.error, about));
    const reason = end.status === 'completed' ? end.finish_reason ?? 'stop' : end.status;
    if (!['stop', 'tool_calls'].includes(reason)) this.#outcome.append(element('p', { className: 'problem' }, say('Ended early: {reason}', { reason })));
    this.#outcome.append(element('div', { className: 'answer-foot' }, element('p', { className: 'usage' }, figures(end)),
      ...(this.text ? [copyButton('copy-answer', () => this.text)] : []),
      element('button', { type: 'button', className: 'quiet inspect', onclick: this.#acts.inspect }, say('Events'))));
    this.#sharing?.end();
    this.status = end.status;
    this.article.dataset.status = end.status;
    this.article.ariaBusy = 'false';
  }

  /** @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {string} className */
  #add(tag, className) {
    const part = element(tag, { className });
    this.#parts.append(part);
    return part;
  }

  /** @param {HTMLElement} root @returns {Block} */
  #prose(root) {
    const prose = new Markdown(root);
    return { append: (text) => prose.append(text), end: () => prose.finish() };
  }

  /** A part that folds: open while it grows, closed after, unless the reader decides otherwise. @param {string} className @param {...(Node|string)} title */
  #fold(className, ...title) {
    const summary = element('summary', {}, ...title);
    const root = this.#add('details', className);
    root.open = true;
    root.append(summary);
    let chosen = false;
    // `click` comes before the state changes; `toggle` comes for changes by script too.
    summary.addEventListener('click', () => { chosen = true; });
    const end = () => {
      if (!chosen && !root.contains(document.activeElement)) root.open = false;
      chosen = true;
    };
    return { root, end };
  }

  #reasoning() {
    const fold = this.#fold('reasoning', say('Reasoning'));
    const body = element('div', { className: 'thought' });
    fold.root.append(body);
    const { append, end } = this.#prose(body);
    return { append, end: () => [end, fold.end].forEach((one) => one()) };
  }

  /** @param {string} name @returns {Block} */
  #toolCall(name) {
    const state = element('span', { className: 'state' }, say('writing the arguments…'));
    const fold = this.#fold('tool', say('Tool call'), ' ', element('code', {}, name), ' ', state);
    const given = makeJson(say('Arguments of {name}', { name }));
    fold.root.append(given.root);
    let whole = false;
    return {
      append: given.add,
      whole(text) {
        whole = true;
        given.clear();
        given.add(indented(text));
        state.textContent = escaped(brief(text));
        state.classList.add('brief');
        fold.end();
      },
      end() {
        if (!whole) state.textContent = say('cut off');
        fold.end();
      },
    };
  }

  /** @param {import('../seseragi.js').ProviderTool} event */
  #providerTool({ name, input, output }) {
    const { root, end } = this.#fold('tool', say('Run by the provider:'), ' ', element('code', {}, name));
    const shown = makeJson(name);
    shown.add(JSON.stringify({ input, output }, null, 2));
    root.append(shown.root);
    end(); // it has run
  }

  /** @param {import('../seseragi.js').Source} event */
  #source({ url, document: cited, title, cited_text }) {
    this.#sources ??= this.#add('ul', 'sources');
    const name = title || url || (typeof cited === 'string' ? cited : JSON.stringify(cited)) || say('a document');
    this.#sources.append(element('li', { title: cited_text ?? '' }, linkTo(url, name)));
  }

  /** @param {import('../seseragi.js').Media} event */
  #media({ media_type, url, data }) {
    const image = data && media_type.startsWith('image/');
    this.#add('p', 'media').append(image ? element('img', { src: `data:${media_type};base64,${data}`, alt: say('Image made by the model') }) : linkTo(url, media_type));
  }

  /** @param {StreamFailure} failure @param {{requestId?: string|null, lost?: boolean}} [about] */
  #error(failure, { requestId, lost } = {}) {
    const { code, message, retryable } = failure;
    const hint = lost ? say('The rest of this answer is lost. You can ask again.') : nextStep(failure);
    return element('div', { className: 'error' },
      element('p', { className: 'error-code' }, element('code', {}, code)),
      element('p', {}, message),
      element('p', { className: 'hint' }, hint, requestId ? say(' Request {id}.', { id: requestId }) : ''),
      ...(retryable || lost ? [element('button', { type: 'button', className: 'quiet retry', onclick: this.#acts.retry }, say('Try again'))] : []));
  }
}

/** What an answer took: tokens and cost. @param {StreamEnd} end */
function figures({ usage = {}, cost }) {
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached, reasoning_tokens: reasoning, estimated } = usage;
  return [
    ...(input === undefined ? [] : [say('{tokens} tokens in', { tokens: number(input) })]),
    ...(cached ? [say('{tokens} of them cached', { tokens: number(cached) })] : []),
    ...(output === undefined ? [] : [say('{tokens} out', { tokens: number(output) })]),
    ...(reasoning ? [say('{tokens} of them reasoning', { tokens: number(reasoning) })] : []),
    ...(estimated ? [say('estimated')] : []),
    ...(cost === undefined ? [] : [`${Number(cost) && Number(Number(cost).toPrecision(2))} USD`]),
  ].join(' · ');
}

/** @param {StreamFailure} failure */
function nextStep({ retryable, retry_after_s: wait }) {
  if (wait && wait > SOON_S) return say('Try again after {time}.', { time: moment(new Date(Date.now() + wait * 1000)) });
  if (wait) return say('Try again in {seconds} s.', { seconds: Math.ceil(wait) });
  return retryable ? say('It may work if you try again.') : say('The same request will fail again.');
}

/** Make a box of JSON. @param {string} label */
function makeJson(label) {
  const code = element('code');
  return {
    root: element('pre', { tabIndex: 0, role: 'group', ariaLabel: label }, code),
    /** @param {string} json */
    add: (json) => code.append(escaped(json)),
    clear: () => code.replaceChildren(),
  };
}

/** A link, if it is one to the web. @param {string|undefined} url @param {string} name */
function linkTo(url, name) {
  const safe = url !== undefined && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
  return safe ? element('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, name) : name;
}

/** The arguments of a call in a few words. @param {string} json */
function brief(json) {
  const line = json.trim().replace(/\s+/g, ' ');
  return line === '{}' ? '' : line.length > BRIEF ? `${line.slice(0, BRIEF)}…` : line;
}

/** @param {string} json */
function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // models also write arguments that are not JSON
  }
}
