import { element } from './dom.js';
import { Prose } from './prose.js';

/** @typedef {import('./seseragi.js').StreamEvent} StreamEvent */
/** @typedef {import('./seseragi.js').StreamFailure} StreamFailure */
/** @typedef {import('./seseragi.js').StreamEnd} StreamEnd */
/** @typedef {import('./seseragi.js').Usage} Usage */
/** @typedef {{end(): void}} Block */
/** @typedef {Block & {append(text: string): void}} TextBlock */
/** @typedef {Block & {append(piece: string): void, whole(text: string): void}} ToolBlock */

const FAILED_TO_FINISH = {
  cancelled: 'Stopped before the end',
  failed: 'Failed before the end',
  interrupted: 'Interrupted before the end',
};
/** @type {Record<string, string>} */
const FINISHED_SHORT = {
  length: 'Cut off: the length limit was reached',
  content_filter: 'Cut off by the content filter',
  refusal: 'The model refused',
  pause: 'Paused: the provider wants to be asked to go on',
  error: 'The model ended with an error',
  unknown: 'Ended for a reason the provider did not explain',
};

/**
 * One answer in the log. It draws each event as it comes, in the order of the blocks,
 * and keeps the text for the next turn.
 */
export class Answer {
  /** The text so far. */
  text = '';
  /** @type {'streaming'|import('./seseragi.js').Status} */
  status = 'streaming';
  #target = element('span', { className: 'target' });
  #parts = element('div', { className: 'parts' });
  #outcome = element('footer', { className: 'outcome' });
  #actions = element('div', { className: 'actions' });
  #usage = '';
  /** @type {HTMLElement|null} */
  #sources = null;
  /** @type {Map<number, TextBlock>} */
  #prose = new Map();
  /** @type {Map<number, ToolBlock>} */
  #tools = new Map();
  #retry;

