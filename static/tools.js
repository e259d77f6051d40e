/**
 * Tools that run in the page: called when a whole answer asks for them, and their results sent
 * back until the model has no more calls.
 *
 *     const tools = {
 *       get_weather: {
 *         description: 'The weather of a city',
 *         parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
 *         run: ({ city }) => fetchWeather(city),
 *       },
 *     };
 *     const loop = chatWithTools({ messages }, { tools });
 *     for await (const { event } of loop) if (event.type === 'text.delta') output.append(event.text);
 *     messages = loop.messages; // with the calls, their results and the answers
 *
 * A call is acted on only after its stream is `completed` with the finish reason `tool_calls`:
 * arguments that were cut may look whole.
 *
 * @module seseragi/tools
 */

import { AnswerParts, assistantMessage, callsOf } from './parts.js';
import { chat, throwIfAborted } from './seseragi.js';

/** @typedef {import('./parts.d.ts').ToolCallPart} ToolCallPart */
/** @typedef {import('./seseragi.d.ts').ChatRequest} ChatRequest */
/** @typedef {import('./seseragi.d.ts').Received} Received */
/** @typedef {import('./tools.d.ts').ToolLoopOptions} ToolLoopOptions */
/** @typedef {import('./tools.d.ts').Tools} Tools */

/** Return the `tools` of a request. @param {Tools} tools */
export function toolsOf(tools) {
  return Object.entries(tools).map(([name, { description, parameters }]) => ({ type: 'function', function: { name, description, parameters } }));
}

/**
 * Return the calls that may run: of a whole answer that ends with them, since a limit may cut one that looks whole.
 * @param {{status?: string, finishReason?: string, parts: readonly {type: string}[]}} answer
 */
export function finalCalls({ status, finishReason, parts }) {
  return status === 'completed' && finishReason === 'tool_calls' ? callsOf(parts) : [];
}

/**
 * Run one call. What its tool throws is its output, for the model to read.
 * @param {ToolCallPart} call
 * @param {Tools} tools
 * @param {{signal?: AbortSignal}} [options]
 * @returns {Promise<ToolCallPart|null>} the call with its output; null where no such tool runs here
 */
export async function runCall(call, tools, { signal } = {}) {
  const { run } = (Object.hasOwn(tools, call.name) && tools[call.name]) || {};
  if (!run) return null;
  try {
    const input = parseArguments(call.arguments);
    const given = await run(input, { id: call.id, signal });
    return { ...call, output: typeof given === 'string' ? given : JSON.stringify(given) ?? '' };
  } catch (error) {
    throwIfAborted(signal);
    return { ...call, output: error instanceof Error ? error.message : String(error), isError: true };
  }
}

/** @param {string} text */
function parseArguments(text) {
  try {
    return JSON.parse(text || '{}'); // some models write nothing for no arguments
  } catch {
    throw new Error('the arguments are no valid JSON');
  }
}

/** The events of all answers, one stream after the other. It is read once. */
class ToolLoop {
  /** The conversation so far: those of the request, and what came of it. @type {ChatRequest['messages']} */
  messages;
  #request;
  #options;

  /** @param {ChatRequest} request @param {ToolLoopOptions} options */
  constructor(request, options) {
    this.messages = [...request.messages];
    this.#request = request;
    this.#options = options;
  }

  /** @returns {AsyncGenerator<Received, void, void>} */
  async *[Symbol.asyncIterator]() {
    const { tools, maxSteps = 10, idempotencyKey, ...options } = this.#options;
    for (let step = 1; step <= maxSteps; step++) {
      const answer = new AnswerParts();
      let end;
      const request = { ...this.#request, tools: [...toolsOf(tools), .../** @type {any[]} */ (this.#request.tools ?? [])], messages: this.messages };
      for await (const received of chat(request, { ...options, ...(idempotencyKey && { idempotencyKey: `${idempotencyKey}.${step}` }) })) {
        answer.receive(received.event);
        if (received.event.type === 'stream.end') end = received.event;
        yield received;
      }
      const calls = finalCalls({ status: end?.status, finishReason: end?.finish_reason, parts: answer.parts });
      const message = assistantMessage(answer.parts, { calls: () => calls.length > 0 });
      if (message) this.messages = [...this.messages, message];
      const results = (await Promise.all(calls.map((call) => runCall(call, tools, options)))).filter((result) => result !== null);
      this.messages = [...this.messages, ...results.map(({ id, output, isError }) => (
        { role: 'tool', tool_call_id: id, content: output, ...(isError && { is_error: true }) }))];
      if (!calls.length || results.length < calls.length) return; // what runs elsewhere is for the page to answer
    }
  }
}

/**
 * Ask, run the tools that the answer calls, and ask again with their results.
 * @param {ChatRequest} request
 * @param {ToolLoopOptions} options
 */
export function chatWithTools(request, options) {
  return new ToolLoop(request, options);
}
