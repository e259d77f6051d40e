/**
 * A chat for React: the messages of a conversation, and what can be done with it.
 *
 *     const { messages, status, send, stop } = useChat({ request: { model: 'demo' }, storage: () => localStorage });
 *
 * The conversation lives in a ChatStore outside of React, so that it does not matter how often a
 * component is mounted, rendered or thrown away.
 *
 * @module seseragi/react
 */

import { useEffect, useState, useSyncExternalStore } from 'react';

import { ChatStore } from './store.js';

export { ChatStore } from './store.js';

/** @typedef {import('./react.d.ts').UseChatOptions} UseChatOptions */

/**
 * @param {UseChatOptions} [options] those of a ChatStore, or one as `chat`
 * @returns {import('./react.d.ts').UseChat}
 */
export function useChat(options = {}) {
  const { chat: given } = options;
  const [kept, keep] = useState(() => given ?? new ChatStore(options));
  let chat = given ?? kept;
  if (!given && ((options.id !== undefined && options.id !== kept.id) || options.owner !== kept.owner)) {
    chat = new ChatStore(options);
    keep(chat);
  }
  useEffect(() => {
    if (!given) chat.options = options; // functions of this render
  });
  const snapshot = useSyncExternalStore(chat.subscribe, chat.getSnapshot, chat.getServerSnapshot);
  const { send, stop, retry, addToolOutput, remove, setMessages, forget } = chat;
  return { ...snapshot, chat, send, stop, retry, addToolOutput, remove, setMessages, forget };
}
