"""The page in browsers that are no Chromium."""

import asyncio
import json

import pytest
import pytest_asyncio

from app.testing.upstream import Hold, Reset, Until, Upstream, head, send, text
from tests.api.asking import serve_asked
from tests.e2e.asking import Asking
from tests.e2e.engines import ENGINES, Classic, Engine
from tests.e2e.talk import TRANSPORTS, rest, says
from tests.e2e.test_adapters import Chromium
from tests.serving import Relay, serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

ANSWER = "# 川\n\n- **せせらぎ**🌊\n- مرحبا \u2028 終わり"

SEND = """
  document.querySelector('#prompt').value = %s;
  document.querySelector('#transport').value = %s;
  document.querySelector('#send').click();
"""
UNTIL = """
  const until = Date.now() + 25000;
  while (!(%s)) {
    if (Date.now() > until) throw new Error('waited in vain; the page says: ' + document.body.innerText);
    await new Promise((done) => setTimeout(done, 20));
  }
"""
STOPPED_WITH_THE_PAGE = """
  const { chat } = await import('/static/seseragi.js');
  const given = { value: 'ssk_right', expires_at: Date.now() / 1000 + 600 };
  const request = { messages: [{ role: 'user', content: 'hi' }] };
  const stream = chat(request, { credential: async () => given });
  addEventListener('pagehide', () => stream.cancel());
  for await (const { event } of stream) if (event.type === 'text.delta') return;
"""
FILLED_BETWEEN_TWO_TURNS = """
  const { ChatStore } = await import('/static/store.js');
  const chat = new ChatStore({ url: '/v1/chat', request: { model: 'openai/gpt-6-luna' }, storage: () => localStorage });
  const idle = () => new Promise((done) => {
    const leave = chat.subscribe(() => {
      if (!['ready', 'error'].includes(chat.getSnapshot().status)) return;
      leave();
      done();
    });
  });
  localStorage.clear();
  chat.subscribe(() => {});
  chat.send('one');
  await idle();
  for (let size = 2 ** 23; size >= 1; size /= 2) {
    try {
      for (let at = 0; ; at++) localStorage.setItem(`${size} ${at}`, 'x'.repeat(size));
    } catch {}
  }
  const sent = chat.send('two');
  await idle();
  localStorage.clear();
  const { messages, storageError } = chat.getSnapshot();
  return [sent, messages.map(({ parts, status }) => [parts[0].text, status ?? null]), storageError?.code];
"""
EIGHT_READERS_STOPPED_BY_THE_THIRD = """
  const { ChatStore } = await import('/static/store.js');
  localStorage.clear();
  const readers = [];
  const open = () => readers.filter(({ aborted }) => !aborted).length;
  const join = () => {
    const chat = new ChatStore({
      url: '/v1/chat', request: { model: 'openai/gpt-6-luna' }, storage: () => localStorage, retryMs: 0,
      fetch: (url, init) => { if (!/cancel$/.test(url)) readers.push(init.signal); return fetch(url, init); },
    });
    chat.subscribe(() => {});
    return chat;
  };
  const last = (chat) => chat.getSnapshot().messages.at(-1);
  const until = async (is) => { while (!chats.every(is)) await new Promise((done) => setTimeout(done, 20)); };
  const chats = [join()];
  chats[0].send('one');
  await until((chat) => last(chat)?.parts?.[0]?.text === 'half');
  while (chats.length < 8) chats.push(join());
  await until((chat) => last(chat)?.parts?.[0]?.text === 'half');
  await until(() => open() === 1); // the one before leaves once the next has its lock
  await chats[2].stop();
  await until((chat) => last(chat).status === 'cancelled');
  return [open(), chats.map((chat) => last(chat).parts[0].text)];
"""
EIGHT_CONVERSATIONS = """
  const { ChatStore } = await import('/static/store.js');
  localStorage.clear();
  const open = new Map();
  const chats = Array.from({ length: 8 }, (_, number) => new ChatStore({
    id: `chat-${number}`, url: '/v1/chat', credential: '%s', request: { model: 'openai/m' }, storage: () => localStorage, retryMs: 100,
    fetch: async (url, init) => {
      open.set(init.signal, new URL(url, location).pathname);
      init.signal.addEventListener('abort', () => open.delete(init.signal));
      return fetch(url, init);
    },
  }));
  const texts = () => chats.map((chat) => chat.getSnapshot().messages.at(-1)?.parts?.[0]?.text);
  for (const chat of chats) {
    chat.subscribe(() => {});
    chat.send('one');
  }
  while (texts().some((text) => text !== 'half')) await new Promise((done) => setTimeout(done, 20));
  while (open.size > 1) await new Promise((done) => setTimeout(done, 20));
  return [texts(), [...open.values()]];
"""
LAST_IS = "[...document.querySelectorAll('.text')].at(-1)?.textContent === '%s'"
IDLE = "document.body.dataset.state === 'idle' && document.querySelector('.message.assistant')"


