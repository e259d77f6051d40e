/**
 * A relay for tests in Node.js: the command on a free port, a scripted provider, a folder of
 * cassettes. `seseragi` has to be installed (`pip install`), or `command` says how to start it.
 *
 *     import { answer, startRelay } from 'seseragi/testing';
 *
 *     const relay = await startRelay({ cassettes: 'fixtures' });
 *     relay.upstream.script = answer('Hello', ' world');
 *     await fetch(`${relay.url}/v1/chat`, { ... model: 'scripted/any' ... });
 *     await relay.stop();
 *
 * @module seseragi/testing
 */

// By name, so that what bundles an entry for browsers does not look for modules of Node.js.
const node = (name) => import(`node:${name}`);

const STOP_MS = 5000; // how long the command may take to end; then it is killed
const LINES = 1000; // how many of the last lines of its log are kept
const KEPT = new RegExp(
  '^(PATH|PATHEXT|HOME|USER|USERPROFILE|(LOCAL)?APPDATA|LANG|LC_\\w+|TZ|TMPDIR|TEMP|TMP|SystemRoot|'
    + 'PYTHON\\w*|PYENV\\w*|CONDA\\w*|VIRTUAL_ENV|LD_LIBRARY_PATH)$', 'i'); // what a command needs to start

export const send = (data) => ({ send: data });
export const wait = (seconds) => ({ wait: seconds });
export const hold = () => ({ hold: true });
export const reset = () => ({ reset: true });

export function head(status = '200 OK', contentType = 'text/event-stream', headers = {}) {
  const lines = [`HTTP/1.1 ${status}`, 'connection: close', `content-type: ${contentType}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  return send(`${lines.join('\r\n')}\r\n\r\n`);
}

export function chunkedHead() {
  return send('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n');
}

export function chunk(data) {
  const size = new TextEncoder().encode(data).length;
  return send(`${size.toString(16)}\r\n${data}\r\n`);
}

export const LAST_CHUNK = Object.freeze({ send: '0\r\n\r\n' });

export const reply = (status, body, contentType = 'application/json', headers = {}) =>
  [head(status, contentType, headers), send(body)];

export function event(delta = {}, fields = {}) {
  const choices = [{ index: 0, delta, finish_reason: null, ...fields }];
  const said = { id: 'up-1', object: 'chat.completion.chunk', model: 'm-1', choices };
  return `data: ${JSON.stringify(said)}\n\n`;
}

export const text = (content) => event({ content });

export const FINISH = event({}, { finish_reason: 'stop' });
export const USAGE = 'data: {"id":"up-1","choices":[],"usage":'
  + '{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n';
export const DONE = 'data: [DONE]\n\n';

export const answer = (...pieces) =>
  [head(), ...pieces.map((piece) => send(text(piece))), send(FINISH + USAGE + DONE)];

/** Run a provider that plays `script`, or what `choose` gives for a call, to each call. */
export async function startUpstream() {
  const net = await node('net');
  const sockets = new Set();
  const upstream = {
    script: [],
    choose: null,
    models: reply('404 Not Found', ''),
    calls: [],
    port: 0,
    get baseUrl() { return `http://127.0.0.1:${upstream.port}/v1`; },
    reset(script = []) {
      upstream.script = script;
      upstream.choose = null;
      upstream.models = reply('404 Not Found', '');
      upstream.calls.length = 0;
    },
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((done) => { server.close(done); });
    },
  };
  const server = net.createServer((socket) => {
    sockets.add(socket);
    let over;
    const closed = new Promise((resolve) => { over = resolve; });
    let came = Buffer.alloc(0);
    let call = null;
    socket.on('data', (piece) => {
      if (call) return;
      came = Buffer.concat([came, piece]);
      call = readCall(came);
      if (!call) return;
      call.closed = false;
      closed.then(() => { call.closed = true; });
      let script = upstream.models;
      if (call.method !== 'GET') {
        upstream.calls.push(call);
        script = upstream.choose ? upstream.choose(call) : upstream.script;
      }
      play(script, socket, closed).catch(() => socket.destroy());
    });
    socket.on('error', () => {});
    for (const name of ['end', 'close']) socket.on(name, () => over());
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  server.unref(); // what forgets to stop it ends all the same
  upstream.port = server.address().port;
  return upstream;
}

async function play(script, socket, closed) {
  for (const step of script) {
    if ('send' in step) {
      if (!socket.destroyed) socket.write(step.send);
    } else if ('wait' in step) {
      const waited = new Promise((resolve) => { setTimeout(resolve, step.wait * 1000); });
      await Promise.race([waited, closed]);
    } else if (step.hold) {
      await closed;
    } else if (step.reset) {
      socket.resetAndDestroy();
      return;
    }
  }
  socket.end();
}

/** Read a request; null as long as more of it has to come. */
function readCall(came) {
  const end = came.indexOf('\r\n\r\n');
  if (end < 0) return null;
  const [first, ...lines] = came.subarray(0, end).toString('latin1').split('\r\n');
  const headers = Object.fromEntries(lines.map((line) => {
    const at = line.indexOf(':');
    return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()];
  }));
  const size = Number(headers['content-length'] ?? 0);
  const body = came.subarray(end + 4);
  if (body.length < size) return null;
  const [method, path] = first.split(' ');
  const said = body.toString();
  return { method, path, headers, body: said, json: () => JSON.parse(said) };
}

