"""Answers that are read on at their provider after a broken connection, on real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.generation import resuming
from app.policies import retry
from app.testing.upstream import (
    LAST_CHUNK,
    Call,
    Hold,
    Reset,
    Step,
    chunk,
    chunked_head,
    reply,
    wait,
)
from tests.api.test_options import configured
from tests.clock import Clock
from tests.serving import HELLO, Relay, chat, read_messages, text_of
from tests.waiting import until

Json = dict[str, Any]
USAGE = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
MESSAGE = {"type": "message", "id": "m1", "role": "assistant", "content": []}
CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "f"}
RESPONSE = {"id": "resp/1", "object": "response", "model": "m-1"}
RESPONSES: list[Json] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "queued"}},
    {"type": "response.output_item.added", "output_index": 0, "item": MESSAGE},
    *(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": one}
        for one in ("せ", "せら", "ら", "ぎ")
    ),
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "response.output_item.added", "output_index": 1, "item": {**CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"},
    {"type": "response.output_item.done", "output_index": 1, "item": {**CALL, "arguments": "{}"}},
    {
        "type": "response.completed",
        "response": {**RESPONSE, "status": "completed", "output": [], "usage": USAGE},
    },
]
TOTALS = {f"total_{name}": value for name, value in USAGE.items() if name != "total_tokens"}
INTERACTIONS: list[Json] = [
    {"event_type": "interaction.created", "interaction": {"id": "resp/1", "model": "m-1"}},
    {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
    *(
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": one}}
        for one in ("せ", "せら", "ら", "ぎ")
    ),
    {"event_type": "step.stop", "index": 0},
    {
        "event_type": "interaction.completed",
        "interaction": {
            "id": "resp/1",
            "status": "completed",
            "usage": {**TOTALS, "total_tokens": 8},
        },
    },
]
ANSWERS: dict[str, list[bytes]] = {
    "openai_responses": [
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), json.dumps({**event, "sequence_number": at}).encode())
        for at, event in enumerate(RESPONSES)
    ],
    "gemini_interactions": [
        b"data: %b\n\n" % json.dumps({**event, "event_id": f"e/{at}"}).encode()
        for at, event in enumerate(INTERACTIONS)
    ],
}
CURSORS = {"openai_responses": "starting_after", "gemini_interactions": "last_event_id"}
DIALECTS = list(ANSWERS)
MIDDLE = 4
"""The events before a cut in mid-answer."""

Stored = Callable[[Sequence[bytes], int], Sequence[Step]]
"""Of the events of an answer, and how many the relay has: the reply to a GET."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "pause", lambda failures, *, chance: 0.0)


def cut(data: bytes, *how: Step) -> list[Step]:
    return [chunked_head(), chunk(data), *how]


def whole(*events: bytes) -> list[Step]:
    return [chunked_head(), *map(chunk, events), LAST_CHUNK]


def serve_rest(events: Sequence[bytes], at: int) -> Sequence[Step]:
    return whole(*events[at:])


class Provider:
    """Cuts its answer, and serves the stored one from a cursor."""

    def __init__(self, dialect: str, first: Sequence[Step], stored: Stored = serve_rest) -> None:
        self.events = ANSWERS[dialect]
        self.first = first
        self.stored = stored
        self.asked: list[Call] = []
        self.calls: list[Call] = []
        self.cancelled: list[str] = []
        self.order: list[str] = []
        self._query = CURSORS[dialect]

    def post(self, call: Call) -> Sequence[Step]:
        self.calls.append(call)
        self.order.append("cancel" if call.path.endswith("/cancel") else "post")
        if call.path.endswith("/cancel"):
            self.cancelled.append(call.path)
            return reply("200 OK", "{}")
        return self.first

    def get(self, call: Call) -> Sequence[Step]:
        self.asked.append(call)
        query = dict(parse_qsl(urlsplit(call.path).query))
        assert "true" == query["stream"]
        return self.stored(self.events, int(query[self._query].removeprefix("e/")) + 1)


@contextlib.asynccontextmanager
async def served(
    folder: Path, dialect: str, *lines: str, **settings: Any
) -> AsyncIterator[tuple[Relay, Callable[..., Provider]]]:
    """Serve a relay, and what makes its upstream a provider."""
    table = ("resume = true", *lines)
    async with configured(folder, *table, dialect=dialect, routes="", **settings) as (
        relay,
        upstream,
    ):

        def play(first: Sequence[Step], stored: Stored = serve_rest) -> Provider:
            provider = Provider(dialect, first, stored)
            upstream.choose, upstream.choose_models = provider.post, provider.get
            return provider

        yield relay, play


