// One chat by each adapter, mounted as React's StrictMode mounts, and thrown away once by Suspense.
import { Chat, useChat as useSdkChat } from '@ai-sdk/react';
import { StrictMode, Suspense, use, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { SeseragiAgent } from 'seseragi/ag-ui';
import { SeseragiChatTransport } from 'seseragi/ai-sdk';
import { textOf } from 'seseragi/parts';
import { useChat } from 'seseragi/react';

const [adapter, relay] = decodeURIComponent(location.hash.slice(1)).split(' ');
const later = new Promise((resolve) => { setTimeout(resolve, 50); });
const kept = (name, fallback) => JSON.parse(localStorage.getItem(`${adapter}.${name}`) ?? 'null') ?? fallback;
const keep = (name, value) => localStorage.setItem(`${adapter}.${name}`, JSON.stringify(value));

function View({ status, messages, send }) {
  return (
    <main data-status={status}>
      {messages.map(({ role, text }, at) => <p key={at} className={role}>{text}</p>)}
      <button onClick={send}>Send</button>
    </main>
  );
}

function Hook() {
  const { messages, status, send } = useChat({ id: adapter, url: `${relay}/v1/chat`, retryMs: 50, storage: () => localStorage });
  use(later);
  return <View status={status} messages={messages.map((message) => ({ role: message.role, text: textOf(message) }))} send={() => { send('hello'); send('hello'); }} />;
}

const id = kept('id', crypto.randomUUID());
const chat = new Chat({ id, messages: kept('messages', []), transport: new SeseragiChatTransport({ api: `${relay}/v1/ui/chat`, retryMs: 50 }) });

function Sdk() {
  const { messages, status, sendMessage } = useSdkChat({ chat, resume: true });
  use(later);
  useEffect(() => { keep('id', id); keep('messages', messages); }, [messages]);
  return <View status={status} messages={messages.map(({ role, parts }) => ({ role, text: parts.map(({ text }) => text).join('') }))} send={() => sendMessage({ text: 'hello' })} />;
}

const agent = new SeseragiAgent({ url: `${relay}/v1/ag-ui`, threadId: 'thread', initialMessages: kept('messages', []), storage: localStorage, reading: { retryMs: 50 } });

function AgUi() {
  const [messages, show] = useState(agent.messages);
  const [isRunning, run] = useState(false);
  use(later);
  useEffect(() => {
    const { unsubscribe } = agent.subscribe({
      onMessagesChanged: () => { show([...agent.messages]); keep('messages', agent.messages); },
      onRunStartedEvent: () => run(true),
      onRunFinalized: () => run(false),
    });
    agent.connectAgent();
    return () => { unsubscribe(); agent.detachActiveRun(); };
  }, []);
  const send = () => {
    agent.addMessage({ id: 'u', role: 'user', content: 'hello' });
    agent.runAgent();
    agent.runAgent();
  };
  return <View status={isRunning ? 'streaming' : 'ready'} messages={messages.map(({ role, content }) => ({ role, text: content }))} send={send} />;
}

window.paints = [];
new MutationObserver(() => window.paints.push([...document.querySelectorAll('.assistant')].map((it) => it.textContent).join('|')))
  .observe(document, { subtree: true, childList: true, characterData: true });

const Chosen = { hook: Hook, sdk: Sdk, agent: AgUi }[adapter];
createRoot(document.querySelector('#root')).render(<StrictMode><Suspense fallback="..."><Chosen /></Suspense></StrictMode>);
