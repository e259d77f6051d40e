// Shows the component of docs/clients/ai-sdk.md; `snippet` is that code block as it stands.
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { App } from 'snippet';

const strict = new URLSearchParams(location.search).has('strict');
const Mode = strict ? StrictMode : ({ children }) => children;

createRoot(document.querySelector('#root')).render(
  <Mode>
    <App />
  </Mode>,
);
