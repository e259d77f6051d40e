/** The types of ai-sdk.js, written by hand. */

import type { ChatTransport, UIMessage, UIMessageChunk as Chunk } from 'ai';

import type { ReadOptions } from './seseragi.js';

export type UIMessageChunk = { type: string };

export interface ChatTransportOptions extends Omit<ReadOptions, 'signal' | 'storage' | 'storageKey'> {
  /** `/v1/ui/chat`, at the relay or behind your own path for it. */
  api?: string;
  /** Fields of each request beside the SDK's own: `{ model: 'demo' }`. */
  body?: object | (() => object | Promise<object>);
}

/**
 * A `ChatTransport` of the AI SDK. A connection that is lost is continued from the last chunk: the
 * chat is not told, and is given each chunk once.
 */
export class SeseragiChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  constructor(options?: ChatTransportOptions);
  /** What `reconnectToStream` gives begins with the answer's `start`. */
  readonly resumeStreamIsReplay: true;
  readonly sendMessages: ChatTransport<M>['sendMessages'];
  readonly reconnectToStream: (options: Parameters<ChatTransport<M>['reconnectToStream']>[0] & { abortSignal?: AbortSignal }) => Promise<ReadableStream<Chunk> | null>;
  /** Stop the answer to a chat, wherever it is read. `stop()` of the SDK only leaves. */
  readonly stop: (chatId: string) => Promise<void>;
}
