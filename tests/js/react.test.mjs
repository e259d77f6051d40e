// The hook where a server draws the page. In browsers it is tested by tests/e2e/test_adapters.py.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import test from 'node:test';

const MODULES = new URL('../../node_modules/', import.meta.url);
const skip = existsSync(new URL('react-dom', MODULES)) ? false : 'no node_modules: npm ci';
if (skip && process.env.CI === 'true') throw new Error(skip);

test('a server draws the messages that it was given, and asks for nothing', { skip }, async (t) => {
  const { createElement } = await import('react');
  const { renderToString } = await import('react-dom/server');
  const { textOf } = await import('../../static/parts.js');
  const { useChat } = await import('../../static/react.js');
  const fetch = t.mock.method(globalThis, 'fetch');
  const storage = t.mock.fn(() => null);
  const messages = [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'せせらぎ' }] }];
  const Page = () => {
    const chat = useChat({ messages, storage });
    return createElement('p', null, chat.status, ' ', chat.messages.map(textOf));
  };

  assert.match(renderToString(createElement(Page)), /ready.*せせらぎ/);
  assert.deepEqual([fetch.mock.callCount(), storage.mock.callCount()], [0, 0]);
});
