'use client';

import { textOf } from 'seseragi/parts';
import { useChat } from 'seseragi/react';

const options = {
  url: `${process.env.NEXT_PUBLIC_RELAY_URL}/v1/chat`,
  storage: () => localStorage,
  async credential() {
    const reply = await fetch('/api/llm-secret', { method: 'POST' });
    if (!reply.ok) throw new Error(`no secret: ${reply.status}`);
    return reply.json();
  },
};

export default function Page() {
  const { messages, status, error, isReconnecting, send, stop, retry } = useChat(options);
  const isBusy = status === 'submitted' || status === 'streaming';
  const ask = (form) => { send(form.get('prompt')); };

  return (
    <>
      <main style={{ whiteSpace: 'pre-wrap' }}>
        {messages.map((message) => <p key={message.id} className={message.role}>{textOf(message)}</p>)}
      </main>
      <p role="status">{isReconnecting && 'The connection was lost; it comes back by itself.'}</p>
      {error && <p role="alert">{error.message} <button onClick={retry}>Try again</button></p>}
      <form action={ask}>
        <input name="prompt" aria-label="Prompt" autoComplete="off" required />
        <button disabled={isBusy}>Send</button>
        <button type="button" disabled={!isBusy} onClick={stop}>Stop</button>
      </form>
    </>
  );
}