  /**
   * @param {string} model
   * @param {() => void} retry ask again
   */
  constructor(model, retry) {
    this.#retry = retry;
    this.article = element('article', { className: 'message assistant', ariaBusy: 'true', data: { status: 'streaming' } },
      element('h3', { className: 'who' }, model || 'default model', this.#target),
      this.#parts, this.#outcome);
  }

  /**
   * Offer a link to this answer's stream, once there is one.
   * @param {() => Promise<{url: string, until: Date}|null>} share null where that failed
   */
  offerSharing(share) {
    if (this.#actions.isConnected) return;
    const shown = element('div');
    const button = element('button', { type: 'button', className: 'quiet' }, 'Share');
    button.addEventListener('click', async () => {
      button.disabled = true;
      const link = await share().finally(() => { button.disabled = false; });
      button.focus(); // a button that is disabled loses it
      if (!link) return;
      const input = element('input', { type: 'text', readOnly: true, value: link.url, ariaLabel: 'Link to this answer' });
      input.addEventListener('focus', () => input.select());
      shown.replaceChildren(element('p', { className: 'shared' }, input,
        `Whoever has this link can watch this answer until ${link.until.toLocaleString('en', { dateStyle: 'medium', timeStyle: 'short' })}.`));
    });
    this.#actions.append(button, shown);
    this.#parts.before(this.#actions); // below them it would move with every line
  }

  /** @param {StreamEvent} event */
  receive(event) {
    switch (event.type) {
      case 'stream.target':
        this.#target.textContent = ` via ${event.upstream}/${event.model}`;
        break;
      case 'text.start':
        this.#prose.set(event.block, this.#proseBlock(this.#add('div', 'text')));
        break;
      case 'reasoning.start':
        this.#prose.set(event.block, this.#reasoningBlock());
        break;
      case 'refusal.start':
        this.#prose.set(event.block, this.#proseBlock(this.#add('div', 'refusal')));
        break;
      case 'text.delta':
        this.text += event.text;
        this.#prose.get(event.block)?.append(event.text);
        break;
      case 'reasoning.delta':
      case 'refusal.delta':
        this.#prose.get(event.block)?.append(event.text);
        break;
      case 'text.end':
      case 'reasoning.end':
      case 'refusal.end':
        this.#prose.get(event.block)?.end();
        break;
      case 'tool_call.start':
        this.#tools.set(event.block, this.#toolBlock(event.name));
        break;
      case 'tool_call.delta':
        this.#tools.get(event.block)?.append(event.arguments);
        break;
      case 'tool_call.end':
        this.#tools.get(event.block)?.whole(event.arguments);
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
      case 'content_filter':
        if (event.filtered) this.#add('p', 'notice').append(element('code', {}, 'content_filter'), ` the ${event.scope} was filtered`);
        break;
      case 'usage':
        this.#usage = describeUsage(event);
        break;
      case 'stream.end':
        this.#end(event);
        break;
    }
  }

  /**
   * It failed outside the stream of events.
   * @param {Pick<import('./seseragi.js').SeseragiError, 'code'|'message'|'retryable'|'retryAfterS'|'requestId'>} error
   * @param {boolean} [begun] whether the answer had begun: then it could not be read on, and the request is as good as before
   */
  fail({ code, message, retryable, retryAfterS, requestId }, begun = false) {
    const failure = { code, message, retryable, retry_after_s: retryAfterS ?? undefined };
    const status = begun || code === 'connection_lost' ? 'interrupted' : 'failed';
    this.#end({ type: 'stream.end', status, error: failure }, { requestId, lost: begun });
  }

  /** It was stopped before it had begun. */
  stopped() {
    this.#end({ type: 'stream.end', status: 'cancelled' });
  }

  /**
   * @param {StreamEnd} end
   * @param {{requestId?: string|null, lost?: boolean}} [about]
   */
  #end(end, about) {
    for (const block of [...this.#prose.values(), ...this.#tools.values()]) block.end();
    if (end.usage) this.#usage = describeUsage(end.usage);
    if (end.error) this.#outcome.append(this.#error(end.error, about));
    const problem = this.#problem(end);
    if (problem) this.#outcome.append(element('p', { className: 'problem' }, problem));
    if (this.#usage) this.#outcome.append(element('p', { className: 'usage' }, this.#usage));
    this.status = end.status;
    this.article.dataset.status = end.status;
    if (end.finish_reason) this.article.dataset.finish = end.finish_reason;
    this.article.ariaBusy = 'false';
  }

  /** What the reader must know about how it ended. @param {StreamEnd} end */
  #problem({ status, finish_reason, error }) {
    if (error) return this.#parts.hasChildNodes() ? 'This answer is incomplete' : '';
    return status === 'completed' ? FINISHED_SHORT[finish_reason ?? ''] : FAILED_TO_FINISH[status];
  }

  /**
   * @template {keyof HTMLElementTagNameMap} Tag
   * @param {Tag} tag
   * @param {string} className
   */
  #add(tag, className) {
    const part = element(tag, { className });
    this.#parts.append(part);
    return part;
  }

  /** @param {HTMLElement} root @returns {TextBlock} */
  #proseBlock(root) {
    const prose = new Prose(root);
    return { append: (text) => prose.append(text), end: () => prose.finish() };
  }

  #reasoningBlock() {
    const body = element('div', { className: 'thought' });
    const details = this.#add('details', 'reasoning');
    details.open = true;
    details.append(element('summary', {}, 'Reasoning'), body);
    return this.#proseBlock(body);
  }

  /** @param {string} name @returns {ToolBlock} */
  #toolBlock(name) {
    const state = element('span', { className: 'state' }, 'writing the arguments…');
    const given = document.createTextNode('');
    this.#add('section', 'tool').append(
      element('p', { className: 'tool-name' }, 'Tool call ', element('code', {}, name), ' ', state),
      element('pre', { tabIndex: 0, role: 'group', ariaLabel: `Arguments of ${name}` }, element('code', {}, given)),
    );
    let ended = false;
    return {
      append: (piece) => given.appendData(piece),
      whole: (text) => {
        ended = true;
        given.data = indented(text);
        state.textContent = '';
      },
      end: () => {
        if (!ended) state.textContent = 'cut off';
      },
    };
  }

  /** @param {import('./seseragi.js').ProviderTool} event */
  #providerTool({ name, input, output }) {
    const section = this.#add('section', 'tool');
    section.append(element('p', { className: 'tool-name' }, 'Run by the provider: ', element('code', {}, name)));
    for (const [label, value] of [['input', input], ['output', output]]) {
      if (value === undefined) continue;
      section.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: `${label} of ${name}` },
        element('code', {}, typeof value === 'string' ? value : JSON.stringify(value, null, 2))));
    }
  }

  /** @param {import('./seseragi.js').Source} event */
  #source({ url, document: cited, title, cited_text }) {
    if (!this.#sources) {
      this.#sources = element('ul');
      this.#add('section', 'sources').append(element('p', {}, 'Sources'), this.#sources);
    }
    const name = title || url || (typeof cited === 'string' ? cited : JSON.stringify(cited)) || 'a document';
    const item = element('li', {}, isWebAddress(url)
      ? element('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, name) : name);
    if (cited_text) item.title = cited_text;
    this.#sources.append(item);
  }

  /** @param {import('./seseragi.js').Media} event */
  #media({ media_type, url, data }) {
    const part = this.#add('p', 'media');
    if (data && media_type.startsWith('image/')) part.append(element('img', { src: `data:${media_type};base64,${data}`, alt: 'Image made by the model' }));
    else if (isWebAddress(url)) part.append(element('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, media_type));
    else part.append(media_type);
  }

  /**
   * @param {StreamFailure} failure
   * @param {{requestId?: string|null, lost?: boolean}} [about]
   */
  #error({ code, message, retryable, retry_after_s }, { requestId, lost } = {}) {
    const hint = lost ? 'The rest of this answer cannot be had any more; the question can be asked again.'
      : !retryable ? 'The same request will fail again.'
      : retry_after_s ? `It may work again in ${Math.ceil(retry_after_s)} s.` : 'It may work if you try again.';
    const box = element('div', { className: 'error' },
      element('p', { className: 'error-code' }, element('code', {}, code)),
      element('p', {}, message),
      element('p', { className: 'hint' }, hint, requestId ? ` Request ${requestId}.` : ''));
    if (retryable || lost) box.append(element('button', { type: 'button', className: 'quiet', onclick: this.#retry }, 'Try again'));
    return box;
  }
}

/** @param {string|undefined} url */
function isWebAddress(url) {
  return url !== undefined && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** @param {string} json */
function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // a model can write arguments that are no JSON: they are shown as they are
  }
}

/** @param {Usage} usage */
function describeUsage({ input_tokens, output_tokens, reasoning_tokens, cached_input_tokens }) {
  return [
    [input_tokens, 'in'],
    [cached_input_tokens, 'of them cached'],
    [output_tokens, 'out'],
    [reasoning_tokens, 'of them reasoning'],
  ].filter(([count]) => count !== undefined).map(([count, what]) => `${count?.toLocaleString('en')} ${what}`).join(', ').replace(/^(.+)$/, 'Tokens: $1');
}