/** Run a relay in a process of its own; see `testing.d.ts` for what can be said. */
export async function startRelay({
  command = ['seseragi'],
  cassettes = null,
  record = 'off',
  settings = {},
  dialect = 'openai_chat',
  providers = false,
  timeoutMs = 60_000,
} = {}) {
  const [fs, os, path, { spawn }, { createInterface }] = await Promise.all(
    ['fs/promises', 'os', 'path', 'child_process', 'readline'].map(node));
  const own = await fs.mkdtemp(path.join(os.tmpdir(), 'seseragi-'));
  const folder = cassettes === null ? path.join(own, 'cassettes') : path.resolve(cassettes);
  await fs.mkdir(folder, { recursive: true });
  const upstream = await startUpstream();
  const config = path.join(own, 'seseragi.toml');
  await fs.writeFile(config, '[upstream.scripted]\n'
    + `base_url = ${JSON.stringify(upstream.baseUrl)}\ndialect = ${JSON.stringify(dialect)}\n`);
  const said = {
    ...('keys_file' in settings ? {} : { auth: 'none' }), // tests have no key to send
    default_model: 'demo', drain_s: 0, record_cassettes: record, ...settings, cassettes: folder, log_format: 'json',
  };
  // Only what a command needs: no settings of others, and no key that costs money.
  const env = Object.fromEntries(Object.entries(process.env).filter(
    ([name]) => (providers ? !name.startsWith('SESERAGI_') : KEPT.test(name))));
  for (const [name, value] of Object.entries(said)) env[`SESERAGI_${name.toUpperCase()}`] = String(value);
  const log = [];
  // Its input ends with this process, and it with its input, also where this one is killed.
  const child = spawn(command[0], [...command.slice(1), '--port', '0', '--config', config, '--stop-with-stdin'], {
    cwd: own, env, stdio: 'pipe',
  });
  const ended = new Promise((resolve) => {
    child.once('close', resolve);
    child.once('error', (error) => { log.push(String(error)); resolve(); });
  });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  const handles = [child, child.stdin, child.stdout, child.stderr];

  async function stop() {
    for (const handle of handles) handle.ref?.();
    const late = setTimeout(kill, STOP_MS);
    if (child.exitCode === null) child.kill('SIGTERM');
    await ended;
    clearTimeout(late);
    process.removeListener('exit', kill);
    await upstream.stop();
    await fs.rm(own, { recursive: true, force: true });
  }

  const listening = new Promise((resolve) => {
    for (const output of [child.stdout, child.stderr])
      createInterface({ input: output }).on('line', (line) => {
        log.push(line);
        if (log.length > LINES) log.shift();
        const url = urlOf(line);
        if (url) resolve(url);
      });
  });
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, timeoutMs); });
  const url = await Promise.race([listening, ended, late]);
  clearTimeout(timer);
  if (typeof url !== 'string') {
    await stop();
    throw new Error(`the relay did not start (${command.join(' ')}):\n${log.slice(-20).join('\n')}`);
  }
  for (const handle of handles) handle.unref?.(); // what forgets to stop it ends all the same
  const relay = {
    url,
    apiUrl: `${url}/v1`,
    upstream,
    cassettes: folder,
    log,
    reset() { upstream.reset(answer('Hello', '!')); },
    stop,
    [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]: stop,
  };
  relay.reset();
  return relay;
}

/** The URL of the line that says where the relay listens. */
function urlOf(line) {
  try {
    const said = JSON.parse(line);
    return said.event === 'listening' ? said.url : null;
  } catch {
    return null;
  }
}
