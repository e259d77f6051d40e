import { element } from '../dom.js';
import { storedKey } from '../key.js';
import { escaped, write } from './controls.js';
import { makeNextStep, mayBeAdjusted, mayBeRetried } from './failure.js';
import { together } from './figures.js';
import { makeFold } from './fold.js';
import { makeFoot } from './foot.js';
import { say } from './language.js';
import { Markdown } from './markdown.js';
import { offerWatching } from './watch.js';

/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */
/** @typedef {import('../seseragi.js').StreamFailure} StreamFailure */
/** @typedef {import('../seseragi.js').StreamEnd} StreamEnd */
/** @typedef {import('../seseragi.js').Usage} Usage */
/** @typedef {{end(): void}} Block */
/**
 * What can be done with an answer: ask again, have it go on, and change the settings that it was asked with.
 * @typedef {{retry: () => void, goOn: () => void, adjust: () => void}} Acts
 */
/** @typedef {Block & {append(text: string): void}} TextBlock */
/** @typedef {Block & {append(piece: string): void, whole(text: string): void}} ToolBlock */

const FAILED_TO_FINISH = {
  cancelled: 'Stopped before the end',
  failed: 'Failed before the end',
  interrupted: 'Interrupted before the end',
};
const BRIEF = 200; // characters of a call's arguments that are seen when it is folded
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
  /** @type {'streaming'|import('../seseragi.js').Status} */
  status = 'streaming';
  #target = element('span', { className: 'target' });
  #parts = element('div', { className: 'parts' });
  #outcome = element('footer', { className: 'outcome' });
  /** @type {ReturnType<typeof offerWatching>|null} */
  #watching = null;
  /** @type {string|null} */
  #stream = null;
  /** When it was asked and came, where that was seen here. @type {import('./figures.js').Timing|undefined} */
  timing;
  /** When it ended, where that was seen here. @type {number|undefined} */
  endedAt;
  /** Whether it was asked with settings. */
  adjusted = false;
  /** @type {Usage|undefined} */
  #usage;
  /** What it took before it went on, and with what came then. @type {import('./figures.js').Taken} */
  #before = {};
  #taken = this.#before;
  #wentOn = false;
  /** The text block that came last. @type {{root: HTMLElement, text: string}|null} */
  #last = null;
  #lastFinish = '';
  /** @type {HTMLElement|null} */
  #sources = null;
  /** @type {Map<number, TextBlock>} */
  #prose = new Map();
  /** @type {Map<number, ToolBlock>} */
  #tools = new Map();
  #acts;
  #ours;

  /**
   * @param {string} model
   * @param {Acts} acts
   * @param {boolean} [ours] whether it can be asked again, however it ended
   */
  constructor(model, acts, ours = false) {
    this.#acts = acts;
    this.#ours = ours;
    this.article = element('article', { className: 'message assistant', ariaBusy: 'true', data: { status: 'streaming' } },
      element('h3', { className: 'who' }, model || say('default model'), this.#target),
      this.#parts, this.#outcome);
  }

  /**
   * Offer a link to this answer's stream, once there is one.
   * @param {() => Promise<{url: string, until: Date}|null>} share null where that failed
   */
  offerSharing(share) {
    if (this.#watching) return;
    this.#watching = offerWatching(share);
    if (this.status !== 'streaming') this.#watching.end();
    this.#parts.before(this.#watching.root); // below them it would move with every line
  }

  /** Whether it can go on from its words: it was stopped, or came to the limit of its length. */
  get isUnfinished() {
    const cut = this.status === 'cancelled' || (this.status === 'completed' && this.#lastFinish === 'length');
    return this.#ours && this.text.trim() !== '' && !this.#parts.querySelector('.tool')
      && (cut || (this.#wentOn && this.status !== 'completed' && this.status !== 'streaming'));
  }

  /** Take what comes from now on, of another stream, for the rest of it. */
  goOn() {
    for (const block of [...this.#prose.values(), ...this.#tools.values()]) block.end();
    this.#prose.clear();
    this.#tools.clear();
    this.#wentOn = true;
    this.#before = this.#taken;
    this.#usage = this.timing = undefined;
    this.text = this.text.trimEnd(); // as it was asked to go on from
    this.#outcome.replaceChildren();
    this.#watching?.root.remove(); // it led to what came before
    this.#watching = this.#stream = null;
    this.status = 'streaming';
    this.article.dataset.status = 'streaming';
    delete this.article.dataset.finish;
    this.article.ariaBusy = 'true';
  }

  /** @param {StreamEvent} event */
  receive(event) {
    switch (event.type) {
      case 'stream.start':
        this.#stream = event.stream;
        break;
      case 'stream.target':
        this.#target.textContent = ` via ${event.upstream}/${event.model}`;
        break;
      case 'text.start':
        this.#prose.set(event.block, this.#textBlock());
        break;
      case 'reasoning.start':
        this.#prose.set(event.block, this.#reasoningBlock());
        break;
      case 'refusal.start':
        this.#prose.set(event.block, this.#proseBlock(this.#add('div', 'refusal')));
        break;
      case 'text.delta':
        this.text += event.text;
        if (this.#last) this.#last.text += event.text;
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
        if (event.filtered) this.#add('p', 'notice').append(element('code', {}, 'content_filter'), say(' the {scope} was filtered', { scope: event.scope }));
        break;
      case 'usage':
        this.#usage = event;
        break;
      case 'stream.end':
        this.#end(event);
        break;
    }
  }

  /**
   * It failed outside the stream of events.
   * @param {Pick<import('../seseragi.js').SeseragiError, 'code'|'message'|'retryable'|'retryAfterS'|'requestId'>} error
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
    this.#outcome.replaceChildren(); // of one that was stopped here, and has ended now
    if (end.error) this.#outcome.append(this.#error(end.error, about));
    const problem = this.#problem(end);
    if (problem) this.#outcome.append(element('p', { className: 'problem' }, problem));
    const usage = end.usage ?? this.#usage;
    this.#taken = together(this.#before, { usage, cost: end.cost ?? usage?.cost });
    this.#outcome.append(makeFoot({ ...this.#taken, timing: this.timing, text: this.text, stream: this.#stream }));
    if (this.#ours && !this.#outcome.querySelector('.error .retry')) {
      this.#outcome.querySelector('.answer-buttons')?.append(
        element('button', { type: 'button', className: 'quiet regenerate', onclick: this.#acts.retry }, say('Answer again')));
    }
    this.#watching?.end();
    this.status = end.status;
    this.#lastFinish = end.finish_reason ?? '';
    if (this.isUnfinished && !this.#outcome.querySelector('.error .retry')) {
      this.#outcome.querySelector('.answer-buttons')?.prepend(
        element('button', { type: 'button', className: 'quiet go-on', onclick: this.#acts.goOn }, say('Continue')));
    }
    this.article.dataset.status = end.status;
    if (end.finish_reason) this.article.dataset.finish = end.finish_reason;
    this.article.ariaBusy = 'false';
  }

  /** What the reader must know about how it ended. @param {StreamEnd} end */
  #problem({ status, finish_reason, error }) {
    if (error) return this.#parts.hasChildNodes() ? say('This answer is incomplete') : '';
    return say((status === 'completed' ? FINISHED_SHORT[finish_reason ?? ''] : FAILED_TO_FINISH[status]) ?? '');
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
    const prose = new Markdown(root);
    return { append: (text) => prose.append(text), end: () => prose.finish() };
  }

  /** A block of text; the first that comes when it went on is the rest of the last one, unless something stands between. */
  #textBlock() {
    const parts = [...this.#parts.children].filter(({ className }) => className !== 'notice');
    const rest = this.#wentOn && !this.#prose.size && this.#last && parts.at(-1) === this.#last.root ? this.#last : null;
    this.#last = { root: rest?.root ?? this.#add('div', 'text'), text: rest?.text.trimEnd() ?? '' };
    this.#last.root.replaceChildren();
    const block = this.#proseBlock(this.#last.root);
    block.append(this.#last.text);
    return block;
  }

  #reasoningBlock() {
    const body = element('div', { className: 'thought' });
    const fold = makeFold('reasoning', say('Reasoning'));
    fold.root.append(body);
    this.#parts.append(fold.root);
    const { append, end } = this.#proseBlock(body);
    return {
      append,
      end: () => {
        end();
        fold.end();
      },
    };
  }

  /** @param {string} name @returns {ToolBlock} */
  #toolBlock(name) {
    const state = element('span', { className: 'state' }, say('writing the arguments…'));
    const given = element('code');
    /** @type {Text|null} */
    let last = null;
    const fold = makeFold('tool', say('Tool call'), ' ', element('code', {}, name), ' ', state);
    fold.root.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: say('Arguments of {name}', { name }) }, given));
    this.#parts.append(fold.root);
    let ended = false;
    return {
      append: (piece) => { last = write(given, last, piece); },
      whole: (text) => {
        ended = true;
        given.replaceChildren();
        write(given, null, indented(text));
        state.textContent = escaped(brief(text));
        state.classList.add('brief');
        fold.end();
      },
      end: () => {
        if (!ended) state.textContent = say('cut off');
        fold.end();
      },
    };
  }

  /** @param {import('../seseragi.js').ProviderTool} event */
  #providerTool({ name, input, output }) {
    const { root: section, end } = makeFold('tool', say('Run by the provider:'), ' ', element('code', {}, name));
    this.#parts.append(section);
    end(); // it has run
    /** @type {[string, unknown][]} */
    const shown = [[say('input'), input], [say('output'), output]];
    for (const [label, value] of shown) {
      if (value === undefined) continue;
      const code = element('code');
      write(code, null, typeof value === 'string' ? value : JSON.stringify(value, null, 2));
      section.append(element('pre', { tabIndex: 0, role: 'group', ariaLabel: say('{label} of {name}', { label, name }) }, code));
    }
  }

  /** @param {import('../seseragi.js').Source} event */
  #source({ url, document: cited, title, cited_text }) {
    if (!this.#sources) {
      this.#sources = element('ul');
      this.#add('section', 'sources').append(element('p', {}, say('Sources')), this.#sources);
    }
    const name = title || url || (typeof cited === 'string' ? cited : JSON.stringify(cited)) || say('a document');
    const item = element('li', {}, isWebAddress(url)
      ? element('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, name) : name);
    if (cited_text) item.title = cited_text;
    this.#sources.append(item);
  }

  /** @param {import('../seseragi.js').Media} event */
  #media({ media_type, url, data }) {
    const part = this.#add('p', 'media');
    if (data && media_type.startsWith('image/')) part.append(element('img', { src: `data:${media_type};base64,${data}`, alt: say('Image made by the model') }));
    else if (isWebAddress(url)) part.append(element('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, media_type));
    else part.append(media_type);
  }

  /**
   * @param {StreamFailure} failure
   * @param {{requestId?: string|null, lost?: boolean}} [about]
   */
  #error(failure, { requestId, lost } = {}) {
    const { code, message } = failure;
    const hint = lost ? say('The rest of this answer cannot be had any more; the question can be asked again.')
      : makeNextStep(failure, this.endedAt ?? Date.now(), storedKey() !== null);
    const box = element('div', { className: 'error' },
      element('p', { className: 'error-code' }, element('code', {}, code)),
      element('p', {}, message),
      element('p', { className: 'hint' }, hint, requestId ? say(' Request {id}.', { id: requestId }) : ''));
    if (mayBeRetried(failure) || lost) box.append(element('button', { type: 'button', className: 'quiet retry', onclick: this.#wentOn && !this.#parts.querySelector('.tool') ? this.#acts.goOn : this.#acts.retry }, say('Try again')));
    if (this.adjusted && mayBeAdjusted(failure)) box.append(element('button', { type: 'button', className: 'quiet adjust', onclick: this.#acts.adjust }, say('Change the settings')));
    return box;
  }
}

/** @param {string|undefined} url */
function isWebAddress(url) {
  return url !== undefined && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** The arguments of a call in a few words, for its fold. @param {string} json */
function brief(json) {
  const line = json.trim().replace(/\s+/g, ' ');
  return line === '{}' ? '' : line.length > BRIEF ? `${line.slice(0, BRIEF)}…` : line;
}

/** @param {string} json */
function indented(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json; // a model can write arguments that are no JSON: they are shown as they are
  }
}