@pytest_asyncio.fixture(loop_scope="session", params=[*ENGINES])
async def engine(request, engines):
    engine = await engines(request.param)
    yield engine
    await engine.open("about:blank")


async def send_prompt(engine: Engine, prompt: str, *, transport: str = "fetch") -> None:
    await until(engine, "document.querySelector('#model option')")  # the page's script has run
    await engine.run(SEND % (json.dumps(prompt), json.dumps(transport)))


async def until(engine: Engine, condition: str) -> None:
    await engine.run(UNTIL % condition)


async def shown(engine: Engine) -> tuple[str, str]:
    """The status of the last answer and its text."""
    status, words = await engine.run(
        """const last = [...document.querySelectorAll('.message.assistant')].at(-1);
        return [last.dataset.status, [...last.querySelectorAll('.text')].map((t) => t.textContent).join('')];"""
    )
    return status, words


async def test_page_answers_is_cut_comes_back_and_stops(engine, upstream, relay):
    await engine.open(relay.url)
    for transport in TRANSPORTS:
        upstream.script = says(*ANSWER)
        await send_prompt(engine, "こんにちは", transport=transport)
        await until(engine, IDLE)

        assert ("completed", "川せせらぎ🌊مرحبا \u2028 終わり") == await shown(engine)

        cut = Until()
        upstream.script = [head(), send(text("one ")), cut, *rest("two")]
        await send_prompt(engine, "cut", transport=transport)
        await until(engine, LAST_IS % "one ")
        await engine.run("document.querySelector('#cut').click()")
        cut.told.set()
        await until(engine, IDLE)

        assert ("completed", "one two") == await shown(engine)
        cuts = await engine.run(
            "return document.querySelector('[data-stat=reconnects]').textContent"
        )
        assert "1" == cuts

        upstream.script = [head(), send(text("half")), Hold()]
        await send_prompt(engine, "stop", transport=transport)
        await until(engine, LAST_IS % "half")
        await engine.run("document.querySelector('#stop').click()")
        await until(engine, IDLE)

        assert ("cancelled", "half") == await shown(engine)


async def test_page_reads_on_after_a_reload_and_shows_a_cut_as_a_cut(engine, upstream, relay):
    again = Until()
    upstream.script = [head(), send(text("before ")), again, send(text("after")), Reset()]
    await engine.open(relay.url)
    await send_prompt(engine, "reload")
    await until(engine, "document.querySelector('.text')?.textContent === 'before '")
    await engine.open(f"{relay.url}/?again")
    again.told.set()
    await until(engine, IDLE)

    assert ("failed", "before after") == await shown(engine)
    assert 1 == len(upstream.calls)
    error = await engine.run("return document.querySelector('.error').textContent")
    assert "upstream_truncated" in error


async def turn_stays(engine: Engine, upstream: Upstream, relay: Relay) -> None:
    """Fill the storage between two turns: both stay on the page, and `storageError` says why."""
    upstream.script = says("whole")
    await engine.open(f"{relay.url}/docs")
    found = await engine.run(FILLED_BETWEEN_TWO_TURNS)

    answer = ["whole", "completed"]
    assert [True, [["one", None], answer, ["two", None], answer], "storage"] == found
    assert 2 == len(upstream.calls)


async def test_turn_stays_though_the_storage_is_full(engine, upstream, relay):
    await turn_stays(engine, upstream, relay)


async def test_turn_stays_though_the_storage_is_full_in_chromium(page, upstream, relay):
    await turn_stays(Chromium(page), upstream, relay)


async def test_eight_tabs_have_one_reader_and_any_of_them_stops_it(engine, upstream, relay):
    upstream.script = [head(), send(text("half")), Hold()]
    await engine.open(relay.url)

    assert [1, ["half"] * 8] == await engine.run(EIGHT_READERS_STOPPED_BY_THE_THIRD)
    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
    assert 1 == len(upstream.calls)


async def test_eight_conversations_take_one_connection(engine, upstream):
    async with serve_asked(upstream) as asked:
        upstream.script = [head(), send(text("half")), Hold()]
        await engine.open(f"{asked.relay.url}/docs")
        reply = await asked.by("backend", "POST", "/v1/client_secrets", json={"user": "ann"})
        found = await engine.run(EIGHT_CONVERSATIONS % reply.json()["value"])

        assert [["half"] * 8, ["/v1/streams/watch"]] == found
        assert 8 == len(upstream.calls)
        assert not any(call.closed.is_set() for call in upstream.calls)
        await engine.open("about:blank")


async def test_page_that_is_closed_stops_its_stream(engine, upstream):
    """At once, or, as WebKit on a busy machine drops what a page sends last, for want of a reader."""
    linger_s = 5 if isinstance(engine, Classic) else 600
    async with serve_relay(upstream, watch=Asking(), linger_s=linger_s) as relay:
        upstream.script = [head(), send(text("half")), Hold()]
        await engine.open(relay.url)
        await engine.run(STOPPED_WITH_THE_PAGE)
        await engine.open("about:blank")
        async with asyncio.timeout(60):
            await upstream.calls[0].closed.wait()
