/**
 * Between events and messages: what an answer says so far, as parts, and parts as the messages of
 * the next request. No I/O, no timers, no DOM.
 *
 *     const answer = new AnswerParts();
 *     for await (const { event } of chat(request)) if (answer.receive(event)) draw(answer.parts);
 *     request.messages.push(assistantMessage(answer.parts));
 *
 * @module seseragi/parts
 */

/** @typedef {import('./parts.d.ts').AnswerPart} AnswerPart */
/** @typedef {import('./parts.d.ts').ChatMessage} ChatMessage */
/** @typedef {import('./parts.d.ts').ToolCallPart} ToolCallPart */
/** @typedef {import('./parts.d.ts').WireMessage} WireMessage */
/** @typedef {import('./seseragi.d.ts').StreamEvent} StreamEvent */

const BLOCK = /^(text|reasoning|refusal|tool_call)\.(start|delta|end)$/;
const BETWEEN = new Set(['opaque', 'source', 'media', 'provider_tool']);

/** The parts of one answer, by block and in order. A part that changes is replaced, never changed. */
export class AnswerParts {
  /** @type {AnswerPart[]} */
  parts;
  /** Where a block is in `parts`. @type {Map<number, number>} */
  #places = new Map();

  /** @param {readonly AnswerPart[]} [parts] those of the events before, to go on with */
  constructor(parts = []) {
    this.parts = [...parts];
    parts.forEach((part, at) => { if ('done' in part) this.#places.set(part.block, at); });
  }

  /**
   * @param {StreamEvent} event
   * @returns {boolean} whether a part is new or has changed
   */
  receive(event) {
    const [, type, step] = BLOCK.exec(event.type) ?? [];
    if (!type) {
      if (BETWEEN.has(event.type)) this.parts.push(/** @type {any} */ ({ ...event }));
      return BETWEEN.has(event.type);
    }
    const { type: _, ...said } = /** @type {any} */ (event);
    if (step === 'start') {
      this.#places.set(said.block, this.parts.length);
      this.parts.push({ type, ...said, ...(type === 'tool_call' ? { arguments: '' } : { text: '' }), done: false });
      return true;
    }
    const at = this.#places.get(said.block);
    if (at === undefined) return false;
    const part = /** @type {any} */ (this.parts[at]);
    const field = type === 'tool_call' ? 'arguments' : 'text';
    if (step === 'delta') this.parts[at] = { ...part, [field]: part[field] + said[field] };
    else this.parts[at] = { ...part, ...said, done: true };
    return true;
  }
}

/**
 * Return an answer as the message to send with the next turn, with all that its provider may want
 * back; null where nothing was said. It says what the `message` says that the relay gives.
 *
 * @param {readonly AnswerPart[]} parts
 * @param {{calls?: (call: ToolCallPart) => boolean}} [options] which tool calls go along: none of an answer that was cut
 * @returns {WireMessage|null}
 */
export function assistantMessage(parts, { calls = () => true } = {}) {
  /** @type {any[]} */
  const content = [];
  /** @type {Map<number|undefined, any>} */
  const called = new Map();
  const own = parts.filter((part) => !part.choice);
  for (const part of own) {
    if (part.type !== 'tool_call') continue;
    const { block, id, name, arguments: text } = part;
    called.set(block, !part.incomplete && calls(part) ? { id, type: 'function', function: { name, arguments: text } } : null);
  }
  for (const part of own) {
    if (part.type === 'text' || part.type === 'refusal') {
      content.push(part.type === 'text' ? { type: 'text', text: part.text } : { type: 'refusal', refusal: part.text });
    } else if (part.type === 'reasoning') {
      const { text, signature, encrypted, format } = part;
      content.push({ type: 'reasoning', text, ...(signature && { signature }), ...(encrypted && { encrypted }), ...(format && { format }) });
    } else if (part.type === 'opaque') {
      const proof = { format: part.format, data: part.data };
      if (!called.has(part.block)) content.push({ type: 'opaque', ...proof });
      else if (called.get(part.block)) (called.get(part.block).opaque ??= []).push(proof);
    }
  }
  const tool_calls = [...called.values()].filter(Boolean);
  const only = content.length === 1 && content[0].type === 'text' ? content[0].text : content;
  if (!only.length && !tool_calls.length) return null;
  return { role: 'assistant', ...(only.length && { content: only }), ...(tool_calls.length && { tool_calls }) };
}

/**
 * Return a conversation as the `messages` of a request.
 *
 * Tool calls that have no output yet, and those of answers that were cut, are left out: no provider
 * takes a call without its result. So are questions that were not sent.
 *
 * @param {readonly ChatMessage[]} messages
 * @returns {WireMessage[]}
 */
export function requestMessages(messages) {
  return messages.flatMap(({ role, parts, status }) => {
    if (status === 'unsent') return [];
    if (role !== 'assistant') {
      const [first, ...more] = /** @type {any[]} */ (parts);
      return [{ role, content: !more.length && first?.type === 'text' ? first.text : parts }];
    }
    /** @param {ToolCallPart} call */
    const answered = ({ output }) => status === 'completed' && output !== undefined;
    const said = assistantMessage(/** @type {AnswerPart[]} */ (parts), { calls: answered });
    const results = callsOf(parts).filter(answered)
      .map(({ id, output, isError }) => ({ role: 'tool', tool_call_id: id, content: output, ...(isError && { is_error: true }) }));
    return said === null ? [] : [said, ...results];
  });
}

/**
 * The tool calls among the parts of an answer's first choice.
 * @param {readonly {type: string}[]} parts
 * @returns {ToolCallPart[]}
 */
export function callsOf(parts) {
  return /** @type {ToolCallPart[]} */ (parts.filter((part) => part.type === 'tool_call' && !(/** @type {ToolCallPart} */ (part).choice)));
}

/** The text of a message, of its first choice. @param {{parts: readonly any[]}} message */
export function textOf({ parts }) {
  return parts.map(({ type, text, choice }) => (type === 'text' && !choice ? text : '')).join('');
}