def places(events: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Every end of an event, and three places within: how many events are whole before it."""
    before = b"".join(events[:1])
    for number, event in enumerate(events[1:], start=1):
        yield number, before
        for at in (len(event) // 2, len(event) - 3, len(event) - 1):
            yield number, before + event[:at]
        before += event


def shape(events: list[Json]) -> list[Json]:
    """Events without the notice, and without the start, which differs between two runs."""
    return [
        event
        for event in events
        if event["type"] not in ("stream.start", "stream.target")
        and event.get("code") != "upstream_resumed"
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_cut_anywhere_is_the_uncut_answer(tmp_path: Path, dialect: str) -> None:
    async with served(tmp_path, dialect) as (relay, play):
        events = ANSWERS[dialect]
        play(whole(*events))
        expected = shape(await chat(relay, model="u/m"))
        assert "completed" == expected[-1]["status"]
        for how in ([LAST_CHUNK], [], [Reset()]):
            for number, data in places(events):
                provider = play(cut(data, *how))
                received = await chat(relay, model="u/m")

                assert expected == shape(received), (how, number, data)
                notices = [one for one in received if one["type"] == "notice"]
                assert len(provider.asked) == len(notices) <= 1
                assert ["post"] == provider.order


def again_and_again(events: Sequence[bytes], at: int) -> Sequence[Step]:
    return cut(b"".join(events[at : at + 1]))


def once(first: Sequence[Step]) -> Stored:
    """Reply so to the first GET, and as it should be to others."""
    replies = iter([first])
    return lambda events, at: next(replies, None) or serve_rest(events, at)


def in_pieces(events: Sequence[bytes], at: int) -> Sequence[Step]:
    return [
        chunked_head(),
        wait(0.05),
        chunk(events[at]),
        wait(0.05),
        *whole(*events[at + 1 :])[1:],
    ]


READ_ON: dict[str, tuple[Callable[[], Stored], int]] = {
    "from the event received last": (lambda: lambda events, at: whole(*events[at - 1 :]), 1),
    "from the first event": (lambda: lambda events, at: whole(*events), 1),
    "in one write, from the first event": (lambda: lambda events, at: whole(b"".join(events)), 1),
    "and cut after every event": (lambda: again_and_again, 0),
    "and cut at once": (lambda: once([chunked_head(), LAST_CHUNK]), 2),
    "and reset before an answer": (lambda: once([Reset()]), 2),
    "in pieces": (lambda: in_pieces, 1),
    "after an overload": (lambda: once(reply("503 Busy", "{}")), 2),
}
"""By what a GET brings: the replies, and how many there are; 0 for one an event."""


@pytest.mark.parametrize("case", READ_ON)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_is_repeated_or_lost(tmp_path: Path, dialect: str, case: str) -> None:
    stored, calls = READ_ON[case]
    events = ANSWERS[dialect]
    async with served(tmp_path, dialect) as (relay, play):
        play(whole(*events))
        expected = shape(await chat(relay, model="u/m"))
        # The last event before the cut lacks its end, so that it is parsed with the failure.
        provider = play(cut(b"".join(events[:MIDDLE])[:-1]), stored())
        received = await chat(relay, model="u/m")

    assert expected == shape(received)
    before = received[: next(i for i, one in enumerate(received) if one["type"] == "notice")]
    assert "せせら" == text_of(before)
    assert (calls or len(events) - MIDDLE) == len(provider.asked)
    assert ["post"] == provider.order


REFUSED = {
    "it is gone": reply("404 Not Found", "{}"),
    "it is too old": reply("400 Bad Request", '{"error": {}}'),
    "it is not for this key": reply("403 Forbidden", "{}"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_whose_rest_is_refused_is_cut_and_left_at_its_provider(
    tmp_path: Path, dialect: str, case: str
) -> None:
    async with served(tmp_path, dialect) as (relay, play):
        provider = play(cut(b"".join(ANSWERS[dialect][:MIDDLE])), lambda *_: REFUSED[case])
        events = await chat(relay, model="u/m")

    assert "せせら" == text_of(events)
    assert ("failed", "upstream_truncated") == (events[-1]["status"], events[-1]["error"]["code"])
    assert 1 == len(provider.asked)
    assert ["post"] == provider.order


FAILS: dict[str, Stored] = {
    "nothing follows": lambda events, at: whole(),
    "no connection": lambda events, at: [Reset()],
    "an overload": lambda events, at: reply("503 Busy", "{}"),
    "a rate limit": lambda events, at: reply("429 Slow", "{}"),
    "a gateway's page": lambda events, at: reply("200 OK", "<p>", content_type="text/html"),
    "no head": lambda events, at: [Hold()],
}


def failing(times: int, how: Stored) -> Stored:
    """Fail so often, and then reply as it should be."""
    left = [times]

    def stored(events: Sequence[bytes], at: int) -> Sequence[Step]:
        left[0] -= 1
        return (serve_rest if left[0] < 0 else how)(events, at)

    return stored


@pytest.mark.parametrize("case", FAILS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_provider_that_fails_for_a_while_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, case: str
) -> None:
    monkeypatch.setattr(resuming, "HEAD_S", 0.03)
    async with served(tmp_path, dialect) as (relay, play):
        provider = play(cut(b"".join(ANSWERS[dialect][:MIDDLE])), failing(12, FAILS[case]))
        events = await chat(relay, model="u/m")

    assert ("completed", "せせららぎ") == (events[-1]["status"], text_of(events))
    assert 13 == len(provider.asked)
    assert ["post"] == provider.order


@pytest.mark.parametrize("case", FAILS)
async def test_a_provider_that_fails_until_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(resuming, "HEAD_S", 0.03)
    events = ANSWERS["openai_responses"]
    async with served(tmp_path, "openai_responses", event_gap_timeout_s=0.2) as (relay, play):
        provider = play(cut(b"".join(events[:MIDDLE])), FAILS[case])
        received = await chat(relay, model="u/m")
        await until(lambda: provider.cancelled)

    assert ("upstream_timeout", "せせら") == (received[-1]["error"]["code"], text_of(received))
    assert len(provider.asked) > 2
    assert ["post", "cancel"] == provider.order
    assert provider.cancelled[0].endswith("/resp%2F1/cancel")


async def test_minutes_without_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "pause", retry.pause)
    clock = Clock(monkeypatch)
    events = ANSWERS["openai_responses"]
    began = asyncio.get_running_loop().time()

    def stored(events: Sequence[bytes], at: int) -> Sequence[Step]:
        away = asyncio.get_running_loop().time() < began + 240
        return reply("503 Busy", "{}") if away else serve_rest(events, at)

    async with served(tmp_path, "openai_responses", clock=clock) as (relay, play):
        provider = play(cut(b"".join(events[:MIDDLE])), stored)
        async with clock.hurrying(1):
            received = await chat(relay, model="u/m")

    assert ("completed", "せせららぎ") == (received[-1]["status"], text_of(received))
    assert 30 < len(provider.asked) < 80
    assert ["post"] == provider.order


async def test_an_error_of_the_provider_is_final(tmp_path: Path) -> None:
    error = b'data: {"type": "error", "sequence_number": 4, "message": "no"}\n\n'
    async with served(tmp_path, "openai_responses") as (relay, play):
        events = ANSWERS["openai_responses"]
        provider = play(cut(b"".join(events[:MIDDLE]) + error))
        received = await chat(relay, model="u/m")

    assert "failed" == received[-1]["status"]
    assert [] == provider.asked


REFUSALS = {
    "/v1/chat": {**HELLO, "store": False},
    "/v1/responses": {"input": "Hi", "store": False, "stream": True},
}


@pytest.mark.parametrize("path", REFUSALS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_that_refuses_to_have_it_stored(
    tmp_path: Path, dialect: str, path: str
) -> None:
    async with served(tmp_path, dialect) as (relay, play):
        provider = play(cut(b"".join(ANSWERS[dialect][:MIDDLE])))
        async with relay.client.stream(
            "POST", path, json={**REFUSALS[path], "model": "u/m"}
        ) as response:
            messages = await read_messages(response, cut=None)
        [call] = provider.calls

    assert "upstream_truncated" in messages[-1].data
    assert [] == provider.asked
    assert (False, None) == (call.json["store"], call.json.get("background"))
    assert ["post"] == provider.order


async def test_a_client_of_the_same_format(tmp_path: Path) -> None:
    events = ANSWERS["openai_responses"]
    body = {
        "model": "u/m",
        "input": "Hi",
        "stream": True,
        "background": True,
        "store": True,
        "include": ["reasoning.encrypted_content"],
    }
    async with served(tmp_path, "openai_responses") as (relay, play):
        provider = play(cut(b"".join(events[:MIDDLE]) + events[MIDDLE][:30]))
        async with relay.client.stream("POST", "/v1/responses", json=body) as response:
            received = [json.loads(one.data) for one in await read_messages(response)]
        [call] = provider.calls

    deltas = [one["delta"] for one in received if one["type"] == "response.output_text.delta"]
    assert "せせららぎ" == "".join(deltas)
    assert "response.completed" == received[-1]["type"]
    assert [*range(len(received))] == [one["sequence_number"] for one in received]
    assert {**body, "model": "m"} == call.json
    [get] = provider.asked
    assert get.path.endswith(
        "/responses/resp%2F1?stream=true&starting_after=3&include%5B%5D=reasoning.encrypted_content"
    )


async def test_calls_about_an_answer_are_of_its_project(tmp_path: Path) -> None:
    headers = {"openai-project": "p-1", "idempotency-key": "k-1"}
    async with served(tmp_path, "openai_responses", 'options = ["*"]') as (relay, play):
        provider = play(cut(ANSWERS["openai_responses"][0]), lambda *_: REFUSED["it is gone"])
        body = {"model": "u/m", "input": "Hi"}
        await relay.client.post("/v1/responses", json=body, headers=headers)
        await until(lambda: provider.cancelled)

    calls = [provider.calls[0], *provider.asked, provider.calls[-1]]
    assert ["p-1"] * 3 == [call.headers.get("openai-project") for call in calls]
    assert [None] * 2 == [call.headers.get("idempotency-key") for call in calls[1:]]


async def test_a_stop_while_reading_on_cancels_the_answer(tmp_path: Path) -> None:
    events = ANSWERS["openai_responses"]
    async with served(tmp_path, "openai_responses") as (relay, play):
        provider = play(cut(b"".join(events[:MIDDLE])), lambda events, at: [Hold()])
        async with relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "u/m"}
        ) as response:
            await until(lambda: provider.asked)
            await relay.client.delete(f"/v1/streams/{response.headers['stream-id']}")
            received = [json.loads(one.data) for one in await read_messages(response)]

    assert ("cancelled", "せせら") == (received[-1]["status"], text_of(received))
    assert ["post", "cancel"] == provider.order


@pytest.mark.parametrize("leaves", [True, False], ids=["the client leaves", "a deadline"])
async def test_an_unread_answer_is_cancelled(tmp_path: Path, leaves: bool) -> None:
    events = ANSWERS["openai_responses"]
    timeout = {} if leaves else {"idle_timeout_s": 0.2}
    async with served(tmp_path, "openai_responses", linger_s=0, **timeout) as (relay, play):
        provider = play([chunked_head(), chunk(b"".join(events[:MIDDLE])), Hold()])
        async with relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "u/m", "on_disconnect": "cancel"}
        ) as response:
            if not leaves:
                messages = await read_messages(response)
                assert "upstream_timeout" in messages[-1].data
        await until(lambda: provider.cancelled)

    assert [] == provider.asked


async def test_an_answer_that_cannot_begin_is_cancelled_before_another(tmp_path: Path) -> None:
    events = ANSWERS["openai_responses"]
    async with served(tmp_path, "openai_responses", attempts=2) as (relay, play):
        provider = play(cut(events[0]), lambda events, at: reply("404 Not Found", "{}"))
        response = await relay.client.post("/v1/chat", json={**HELLO, "model": "u/m"})
        await until(lambda: ["post", "cancel", "post", "cancel"] == provider.order)

    assert (502, "upstream_truncated") == (response.status_code, response.json()["code"])


async def test_an_answer_that_another_call_continues_is_cancelled(tmp_path: Path) -> None:
    events = ANSWERS["openai_responses"]
    route = '[[route]]\nname = "r"\ntargets = ["u/m"]\nrescue = true\nattempts = 2\n'
    async with served(tmp_path, "openai_responses", route, attempts=2) as (relay, play):
        provider = play(cut(b"".join(events[:MIDDLE])), lambda *_: REFUSED["it is too old"])
        await chat(relay, model="r")
        await until(lambda: len(provider.order) > 2)

    assert ["post", "cancel", "post"] == provider.order[:3]
