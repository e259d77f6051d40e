"""The demo on the wire: form, errors, reads, pauses, closing."""

import asyncio
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from app.demo import MODELS, DemoTransport
from app.demo.renderer import DROP_AFTER
from app.framing import sse
from tests.demo.client import ENGLISH, JAPANESE, URL, asked, client, post, stream, stream_again
from tests.waiting import until

pytestmark = pytest.mark.pure

STREAMING = [name for name in MODELS if name != "demo-error"]


@pytest.mark.parametrize("model", STREAMING)
async def test_the_same_request_gives_the_same_reads(model):
    first, again = stream(asked(model)), stream_again(asked(model))

    assert (await first).reads == (await again).reads


@pytest.mark.parametrize("model", [name for name in STREAMING if name != "demo-drop"])
async def test_a_stream_is_role_tokens_finish_and_done(model):
    streamed = await stream(asked(model))
    deltas = streamed.deltas()

    assert streamed.error is None
    assert streamed.data[-1] == "[DONE]"
    assert streamed.data.count("[DONE]") == 1
    assert deltas[0]["role"] == "assistant"
    assert deltas[-1] == {}
    assert len(streamed.finish_reasons()) == 1
    assert {chunk["object"] for chunk in streamed.chunks} == {"chat.completion.chunk"}
    assert {chunk["model"] for chunk in streamed.chunks} == {model}
    assert len({(chunk["id"], chunk["created"]) for chunk in streamed.chunks}) == 1


@pytest.mark.parametrize("model", ["demo", "demo-reasoning", "demo-tools"])
async def test_usage_comes_last_and_counts_the_tokens(model):
    *others, last = (await stream(asked(model))).chunks
    usage = last["usage"]
    thoughts = sum(bool(c["choices"][0]["delta"].get("reasoning_content")) for c in others)
    heads = 2 if model == "demo-tools" else 0  # a call's first chunk carries no arguments

    assert last["choices"] == []
    assert all(chunk["usage"] is None for chunk in others)
    assert usage["completion_tokens"] == len(others) - 2 - heads
    assert usage["prompt_tokens"] > 0
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    details = usage.get("completion_tokens_details", {})
    assert details.get("reasoning_tokens", 0) == thoughts


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("words", [ENGLISH, JAPANESE])
async def test_demo_drop_breaks_inside_a_character(words):
    whole = await stream(asked("demo", words))
    dropped = await stream(asked("demo-drop", words))

    assert dropped.error is not None
    assert dropped.deltas() == whole.deltas()[: 1 + DROP_AFTER]
    assert dropped.finish_reasons() == []
    assert not is_utf8(dropped.body)
    assert is_utf8(dropped.body[:-2])


class Clock:
    """Adds up the pauses of a demo instead of waiting for them."""

    now = 0.0

    async def pause(self, seconds: float, closed: asyncio.Event) -> None:
        self.now += seconds

    def client(self) -> httpx2.AsyncClient:
        return client(DemoTransport(pause=self.pause))


async def timed(model: str, **fields: Any) -> list[tuple[float, bytes]]:
    """Return when each read of an answer came."""
    clock = Clock()
    async with (
        clock.client() as http,
        http.stream("POST", URL, json=asked(model, **fields)) as response,
    ):
        return [(clock.now, read) async for read in response.aiter_raw()]


@pytest.mark.parametrize(
    ("model", "first", "token"),
    [("demo", 0.25, 0.025), ("demo-slow", 3.0, 0.25), ("demo-long", 0.25, 0.005)],
)
async def test_the_usual_pace(model, first, token):
    decoder = sse.Decoder()
    messages = [(at, m) for at, read in await timed(model) for m in decoder.feed(read)]
    seen = [at for at, message in messages if '"content"' in message.data]

    assert seen[1] == pytest.approx(first, abs=token)  # [0] is the role's
    assert seen[-1] == pytest.approx(first + token * (len(seen) - 2), abs=token)


async def test_demo_pause_is_silent_for_four_minutes_but_for_keep_alives():
    seen = await timed("demo-pause")
    said = [at for at, read in seen if b'"content"' in read]
    longest = max(later - earlier for earlier, later in pairwise(said))
    assert longest == pytest.approx(240, abs=1)
    assert 1 == sum(later - earlier > 1 for earlier, later in pairwise(said))
    assert 2.1 > max(later - earlier for (earlier, _), (later, _) in pairwise(seen))
    assert 9 <= sum(at < 1 for at in said) <= 12


async def test_closing_early_stops_at_once():
    async with (
        asyncio.timeout(20),
        client(DemoTransport(pace=0.004)) as http,
        http.stream("POST", URL, json=asked("demo-pause")) as response,
    ):
        reads = response.aiter_raw()
        assert b"assistant" in await anext(reads)
        await response.aclose()

        assert [] == [read async for read in reads]


class Waited(DemoTransport):
    """A slow demo that tells when it has begun to wait."""

    def __init__(self) -> None:
        super().__init__(pause=self.wait)
        self.waits = False

    async def wait(self, seconds: float, closed: asyncio.Event) -> None:
        self.waits = True
        await closed.wait()


async def test_closing_ends_a_pause_of_another_task():
    demo = Waited()
    async with (
        asyncio.timeout(20),
        client(demo) as http,
        http.stream("POST", URL, json=asked()) as response,
    ):
        reading = asyncio.create_task(response.aread())
        await until(lambda: demo.waits)
        await response.aclose()

        assert await reading == b""


async def test_the_models_are_listed():
    async with client() as http:
        response = await http.get("http://demo/v1/models")

    assert response.json()["object"] == "list"
    assert [model["id"] for model in response.json()["data"]] == list(MODELS)


MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not JSON"),
        (b'{"model": "\xff"}', "not JSON"),
        (b'{"tools": [{"function": {"parameters": {"x": ' + b"[" * 100_000, "nested too deeply"),
        ({"messages": MESSAGES}, "`model`"),
        ({"model": "demo", "messages": []}, "length >= 1 - at `$.messages`"),
        (asked(messages=[{"role": "bot"}]), "$.messages[0].role"),
        (asked(stop=["1", "2", "3", "4", "5"]), "$.stop"),
        (asked(tools=[{"type": "function"}]), "$.tools[0]"),
    ],
)
async def test_an_invalid_request_is_told_what_is_wrong(body, named):
    response = await post(body)
    error = response.json()["error"]

    assert response.status_code == 400
    assert error["type"] == "invalid_request_error"
    assert named in error["message"]


async def test_an_unknown_model_is_not_found():
    response = await post(asked("gpt-5"))

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert "'gpt-5'" in response.json()["error"]["message"]
    assert "demo-drop" in response.json()["error"]["message"]


@pytest.mark.parametrize(("path", "status"), [("/v1/files", 404), ("/v1/models", 405)])
async def test_other_paths_and_methods_are_refused(path, status):
    response = await post(asked(), path)

    assert response.status_code == status
    assert path in response.json()["error"]["message"]
