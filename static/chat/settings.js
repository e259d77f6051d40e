/**
 * The settings of a conversation: what its requests say beside the question. Nothing here touches
 * the page.
 */

/** @typedef {import('../seseragi.js').ChatRequest} ChatRequest */
/** What is not set is left to the model. @typedef {{system?: string, temperature?: number, max_tokens?: number}} Settings */

export const MOST_SYSTEM = 50_000; // characters of a system prompt
export const MOST_TOKENS = 10_000_000;
export const HOTTEST = 2; // the relay takes no more
const PREFIX = 'seseragi.settings.';

/** @param {unknown} value @param {number} least @param {number} most @returns {value is number} */
function within(value, least, most) {
  return typeof value === 'number' && value >= least && value <= most;
}

/** Return the settings that something kept or given has, without what is none. @param {any} given @returns {Settings} */
export function settingsOf(given) {
  const { system, temperature, max_tokens } = Object(given);
  return {
    ...(typeof system === 'string' && system.trim() ? { system: system.slice(0, MOST_SYSTEM) } : {}),
    ...(within(temperature, 0, HOTTEST) ? { temperature } : {}),
    ...(within(max_tokens, 1, MOST_TOKENS) && Number.isInteger(max_tokens) ? { max_tokens } : {}),
  };
}

/** @param {Settings} settings */
export function isSet(settings) {
  return Object.keys(settings).length > 0;
}

/** @param {Settings} one @param {Settings} other */
export function areSame(one, other) {
  return one.system === other.system && one.temperature === other.temperature && one.max_tokens === other.max_tokens;
}

/**
 * Return a request of this page with other settings, in the wire's fields.
 * @param {ChatRequest} request
 * @param {Settings} settings
 * @returns {ChatRequest}
 */
export function withSettings({ messages, temperature: _, max_tokens: __, ...request }, { system, ...fields }) {
  const said = messages[0]?.role === 'system' ? messages.slice(1) : messages;
  return { ...request, ...fields, messages: system ? [{ role: 'system', content: system }, ...said] : said };
}

/** The settings of new conversations, as the browser keeps them for one owner. */
export class Usual {
  #storage;
  #name;

  /** @param {Storage|null} storage null where the browser keeps nothing @param {string} owner */
  constructor(storage, owner) {
    this.#storage = storage;
    this.#name = `${PREFIX}${owner}`;
  }

  get settings() {
    try {
      return settingsOf(JSON.parse(this.#storage?.getItem(this.#name) ?? 'null'));
    } catch {
      return {};
    }
  }

  /** @param {Settings} settings */
  keep(settings) {
    try {
      if (isSet(settings)) this.#storage?.setItem(this.#name, JSON.stringify(settings));
      else this.#storage?.removeItem(this.#name);
    } catch {
      // Full or forbidden: new conversations have none.
    }
  }
}
