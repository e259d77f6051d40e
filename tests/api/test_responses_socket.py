"""Responses over WebSocket: OpenAI's SDK and a bare client, over real sockets."""

import asyncio
import contextlib
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import websockets
from openai import AsyncOpenAI
from websockets.exceptions import ConnectionClosed, InvalidStatus

from app.api import responses_socket
from app.identity.principal import Principal
from app.testing.upstream import Hold, Step, answer, head, send, text, wait
from tests.identities import bearer, known
from tests.serving import Relay, serve_relay, serve_script
from tests.waiting import until

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
CREATE = {"type": "response.create", "model": "openai/m", "input": "one"}


@contextlib.asynccontextmanager
async def connect(relay: Relay, **arguments: Any) -> AsyncIterator[websockets.ClientConnection]:
    url = f"ws://127.0.0.1:{relay.port}/v1/responses"
    async with websockets.connect(url, proxy=None, **arguments) as connection:
        yield connection


async def ask(connection: websockets.ClientConnection, **fields: Any) -> None:
    await connection.send(json.dumps(CREATE | fields))


async def read(connection: websockets.ClientConnection) -> list[dict[str, Any]]:
    """Return the events of one response."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        while not events or events[-1]["type"] not in ENDS:
            events.append(json.loads(await connection.recv()))
    return events


async def test_events_are_those_of_a_post_and_the_response_can_be_read_again():
    async with (
        serve_script(answer("a", "b")) as (relay, _),
        AsyncOpenAI(base_url=f"{relay.url}/v1", api_key="any") as client,
    ):
        async with client.responses.connect() as connection:
            await connection.response.create(model="openai/m", input="one")
            events = []
            async for event in connection:
                events.append(cast(Any, event))
                if event.type in ENDS:
                    break
        posted = await client.responses.create(model="openai/m", input="one", stream=True)

        assert [event.type async for event in posted] == [event.type for event in events]
        assert "ab" == events[-1].response.output_text
        again = await client.responses.retrieve(events[-1].response.id)
        assert "ab" == again.output_text


@pytest.mark.parametrize("stream_id", ["", "x"])
async def test_messages_are_the_data_of_the_frames_byte_for_byte(stream_id):
    async with (
        serve_script(answer("a\u2028", "\u00e9 b")) as (relay, _),
        connect(relay) as connection,
    ):
        await ask(connection, **({"stream_id": stream_id} if stream_id else {}))
        messages: list[str] = []
        while not messages or json.loads(messages[-1])["type"] not in ENDS:
            messages.append(cast(str, await connection.recv()))
        response = json.loads(messages[-1])["response"]["id"]
        frames = await relay.client.get(f"/v1/responses/{response}?stream=true")

    begin = f'{{"stream_id":"{stream_id}",' if stream_id else "{"
    lines = [line for line in frames.text.split("\n") if line.startswith("data: ")]
    assert messages == [begin + line.removeprefix("data: {") for line in lines]
    assert "\\u2028" in messages[-1]


@pytest.mark.parametrize(
    ("last", "end"), [(send(""), "response.failed"), (Hold(), "error")], ids=["failed", "cancelled"]
)
async def test_incomplete_answer_ends_with_one_message(last: Step, end: str):
    """A reader stops at the first, and would take the second for one of its next response."""
    async with (
        serve_script([head(), send(text("a")), last]) as (relay, upstream),
        connect(relay) as connection,
    ):
        await ask(connection)
        events = [json.loads(await connection.recv())]
        while "delta" not in events[-1]:
            events.append(json.loads(await connection.recv()))
        if end == "error":
            await relay.client.post(f"/v1/responses/{events[0]['response']['id']}/cancel")
        events += await read(connection)
        upstream.script = answer("b")
        await ask(connection)
        again = await read(connection)

    assert [end] == [event["type"] for event in events if event["type"] in ENDS]
    error = events[-1]["error"] if end == "error" else events[-1]["response"]["error"]
    assert {"error": "cancelled", "response.failed": "server_error"}[end] == error["code"]
    assert ["response.created", "response.completed"] == [again[0]["type"], again[-1]["type"]]


async def test_answer_that_is_not_stored_is_continued_on_its_connection():
    async with serve_script(answer("a")) as (relay, upstream), connect(relay) as connection:
        await ask(connection, store=False)
        first = (await read(connection))[-1]["response"]["id"]
        await ask(connection, store=False, input="two", previous_response_id=first)
        second = (await read(connection))[-1]["response"]["id"]
        # Another lane goes on from it, and that of before is forgotten.
        await ask(connection, input="three", previous_response_id=second, stream_id="x")
        lane = await read(connection)
        await ask(connection, input="four", previous_response_id=first)
        (refused,) = await read(connection)

    said = [[m["content"] for m in call.json["messages"]] for call in upstream.calls]
    assert [["one"], ["one", "a", "two"], ["one", "a", "two", "a", "three"]] == said
    assert {"x"} == {event["stream_id"] for event in lane}
    assert ("previous_response_not_found", 400) == (refused["error"]["code"], refused["status"])


async def test_request_that_is_not_to_generate_is_continued():
    async with serve_script(answer("a")) as (relay, upstream), connect(relay) as connection:
        await ask(connection, generate=False)
        created, completed = await read(connection)
        previous = completed["response"]["id"]
        await ask(connection, input="two", previous_response_id=previous)
        await read(connection)

    assert created["response"]["id"] == previous
    ((one, two),) = (call.json["messages"] for call in upstream.calls)
    assert ("one", "two") == (one["content"], two["content"])


async def test_lanes_run_at_once_and_one_lane_in_turn():
    async with serve_relay(demo_pace=0.02) as relay, connect(relay) as connection:
        for lane in ("a", "b", "a"):
            await ask(connection, model="demo", stream_id=lane)
        events = [*await read(connection), *await read(connection), *await read(connection)]

    created = [n for n, e in enumerate(events) if e["type"] == "response.created"]
    ended = [n for n, e in enumerate(events) if e["type"] == "response.completed"]
    assert ["a", "b", "a"] == [events[n]["stream_id"] for n in created]
    assert created[1] < ended[0] < created[2]


@pytest.mark.parametrize(
    ("message", "status", "words"),
    [
        ("{", 400, "not JSON"),
        ("[]", 400, "expected `object`"),
        ('{"input": ' + "[" * 10_000 + "]" * 10_000 + "}", 400, "nested too deeply"),
        (b'{"type": "\xff"}', 400, "not UTF-8"),
        (json.dumps(CREATE | {"stream_id": "x" * 300}), 400, "stream_id"),
        ('{"type": "response.steer"}', 400, "'response.steer' is not supported"),
        ('{"type": 1}', 400, "type: expected `str`"),
        ('{"type": "response.create", "background": true}', 400, "background"),
        ('{"type": "response.create", "input": 1, "store": false}', 400, "input"),
        ('{"type": "response.create", "input": "x", "temperature": 9}', 400, "temperature"),
        (b'{"type": "response.create", "input": "x", "temperature": 9}', 400, "temperature"),
    ],
)
async def test_bad_message_is_an_error_and_the_connection_stays(message, status, words):
    async with serve_script(answer("a")) as (relay, _), connect(relay) as connection:
        await connection.send(message)
        (refused,) = await read(connection)
        await ask(connection)

        assert (status, "error") == (refused["status"], refused["type"])
        assert words in refused["error"]["message"]
        assert "response.completed" == (await read(connection))[-1]["type"]


async def test_connection_has_few_lanes(monkeypatch):
    monkeypatch.setattr(responses_socket, "MAX_LANES", 1)
    async with serve_script(answer("a")) as (relay, _), connect(relay) as connection:
        await ask(connection, stream_id="a")
        await read(connection)
        await ask(connection, stream_id="b")
        (refused,) = await read(connection)

    assert "at most 1" in refused["error"]["message"]


async def test_handshake_is_refused_as_a_request_would_be():
    me = Principal(user="me")
    async with serve_relay(authenticator=known(me=me), cors_origins="https://a.example") as relay:
        for headers, origin, status in (
            (None, None, 401),
            (bearer("no"), None, 401),
            (bearer("me"), "https://b.example", 403),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(relay, additional_headers=headers, origin=origin):
                    pass
            assert status == refused.value.response.status_code
            assert b'"error"' in refused.value.response.body
        async with connect(
            relay, additional_headers=bearer("me"), origin="https://a.example"
        ) as connection:
            await ask(connection, model="demo")
            response = (await read(connection))[-1]["response"]["id"]
        for name, status in (("me", 200), ("no", 401)):
            found = await relay.client.get(f"/v1/responses/{response}", headers=bearer(name))
            assert status == found.status_code


PROTOCOL = "openai-insecure-api-key."
PAGE = "https://a.example"


@contextlib.asynccontextmanager
async def from_page(
    relay: Relay, *names: str, origin: str = PAGE, **arguments: Any
) -> AsyncIterator[websockets.ClientConnection]:
    protocols = cast(Any, names)
    async with connect(relay, subprotocols=protocols, origin=origin, **arguments) as connection:
        yield connection


async def test_a_page_sends_its_credential_as_a_subprotocol(caplog):
    caplog.set_level(logging.DEBUG, logger="websockets.server")
    caplog.set_level(logging.DEBUG, logger="uvicorn.error")
    me = Principal(user="me")
    async with serve_relay(
        authenticator=known(me=me), cors_origins=PAGE, log_level="debug"
    ) as relay:
        for names in (
            ("realtime", f"{PROTOCOL}key-me"),
            (f"{PROTOCOL}key-me", "openai-project.p", "openai-beta.x", "realtime"),
        ):
            async with from_page(relay, *names) as connection:
                assert connection.response is not None
                head = str(connection.response.headers)
                assert ("realtime", False) == (connection.subprotocol, "key-me" in head)
                await ask(connection, model="demo")
                response = (await read(connection))[-1]["response"]["id"]
            found = await relay.client.get(f"/v1/responses/{response}", headers=bearer("me"))
            assert 200 == found.status_code
        async with from_page(relay, f"{PROTOCOL}key-me") as connection:
            assert connection.subprotocol is None  # a credential is no answer

    assert "key-me" not in caplog.text


@pytest.mark.parametrize(
    ("names", "how", "status", "words"),
    [
        ([f"{PROTOCOL}key-me"], {"origin": "https://b.example"}, 403, b"not allowed"),
        ([f"{PROTOCOL}key-narrow"], {}, 403, b"does not allow pages of"),
        ([f"{PROTOCOL}key-no"], {}, 401, b"not known here"),
        ([PROTOCOL], {}, 401, b"Bearer"),
        ([f"{PROTOCOL}ssk_secret"], {}, 401, b"send a client secret"),
        ([f"{PROTOCOL}key-me", f"{PROTOCOL}key-no"], {}, 401, b"two different"),
        ([f"{PROTOCOL}key-me"], {"additional_headers": bearer("no")}, 401, b"two different"),
        (["realtime"], {}, 401, b"credential is needed"),
    ],
)
async def test_a_page_without_rights_is_refused(names, how, status: int, words: bytes):
    authenticator = known(me=Principal(user="me"), narrow=Principal(origins=("https://c.example",)))
    async with serve_relay(authenticator=authenticator, cors_origins=PAGE) as relay:
        with pytest.raises(InvalidStatus) as refused:
            async with from_page(relay, "realtime", *names, **how):
                pass

    body = refused.value.response.body
    assert status == refused.value.response.status_code
    assert (True, False) == (words in body, b"ssk_secret" in body or b"key-" in body)


async def test_a_page_without_authentication_may_send_any_key():
    async with (
        serve_relay(cors_origins=PAGE) as relay,
        from_page(relay, "realtime", f"{PROTOCOL}unused") as connection,
    ):
        await ask(connection, model="demo")
        assert "response.completed" == (await read(connection))[-1]["type"]


async def test_setting_turns_it_off():
    async with serve_relay(responses_websocket="false") as relay:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(relay):
                pass
    assert 426 == refused.value.response.status_code


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/realtime", 404),
        ("/v1/chat/completion", 404),
        ("/x", 404),
        ("/v1/chat/completions", 426),
    ],
)
async def test_a_handshake_elsewhere_is_answered_before_the_upgrade(path: str, status: int):
    async with serve_relay() as relay:
        url = relay.url.replace("http", "ws", 1) + path
        with pytest.raises(InvalidStatus) as refused:
            async with websockets.connect(url, proxy=None):
                pass
    assert status == refused.value.response.status_code
    assert (path.encode() in refused.value.response.body) == (status == 404)


async def test_client_that_leaves_cancels_what_is_not_to_go_on():
    script: list[Step] = [head(), send(text("a")), Hold()]
    async with serve_script(script) as (relay, upstream):
        async with connect(relay) as connection:
            await ask(connection, on_disconnect="cancel")
            while json.loads(await connection.recv())["type"] != "response.output_text.delta":
                pass
        async with asyncio.timeout(10):
            await upstream.calls[0].closed.wait()
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_client_that_leaves_is_noticed_while_a_message_waits_for_its_lane():
    script: list[Step] = [head(), send(text("a")), Hold()]
    async with serve_script(script) as (relay, upstream):
        async with connect(relay) as connection:
            for _ in range(3):
                await ask(connection, on_disconnect="cancel")
            while json.loads(await connection.recv())["type"] != "response.output_text.delta":
                pass
        async with asyncio.timeout(10):
            await upstream.calls[0].closed.wait()
        await until(lambda: relay.hub.admission.bytes == 0)
        assert 1 == len(upstream.calls)


async def test_waiting_messages_and_remembered_conversations_are_bounded(monkeypatch):
    monkeypatch.setattr(responses_socket, "MAX_RUNNING", 2)
    script: list[Step] = [head(), send(text("a")), Hold()]
    async with serve_script(script, max_request_bytes=2**20) as (relay, _):
        async with connect(relay) as connection:
            fields: dict[str, Any] = {}
            tracemalloc.start()
            for _ in range(20):
                await ask(connection, generate=False, instructions="x" * 900_000, **fields)
                fields["previous_response_id"] = (await read(connection))[-1]["response"]["id"]
            kept, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert kept < 6_000_000
            assert relay.hub.admission.bytes < 10_000
            for _ in range(2):
                await ask(connection, generate=False, input="x" * 600_000)
                previous = (await read(connection))[-1]["response"]["id"]
                await ask(connection, input="x" * 600_000, previous_response_id=previous)
                assert "larger" in (await read(connection))[-1]["error"]["message"]
            for _ in range(3):
                await ask(connection, on_disconnect="cancel")
            assert "at once" in (await read(connection))[-1]["error"]["message"]
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_connection_ends_after_an_hour(monkeypatch, caplog):
    monkeypatch.setattr(responses_socket, "LONGEST_S", 0.5)
    pieces: list[Step] = [wait(0.1), send(text("a"))]
    script: list[Step] = [head(), *pieces * 20]
    async with serve_script(script) as (relay, _), connect(relay) as connection:
        for lane in ("", "a", "b"):
            await ask(connection, stream_id=lane)
        last: dict[str, Any] = {}
        while last.get("type") != "error":
            last = json.loads(await connection.recv())
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert "websocket_connection_limit_reached" == last["error"]["code"]
    assert "" == caplog.text
    assert closed.value.rcvd is not None
    assert 1000 == closed.value.rcvd.code


@pytest.mark.proving
async def test_slow_client_gets_all_and_holds_little():
    pieces = [f"{number} ".ljust(50_000, "x") for number in range(200)]
    async with (
        serve_script(answer(*pieces)) as (relay, _),
        connect(relay, max_queue=1, max_size=None) as connection,
    ):
        await ask(connection)
        await until(lambda: relay.hub.load().log_bytes > 9_000_000)
        (served,) = [one for one in relay.server.server_state.connections if hasattr(one, "push")]
        assert cast(Any, served).transport.get_write_buffer_size() < 500_000
        events = await read(connection)

    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert pieces == deltas


async def test_message_that_is_too_large_closes_the_connection():
    async with serve_relay(max_request_bytes=2000) as relay, connect(relay) as connection:
        await ask(connection, input="x" * 3000)
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    assert 1009 == closed.value.rcvd.code


async def test_connections_count_and_a_stop_of_the_relay_closes_them():
    async with serve_relay(max_connections_per_address=4) as relay:
        limits = cast(Any, relay.server.config.http).keywords["limits"]
        async with connect(relay):
            assert 1 <= limits._total
        await until(lambda: limits._total == 0)
        async with connect(relay) as connection:
            relay.server.should_exit = True
            with pytest.raises(ConnectionClosed) as closed:
                await connection.recv()
    assert closed.value.rcvd is not None
    assert 1012 == closed.value.rcvd.code
