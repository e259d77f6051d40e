// Chats by each adapter in StrictMode, each of which is cut at another byte: some at a time, in one page.
import { Chat, useChat as useSdkChat } from '@ai-sdk/react';
import { StrictMode, useEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { SeseragiAgent } from 'seseragi/ag-ui';
import { SeseragiChatTransport } from 'seseragi/ai-sdk';
import { textOf } from 'seseragi/parts';
import { useChat } from 'seseragi/react';

const AT_ONCE = { retryMs: 1, maxDelayMs: 1 };

/** What is shown of one chat; `done` is told all that was, once it is ready. */
function View({ answers, status, send, done }) {
  const seen = useRef([]);
  const asked = useRef(false);
  const text = answers.join('|');
  if (text && seen.current.at(-1) !== text) seen.current.push(text);
  useEffect(() => {
    if (asked.current) return;
    asked.current = true;
    send();
  }, []);
  useEffect(() => { if (text && status === 'ready') done(seen.current); }, [text, status]);
  return <p data-status={status}>{text}</p>;
}

function Hook({ relay, done }) {
  const { messages, status, error, send } = useChat({ url: `${relay}/v1/chat`, ...AT_ONCE });
  const answers = messages.filter(({ role }) => role === 'assistant').map(textOf);
  return <View answers={error ? [error.message] : answers} status={error ? 'ready' : status} send={() => send('hello')} done={done} />;
}

function Sdk({ relay, done }) {
  const [chat] = useState(() => new Chat({ transport: new SeseragiChatTransport({ api: `${relay}/v1/ui/chat`, ...AT_ONCE }) }));
  const { messages, status, error, sendMessage } = useSdkChat({ chat });
  const answers = messages.filter(({ role }) => role === 'assistant').map(({ parts }) => parts.map(({ text }) => text).join(''));
  return <View answers={error ? [error.message] : answers} status={error ? 'ready' : status} send={() => sendMessage({ text: 'hello' })} done={done} />;
}

function AgUi({ relay, done }) {
  const [agent] = useState(() => new SeseragiAgent({ url: `${relay}/v1/ag-ui`, threadId: crypto.randomUUID(), reading: AT_ONCE }));
  const [messages, show] = useState([]);
  const [status, run] = useState('submitted');
  const send = async () => {
    agent.subscribe({ onMessagesChanged: () => show([...agent.messages]) });
    agent.addMessage({ id: 'u', role: 'user', content: 'hello' });
    await agent.runAgent().catch((error) => show([{ role: 'assistant', content: error.message }]));
    run('ready');
  };
  return <View answers={messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)} status={status} send={send} done={done} />;
}

const ADAPTERS = { hook: Hook, sdk: Sdk, agent: AgUi };

/** Works off the chats that are asked for, four at a time. */
function Page() {
  const [state, change] = useState({ waiting: [], running: [] });
  useEffect(() => {
    window.results = {};
    window.ask = (items) => change({ waiting: items.slice(4), running: items.slice(0, 4) });
  }, []);
  const done = (item) => (seen) => {
    window.results[`${item.adapter} ${item.at}`] = seen;
    change(({ waiting: [next, ...waiting], running }) => (
      running.includes(item) ? { waiting, running: [...running.filter((one) => one !== item), ...(next ? [next] : [])] } : { waiting: next ? [next, ...waiting] : [], running }));
  };
  return state.running.map((item) => {
    const Adapter = ADAPTERS[item.adapter];
    return <Adapter key={`${item.adapter} ${item.at}`} relay={`${location.hash.slice(1)}/cut-${item.at}`} done={done(item)} />;
  });
}

createRoot(document.querySelector('#root')).render(<StrictMode><Page /></StrictMode>);
