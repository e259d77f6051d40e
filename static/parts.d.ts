/** The types of parts.js, written by hand. */

import type {
  FinishReason, Media, Opaque, ProviderTool, Source, Status, StreamEvent, StreamFailure, Usage,
} from './seseragi.js';

/** A block of text that is written, or was. */
export interface TextPart {
  type: 'text' | 'refusal';
  block: number;
  choice?: number;
  text: string;
  /** Whether the block has ended. */
  done: boolean;
}

export interface ReasoningPart {
  type: 'reasoning';
  block: number;
  choice?: number;
  text: string;
  done: boolean;
  signature?: string;
  encrypted?: string;
  format?: string;
}

export interface ToolCallPart {
  type: 'tool_call';
  block: number;
  choice?: number;
  id: string;
  name: string;
  /** JSON text, a beginning of it until `done`: `parsePartial` reads that too. */
  arguments: string;
  /** Whether it was cut, also where its arguments look whole: never run it. */
  incomplete?: boolean;
  done: boolean;
  /** What the tool gave, once it has. */
  output?: string;
  /** Whether `output` says why it failed. */
  isError?: boolean;
}

export type AnswerPart = TextPart | ReasoningPart | ToolCallPart | Opaque | Source | Media | ProviderTool;

/** A part of what a user or the application says: those of Chat Completions. */
export type ContentPart =
  | { type: 'text'; text: string }
  | { type: 'image_url'; image_url: { url: string; detail?: string } }
  | { type: 'input_audio'; input_audio: { data: string; format: string } }
  | { type: 'file'; file: Record<string, unknown>; optional?: boolean };

export interface AskedMessage {
  id: string;
  role: 'user' | 'system' | 'developer';
  parts: ContentPart[];
  /** `unsent`: the relay refused it, and it is not sent with later ones. */
  status?: 'unsent' | undefined;
}

export interface AnswerMessage {
  id: string;
  role: 'assistant';
  parts: AnswerPart[];
  /** `running` until it has ended; `lost` where it could not be read to its end. */
  status: 'running' | Status | 'lost';
  streamId?: string;
  model?: string;
  finishReason?: FinishReason;
  usage?: Usage;
  /** In USD. */
  cost?: string;
  /** Why the stream failed. */
  error?: StreamFailure;
}

export type ChatMessage = AskedMessage | AnswerMessage;

/** A message as a request has it. */
export interface WireMessage {
  role: string;
  content?: unknown;
  tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string }; opaque?: { format: string; data: unknown }[] }[];
  tool_call_id?: string;
  is_error?: true;
  [field: string]: unknown;
}

/** The parts of one answer, by block and in order. A part that changes is replaced, never changed. */
export class AnswerParts {
  /** With the parts of the events before, to go on with them. */
  constructor(parts?: readonly AnswerPart[]);
  parts: AnswerPart[];
  /** Take an event; returns whether a part is new or has changed. */
  receive(event: StreamEvent): boolean;
}

/**
 * Return an answer as the message to send with the next turn, with all that its provider may want
 * back; null where nothing was said. `calls` says which tool calls go along: all without it.
 */
export function assistantMessage(parts: readonly AnswerPart[], options?: { calls?: (call: ToolCallPart) => boolean }): WireMessage | null;

/** Return a conversation as the `messages` of a request; calls without an output and questions that are `unsent` are left out. */
export function requestMessages(messages: readonly ChatMessage[]): WireMessage[];

/** The tool calls among the parts of an answer's first choice. */
export function callsOf(parts: readonly { type: string }[]): ToolCallPart[];

/** The text of a message, of its first choice. */
export function textOf(message: { parts: readonly { type: string }[] }): string;
