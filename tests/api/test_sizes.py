"""Sizes: an agent's session and a large picture pass, and what does not pass says why."""

import asyncio
import base64
import json
import os
from pathlib import Path

import httpx2
import pytest

from app.api.http_settings import HttpSettings
from app.policies.admission import WIDE_FACTOR, Shares
from app.settings import Settings
from app.testing.relay import start_relay
from app.testing.upstream import DONE, FINISH, Hold, Step, answer, event, head, send, text
from tests.serving import HELLO, serve_relay, serve_script
from tests.waiting import until

JSON = {"content-type": "application/json"}
MIB = 2**20


def pictures(size: int, *, said: str = "look") -> bytes:
    """A session of an agent with five screenshots, of so many bytes in all."""
    data = base64.b64encode(os.urandom(size // 5 * 3 // 4)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    content = [{"type": "text", "text": said}, *[part] * 5]
    body = {"model": "openai/m", "messages": [{"role": "user", "content": content}]}
    return json.dumps(body, ensure_ascii=False).encode()


async def test_pictures_of_6_mib_pass_by_default():
    async with serve_script(answer("seen")) as (relay, upstream):
        body = pictures(6 * MIB)
        reply = await relay.client.post("/v1/chat/completions", content=body, headers=JSON)

        assert 200 == reply.status_code
        assert len(upstream.calls[0].body) > 6 * MIB - 100


def test_largest_body_fits_the_memory_for_requests_also_with_wide_characters():
    settings = Settings()

    assert 32 * MIB == settings.max_request_bytes
    assert settings.max_request_bytes * WIDE_FACTOR < Shares().max_request_memory_bytes
    assert settings.max_request_memory_bytes == Shares().max_request_memory_bytes


@pytest.mark.parametrize("announced", [True, False])
async def test_refusal_names_the_size_and_the_setting(announced):
    async def pieces():
        yield b"x" * 3000

    async with serve_relay(max_request_bytes=2000) as relay:
        content = b"x" * 3000 if announced else pieces()
        reply = await relay.client.post("/v1/chat", content=content, headers=JSON)

    assert 413 == reply.status_code
    size = "of 3000 bytes" if announced else "of more than 2000 bytes"
    assert f"the body {size} is larger than the limit of 2000 bytes" in reply.json()["detail"]
    assert "max_request_bytes" in reply.json()["detail"]


async def test_share_of_the_memory_that_is_used_up_is_named_by_its_setting():
    headers = {"x-forwarded-for": "203.0.113.7"}
    body = {**HELLO, "provider_options": {"a": [{}] * 500}}
    async with serve_relay(max_request_memory_bytes=400_000) as relay:
        with relay.hub.admission.receive("203.0.113.7") as memory:
            memory.resize(90_000)
            reply = await relay.client.post("/v1/chat", json=body, headers=headers)

    assert 429 == reply.status_code
    assert "max_request_memory_bytes" in reply.json()["detail"]


class InHalfASecond(HttpSettings, frozen=True):
    body_timeout_s: float = 0.5


@pytest.mark.parametrize(("size", "status"), [(8 * MIB, 200), (1000, 400)])
async def test_body_has_more_time_the_more_of_it_has_come(size, status, monkeypatch):
    """A phone sends 8 MiB in a minute: 30 s for any body would be 1.1 MB/s for the largest."""
    monkeypatch.setattr("app.api.application.HttpSettings", InHalfASecond)
    body = {**HELLO, "model": "demo", "stream": False, "max_tokens": 1}

    async def pieces():
        yield b" " * size
        await asyncio.sleep(0.8)  # measures time
        yield json.dumps(body).encode()

    async with serve_relay() as relay:
        reply = await relay.client.post("/v1/chat", content=pieces(), headers=JSON)

    assert status == reply.status_code
    assert ("too slowly" in reply.text) == (status == 400)


# One event of a provider


def picture(size: int) -> tuple[str, str]:
    """A picture of so many characters of base64, and the event with it."""
    data = base64.b64encode(os.urandom(size * 3 // 4)).decode()
    url = f"data:image/png;base64,{data}"
    return data, event({"images": [{"type": "image_url", "image_url": {"url": url}}]})


@pytest.mark.parametrize("stream", [True, False])
async def test_picture_of_10_mb_in_one_event_arrives_by_default(stream):
    data, said = picture(10_000_000)
    async with serve_script([head(), send(said), send(FINISH + DONE)]) as (relay, _):
        reply = await relay.client.post("/v1/chat", json={**HELLO, "stream": stream})

    assert 200 == reply.status_code
    assert data in reply.text
    assert '"finish_reason":"stop"' in reply.text[-2000:]


async def test_event_that_is_too_large_names_the_settings():
    sizes = {"max_line_bytes": 5000, "max_event_bytes": 5000}
    async with serve_script([head(), send(picture(8000)[1])], **sizes) as (relay, _):
        reply = await relay.client.post("/v1/chat", json=HELLO)

    assert 502 == reply.status_code
    assert "max_line_bytes and max_event_bytes" in reply.json()["detail"]


HALF = picture(3 * MIB)[1][: 2 * MIB]
HALVES = {"stream": HALF, "line": HALF.replace("data: ", ""), "document": HALF[6:]}


@pytest.mark.parametrize("half", HALVES)
async def test_half_an_event_counts_as_memory_until_it_is_whole(half):
    """Else as many streams as may run could hold 64 MiB each."""
    script: list[Step] = [head(), send(HALVES[half]), Hold()]
    async with serve_script(script) as (relay, _):
        before = relay.hub.admission.bytes
        asking = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        await until(lambda: relay.hub.admission.bytes > before + MIB // 2)
        asking.cancel()
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_event_that_is_whole_frees_its_memory():
    data, said = picture(3 * MIB)
    script: list[Step] = [head(), send(said), Hold()]
    async with (
        serve_script(script) as (relay, _),
        relay.client.stream("POST", "/v1/chat", json=HELLO) as reply,
    ):
        seen = b""
        async for piece in reply.aiter_bytes():
            seen += piece
            if data.encode() in seen:
                break
        assert relay.hub.admission.bytes == 0


@pytest.mark.parametrize("first", ["", text("Hi")])
async def test_event_without_room_in_memory_fails_with_the_setting(first):
    script: list[Step] = [head(), send(first + HALF), Hold()]
    async with serve_script(script, max_request_memory_bytes=MIB // 2) as (relay, _):
        reply = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})

        assert 503 == reply.status_code
        assert "max_request_memory_bytes" in reply.json()["detail"]
        assert relay.hub.admission.bytes == 0


# Memory


def peak_mib() -> int:
    """The most memory that the relay, the child of this process, has had."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text()
        if f"PPid:\t{os.getpid()}\n" in text and "VmHWM:" in text:
            peaks.append(int(text.split("VmHWM:")[1].split()[0]) // 1024)
    return max(peaks)


@pytest.mark.proving
@pytest.mark.alone
@pytest.mark.parametrize("said", ["look", "見て"])
def test_a_session_of_28_8_mb_takes_bounded_memory(said):
    body = pictures(28_800_000, said=said)
    with start_relay() as relay:
        before = peak_mib()
        relay.upstream.script = answer("seen")
        body = body.replace(b"openai/m", b"scripted/m")
        reply = httpx2.post(
            f"{relay.api_url}/chat/completions", content=body, headers=JSON, timeout=30
        )
        taken = peak_mib() - before

    assert 200 == reply.status_code
    assert taken < 4 * len(body) / MIB


@pytest.mark.proving
@pytest.mark.alone
def test_a_picture_of_40_mb_takes_bounded_memory():
    data, said = picture(40_000_000)
    with start_relay() as relay:
        before = peak_mib()
        relay.upstream.script = [head(), send(said), send(FINISH + DONE)]
        body = {**HELLO, "model": "scripted/m"}
        reply = httpx2.post(f"{relay.url}/v1/chat", json=body, timeout=60)
        taken = peak_mib() - before

    assert data in reply.text
    assert taken < 6 * len(data) / MIB
