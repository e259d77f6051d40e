import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { textOf } from 'seseragi/parts';
import { useChat } from 'seseragi/react';

function Chat() {
  const { messages, status, error, isReconnecting, send, stop, retry } = useChat({ storage: () => localStorage });
  const isBusy = status === 'submitted' || status === 'streaming';

  function submit(event) {
    event.preventDefault();
    if (send(new FormData(event.target).get('prompt'))) event.target.reset();
  }

  return (
    <>
      <main style={{ whiteSpace: 'pre-wrap' }}>
        {messages.map((message) => <p key={message.id} className={message.role}>{textOf(message)}</p>)}
      </main>
      <p role="status">{isReconnecting && 'The connection was lost; it comes back by itself.'}</p>
      {error && <p role="alert">{error.message} <button onClick={retry}>Try again</button></p>}
      <form onSubmit={submit}>
        <input name="prompt" aria-label="Prompt" autoComplete="off" required autoFocus />
        <button disabled={isBusy}>Send</button>
        <button type="button" disabled={!isBusy} onClick={stop}>Stop</button>
      </form>
    </>
  );
}

createRoot(document.querySelector('#root')).render(<StrictMode><Chat /></StrictMode>);
