/**
 * What a turn asks for, and what its tool calls gave. A part of store.js: no state, no I/O.
 *
 * @module
 */

import { requestMessages } from './parts.js';
import { finalCalls, toolsOf } from './tools.js';

/** @typedef {import('./parts.d.ts').AnswerMessage} AnswerMessage */

/**
 * Return the request that a conversation is sent as.
 * @param {readonly import('./parts.d.ts').ChatMessage[]} messages
 * @param {import('./store.d.ts').ChatStoreOptions} options
 */
export function requestOf(messages, { request = {}, tools }) {
  const said = requestMessages(messages);
  /** @type {import('./seseragi.d.ts').ChatRequest} */
  const asked = typeof request === 'function' ? request(said) : { ...request, messages: [.../** @type {any[]} */ (request.messages ?? []), ...said] };
  return tools ? { ...asked, tools: [...toolsOf(tools), .../** @type {any[]} */ (asked.tools ?? [])] } : asked;
}

/** The calls that may run and have no output yet. @param {Pick<AnswerMessage, 'status'|'finishReason'|'parts'>} message */
export function pendingCalls(message) {
  return finalCalls(message).filter(({ output }) => output === undefined);
}

/**
 * Return the parts of an answer with the outputs of calls.
 * @param {AnswerMessage['parts']} parts
 * @param {readonly {id: string, output?: string, isError?: boolean}[]} results
 */
export function withOutputs(parts, results) {
  return parts.map((part) => {
    const result = part.type === 'tool_call' && results.find(({ id }) => id === part.id);
    return result ? /** @type {any} */ ({ ...part, output: result.output, ...(result.isError && { isError: true }) }) : part;
  });
}

/** Call a function of the page's, whose faults are not the conversation's. @template T @param {((about: T) => void)|undefined} listener @param {T} about */
export function tell(listener, about) {
  try {
    listener?.(about);
  } catch (error) {
    queueMicrotask(() => { throw error; });
  }
}
