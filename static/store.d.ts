/** The types of store.js, written by hand. */

import type { AnswerMessage, ChatMessage, ContentPart, WireMessage } from './parts.js';
import type { ChatOptions, ChatRequest, ClientStorage, Received, SeseragiError, StreamFailure } from './seseragi.js';
import type { Tools } from './tools.js';

export interface ChatStoreOptions extends Omit<ChatOptions, 'signal' | 'storage' | 'storageKey' | 'idempotencyKey'> {
  /** Which conversation it is, among those that are stored: `chat`. */
  id?: string;
  /**
   * Whose conversations are stored, such as the user's id: by default the owner of the `credential`.
   * With a credential that names a user, or without one by this, all tabs share one watch of the user's streams.
   */
  owner?: string;
  /**
   * What each request says beside the messages: `{ model: 'demo' }`. Its own `messages`, such as a
   * system message, come before those of the conversation. A function makes the whole request.
   * An answer to its `chat` that another device asks for is read here too, without the question.
   */
  request?: Partial<ChatRequest> | ((messages: WireMessage[]) => ChatRequest);
  /** What the conversation begins with, where nothing is stored. */
  messages?: readonly ChatMessage[];
  /** What the model may call; those with `run` are run here, and the conversation goes on. */
  tools?: Tools;
  /** How many answers in a row tools may lead to: 10. */
  maxSteps?: number;
  /**
   * Keeps the conversation, for a reload and, with localStorage, for other tabs. As a function,
   * `() => localStorage`, it works where a server draws the page too.
   */
  storage?: ClientStorage | (() => ClientStorage | null | undefined);
  /** Is told of every event. */
  onEvent?(received: Received): void;
  /** Is told of an answer that has ended, and that no tool goes on from. */
  onFinish?(message: AnswerMessage): void;
}

export interface ChatSnapshot {
  /** A message that has changed is another object; all others are the same. */
  readonly messages: readonly ChatMessage[];
  /** `submitted` until the answer begins, and while tools run. */
  readonly status: 'ready' | 'submitted' | 'streaming' | 'error';
  /** What went wrong: no answer, or a stream that failed. `retry()` goes on. */
  readonly error: SeseragiError | StreamFailure | null;
  /** Why the conversation is not stored, such as a full storage: a reload then loses what is new in it. */
  readonly storageError: SeseragiError | null;
  /** Whether the connection was lost and the next is being made. */
  readonly isReconnecting: boolean;
}

/** A conversation outside of any framework. Nothing is read or sent before `subscribe` or `send`. */
export class ChatStore {
  constructor(options?: ChatStoreOptions);
  readonly id: string;
  readonly owner: string | undefined;
  /** May be replaced while it lives; `id`, `owner` and `messages` are those of the beginning. */
  options: ChatStoreOptions;
  readonly getSnapshot: () => ChatSnapshot;
  /** As it is before anything was read: what a server draws. */
  readonly getServerSnapshot: () => ChatSnapshot;
  /**
   * Be told of changes. The first to listen has the stored conversation read, and a running answer
   * read on; when the last one has gone the answer is left to the relay, for the next who comes.
   */
  readonly subscribe: (listener: () => void) => () => void;
  /**
   * Say something and have it answered; returns whether it was sent. While an answer is given it
   * does nothing, nor for a message with an `id` that is there already.
   */
  readonly send: (content: string | ContentPart[], options?: { id?: string }) => boolean;
  /** Stop the answer, wherever it was asked for. What came of it stays. */
  readonly stop: () => Promise<void>;
  /** Go on after a failure: with the answer, if its stream is there yet, else with another one. */
  readonly retry: () => boolean;
  /** Give the result of a tool call that no function runs. After the last one the conversation goes on. */
  readonly addToolOutput: (id: string, output: unknown, options?: { isError?: boolean }) => boolean;
  /** Remove a message, such as one that was refused; returns false while an answer is given. */
  readonly remove: (id: string) => boolean;
  /** Replace the conversation; a running answer is left. */
  readonly setMessages: (messages: readonly ChatMessage[]) => void;
  /** Forget the conversation here, in the storage and in other tabs, as when its user signs out; a running answer is left. */
  readonly forget: () => void;
}
