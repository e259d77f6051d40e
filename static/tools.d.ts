/** The types of tools.js, written by hand. */

import type { ToolCallPart } from './parts.js';
import type { ChatOptions, ChatRequest, Received } from './seseragi.js';

export interface Tool {
  description?: string;
  /** JSON Schema of the arguments. */
  parameters?: Record<string, unknown>;
  /**
   * What the model is given: a string as it is, anything else as JSON; what it throws is told as an
   * error. A tool without it is the page's: the loop ends at its call.
   */
  run?(input: any, about: { id: string; signal?: AbortSignal }): unknown;
}

/** By their names. */
export type Tools = Record<string, Tool>;

export interface ToolLoopOptions extends ChatOptions {
  tools: Tools;
  /** How many answers at most: 10. */
  maxSteps?: number;
}

/** Return the `tools` of a request. */
export function toolsOf(tools: Tools): { type: 'function'; function: { name: string; description?: string; parameters?: Record<string, unknown> } }[];

/** Return the calls that may run: of a whole answer that ends with them, since a limit may cut one that looks whole. */
export function finalCalls(answer: { status?: string; finishReason?: string; parts: readonly { type: string }[] }): ToolCallPart[];

/** Run one call and return it with its output; null where no such tool runs here. */
export function runCall(call: ToolCallPart, tools: Tools, options?: { signal?: AbortSignal }): Promise<ToolCallPart | null>;

/** The events of all answers, one stream after the other. */
export interface ToolLoop extends AsyncIterable<Received> {
  /** The conversation so far, with calls, results and answers. */
  readonly messages: ChatRequest['messages'];
}

/** Ask, run the tools that the answer calls, and ask again with their results. */
export function chatWithTools(request: ChatRequest, options: ToolLoopOptions): ToolLoop;
