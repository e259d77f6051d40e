import { ChatStore, useChat } from 'seseragi/react';
import type { ChatMessage } from 'seseragi/parts';
import { textOf } from 'seseragi/parts';

const shared = new ChatStore({ id: 'shared', storage: () => localStorage });

export function Page({ id }: { id: string }) {
  const { messages, status, error, isReconnecting, send, stop, retry } = useChat({
    id,
    request: { model: 'demo' },
    storage: () => localStorage,
    onFinish: (message) => console.log(message.usage?.cost),
  });
  return (
    <main data-status={status} data-offline={isReconnecting}>
      {messages.map((message) => <Message key={message.id} message={message} />)}
      {error && <button onClick={retry}>{error.message}</button>}
      <button onClick={() => send('Hi')}>Send</button>
      <button onClick={stop}>Stop</button>
    </main>
  );
}

function Message({ message }: { message: ChatMessage }) {
  if (message.role !== 'assistant') return <p>{textOf(message)}</p>;
  return (
    <p data-status={message.status}>
      {message.parts.map((part, at) => {
        if (part.type === 'text') return <span key={at}>{part.text}</span>;
        return part.type === 'tool_call' ? <code key={at}>{part.name}({part.arguments}) = {part.output}</code> : null;
      })}
    </p>
  );
}

export function Count() {
  return <b>{useChat({ chat: shared }).messages.length}</b>;
}
