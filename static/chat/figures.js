/**
 * What an answer took: tokens, cost, time. Nothing here touches the page.
 */

import { number, say } from './language.js';

/** @typedef {import('../seseragi.js').Usage} Usage */
/** @typedef {import('../seseragi.js').StreamEvent} StreamEvent */
/**
 * When it was asked, and when its first and its last token came here, in milliseconds since 1970:
 * so that it holds over a reload.
 * @typedef {{asked: number, first?: number, last?: number}} Timing
 */
/** @typedef {{text: string, about: string}} Figure */
/** What an answer took, as far as that is known. @typedef {{usage?: Usage, cost?: string}} Taken */

const TOKENS = /** @type {const} */ (['input_tokens', 'output_tokens', 'cached_input_tokens', 'reasoning_tokens']);

/** Return what an answer took in two parts. @param {Taken} one @param {Taken} other @returns {Taken} */
export function together(one, other) {
  if (!one.usage && one.cost === undefined) return other;
  /** @type {Usage} */
  const usage = { ...one.usage, ...other.usage, estimated: one.usage?.estimated || other.usage?.estimated };
  for (const name of TOKENS) {
    if (usage[name] !== undefined) usage[name] = (one.usage?.[name] ?? 0) + (other.usage?.[name] ?? 0);
  }
  const costs = [one.cost, other.cost].filter((cost) => cost !== undefined);
  const sum = costs.reduce((so, cost) => so + Number(cost), 0);
  return { usage, ...(costs.length ? { cost: String(Number(sum.toPrecision(12))) } : {}) };
}

/** Note when an event came. @param {Timing|undefined} timing @param {StreamEvent} event @param {number} [now] */
export function note(timing, event, now = Date.now()) {
  if (!timing || !event.type.endsWith('.delta')) return;
  timing.first ??= now;
  timing.last = now;
}

/** @param {string} cost in USD @returns {string} */
export function dollars(cost) {
  const usd = Number(cost);
  if (!(usd >= 0)) return `${cost} USD`;
  if (usd === 0) return '$0';
  if (usd < 0.0001) return '<$0.0001';
  return `$${usd >= 1 ? usd.toFixed(2) : Number(usd.toPrecision(2)).toFixed(usd < 0.001 ? 5 : 4).replace(/0+$/, '')}`;
}

/** @param {number} ms */
function seconds(ms) {
  return ms < 995 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
}

/**
 * Return what is known of an answer that has ended, each in a few words and in a sentence.
 * @param {{usage?: Usage, cost?: string, timing?: Timing}} known
 * @returns {Figure[]}
 */
export function figures({ usage = {}, cost, timing }) {
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached, reasoning_tokens: reasoning } = usage;
  const about = usage.estimated ? [say('estimated by the relay')] : [];
  /** @type {Figure[]} */
  const found = [];
  if (input !== undefined) {
    found.push({
      text: cached ? say('{input} in ({cached} cached)', { input: number(input), cached: number(cached) }) : say('{input} in', { input: number(input) }),
      about: [say('Tokens of the question'), ...about].join(', '),
    });
  }
  if (output !== undefined) {
    found.push({
      text: reasoning ? say('{output} out ({reasoning} reasoning)', { output: number(output), reasoning: number(reasoning) }) : say('{output} out', { output: number(output) }),
      about: [say('Tokens of the answer'), ...about].join(', '),
    });
  }
  if (cost !== undefined) found.push({ text: dollars(cost), about: say('What it cost: {cost} USD', { cost }) });
  if (timing?.first === undefined || timing.last === undefined) return found;
  found.push({ text: say('first token {time}', { time: seconds(timing.first - timing.asked) }), about: say('From sending to the first token') });
  const span = timing.last - timing.first;
  if (output !== undefined && output > 1 && span >= 100) {
    const rate = (output - 1) / (span / 1000);
    found.push({ text: say('{rate} tokens/s', { rate: rate < 10 ? rate.toFixed(1) : number(Math.round(rate)) }), about: say('From the first token to the last') });
  }
  return found;
}
