/** The types of react.js, written by hand. */

import type { ChatSnapshot, ChatStore, ChatStoreOptions } from './store.js';

export { ChatStore } from './store.js';
export type { ChatSnapshot, ChatStoreOptions } from './store.js';

export interface UseChatOptions extends ChatStoreOptions {
  /** One that was made outside of the component: the other options then count for nothing. */
  chat?: ChatStore;
}

export interface UseChat extends ChatSnapshot, Pick<ChatStore, 'send' | 'stop' | 'retry' | 'addToolOutput' | 'remove' | 'setMessages' | 'forget'> {
  readonly chat: ChatStore;
}

/** Another `id` or `owner` is another conversation. */
export function useChat(options?: UseChatOptions): UseChat;
