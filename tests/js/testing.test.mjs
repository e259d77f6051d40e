// What others test with in Node.js: a relay that is started, and the provider that it asks.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import {
  answer, chunk, chunkedHead, hold, reply, reset, send, startRelay, startUpstream, text,
} from '../../static/testing.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PYTHON = process.env.PYTHON ?? path.join(ROOT, '.venv', 'bin', 'python');
const COMMAND = [existsSync(PYTHON) ? PYTHON : 'python3', '-m', 'app'];

async function ask(relay, model) {
  const reply = await fetch(`${relay.apiUrl}/chat`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
  });
  return { status: reply.status, stream: reply.headers.get('stream-id'), text: await reply.text() };
}

test('a relay answers from its script, its cassettes and no provider', async () => {
  process.env.PYTHONPATH = ROOT;
  process.env.OPENAI_API_KEY = 'sk-that-costs-money';
  const relay = await startRelay({ command: COMMAND, settings: { attempts: 1 } });
  try {
    assert.match((await ask(relay, 'scripted/any')).text, /"text":"Hello"/);
    assert.equal(relay.upstream.calls[0].json().model, 'any');
    assert.match(relay.log.join('\n'), /"upstreams":\["demo","scripted"\]/);

    relay.upstream.script = reply('429 Too Many Requests', '{}', undefined, { 'retry-after': '60' });
    assert.equal((await ask(relay, 'scripted/any')).status, 429);
    relay.upstream.script = [chunkedHead(), chunk(text('One')), reset()];
    assert.match((await ask(relay, 'scripted/any')).text, /upstream_truncated/);
    relay.upstream.script = [send('garbage\r\n\r\n')];
    assert.equal((await ask(relay, 'scripted/any')).status, 502);
    relay.upstream.choose = (call) => answer(call.json().messages[0].content, '🌊');
    const live = await ask(relay, 'scripted/any');
    assert.match(live.text, /"text":"🌊"/);

    const saved = await fetch(`${relay.url}/v1/streams/${live.stream}/cassette`, { method: 'POST' });
    await writeFile(path.join(relay.cassettes, 'one.jsonl'), await saved.text());
    assert.match((await ask(relay, 'cassette/one?speed=0')).text, /"text":"🌊"/);

    relay.reset();
    assert.equal(relay.upstream.calls.length, 0);
    assert.match((await ask(relay, 'scripted/any')).text, /"text":"Hello"/);
  } finally {
    await relay.stop();
    delete process.env.OPENAI_API_KEY;
  }
  assert.equal(existsSync(relay.cassettes), false);
  await assert.rejects(fetch(relay.url));
});

test('a relay that cannot start says why', async () => {
  process.env.PYTHONPATH = ROOT;
  const starting = startRelay({ command: COMMAND, settings: { status_wait_s: 'soon' } });
  await assert.rejects(starting, /did not start[^]*SESERAGI_STATUS_WAIT_S: 'soon'/);
  await assert.rejects(startRelay({ command: ['no-such-command'] }), /ENOENT|Executable not found/);
});

test('a relay ends with the process of the tests, stopped or not', async () => {
  process.env.PYTHONPATH = ROOT;
  const script = (rest) => `
    import { startRelay } from ${JSON.stringify(new URL('../../static/testing.js', import.meta.url).href)};
    const relay = await startRelay({ command: ${JSON.stringify(COMMAND)} });
    console.log(relay.url);
    ${rest}`;
  const started = async (rest) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script(rest)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise((resolve) => { child.once('exit', (...how) => resolve(how)); });
    const [line] = await once(child.stdout, 'data');
    return { child, ended, url: String(line).trim() };
  };
  const [killed, forgot] = await Promise.all([started('setInterval(() => {}, 1000);'), started('')]);
  await fetch(`${killed.url}/healthz`);
  killed.child.kill('SIGKILL');
  assert.deepEqual(await forgot.ended, [0, null]);
  for (const { url } of [killed, forgot]) {
    const until = Date.now() + 30_000;
    while (await fetch(`${url}/healthz`).catch(() => null)) {
      assert.ok(Date.now() < until, `${url} still answers`);
      await new Promise((done) => { setTimeout(done, 50); });
    }
  }
});

test('a scripted provider stops with what it holds', async () => {
  const upstream = await startUpstream();
  upstream.script = [hold()];
  const held = fetch(`${upstream.baseUrl}/chat`, { method: 'POST', body: '{}' });
  const failed = assert.rejects(held);
  while (upstream.calls.length === 0) await new Promise((done) => { setTimeout(done, 5); });
  await upstream.stop();
  await failed;
});
