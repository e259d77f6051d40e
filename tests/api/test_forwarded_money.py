"""The cost of forwarded calls that end early, or whose answers have no usage."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.dialects.forwarded import CALLS, Call, parse_json
from app.errors import RequestError
from app.ledger.config import LedgerConfig, PriceConfig
from app.testing.upstream import (
    LAST_CHUNK,
    Hold,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    wait,
)
from tests.api.test_call_money import rows, serve, settled
from tests.api.test_forwarding import BODIES, FIELDS, FILE, FORM, MODEL, ask, serve_route
from tests.clock import Clock
from tests.serving import Relay

PRICES = (PriceConfig(target="openai/*", input=2, output=3, request=0.001, version="list"),)
FEE = 1_000_000
PIECE = b"\0" * 3000
TYPES = {"speech": "audio/wav", "transcriptions": "text/plain", "translations": "text/plain"}

INPUTS = {
    **{"moderations": 13, "rerank": 19, "images": 16, "image_edits": 6605},
    **{"speech": 20, "transcriptions": 10, "translations": 10},
}
"""The estimated input of each call."""

WHOLE = {"images": 2 * 6208, "image_edits": 6208}
UNSEEN = {**WHOLE, "speech": 20 * 12, "transcriptions": 2000, "translations": 2000}
"""The output that a provider may have made before its first byte, by call; 0 for others."""

SEEN = {**WHOLE, "speech": 3000 // 1500, "transcriptions": 1000, "translations": 1000}
"""That of the bytes in `PIECE`; an image is made whole before its first byte."""


def path_of(call: Call) -> str:
    return f"/v1/{call.path}"


def head_of(call: Call) -> Step:
    return chunked_head(content_type=TYPES.get(call.kind, "application/json"))


async def leave(relay: Relay, call: Call) -> None:
    """Leave a call once the first bytes of its answer are here."""
    path = path_of(call)
    body: dict[str, Any] = {"data": FIELDS, "files": FILE}
    if not call.form:
        body = {"json": {"model": MODEL, **BODIES[call.path]}}
    async with relay.client.stream("POST", path, **body) as answer:
        assert 200 == answer.status_code
        await anext(answer.aiter_raw())


STEPS: dict[str, tuple[str, dict[str, int]]] = {
    "left before the head": ("", UNSEEN),
    "left after the head": ("head", UNSEEN),
    "left in the body": ("head body", SEEN),
    "late before the head": ("", UNSEEN),
    "late after the head": ("head", UNSEEN),
    "late in the body": ("head body", SEEN),
    "stopped before the head": ("", UNSEEN),
    "stopped in the body": ("head body", SEEN),
    "failed before the head": ("", {}),
    "failed after the head": ("head", {}),
    "failed in the body": ("head body", SEEN),
}


@pytest.mark.parametrize("case", STEPS)
@pytest.mark.parametrize("call", CALLS, ids=[call.kind for call in CALLS])
async def test_call_that_ends_early_costs_what_may_have_been_made(
    call: Call, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, outputs = STEPS[case]
    how, where = case.split(" ", 1)
    script: list[Step] = [
        *([head_of(call)] if "head" in steps else []),
        *([chunk(PIECE)] if "body" in steps else []),
        wait(0.03) if how == "failed" else Hold(),
    ]
    limits: dict[str, Any] = {"first_event_timeout_s": 5, "idle_timeout_s": 5}
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES, **limits) as relay:
        upstream.script = script
        late = Clock(monkeypatch).hurrying() if how == "late" else contextlib.nullcontext()
        async with late:
            if (how, where) == ("left", "in the body"):
                await leave(relay, call)
            else:
                asking = asyncio.create_task(ask(relay, path_of(call)))
                await asyncio.wait_for(upstream.called.wait(), 20)
                await asyncio.sleep(0.02)
                (running,) = await relay.accounts.read_accounts(["relay"])
                if how == "left":
                    asking.cancel()
                elif how == "stopped":
                    await relay.hub.drain(0)
                with contextlib.suppress(asyncio.CancelledError, httpx2.RemoteProtocolError):
                    answer = await asking
                    assert how != "left"
                    assert 500 <= answer.status_code
            state = await settled(relay)
        (row,) = await rows(relay)

    inputs, output = INPUTS[call.kind], outputs.get(call.kind, 0)
    assert (inputs, output, "estimate") == (row.input_tokens, row.output_tokens, row.usage_from)
    assert (row.nano_usd, 0) == (state.day.nano_usd, state.day.held_nano_usd)
    assert FEE + 2000 * inputs + 3000 * output == row.nano_usd
    if case != "left in the body":
        assert how == "failed" or running.day.held_nano_usd >= row.nano_usd
    assert ("cancelled" if how in ("left", "stopped") else "failed") == row.status


@pytest.mark.parametrize("script", [reply("500 Broken", "{}"), reply("429 Slow", "{}")])
@pytest.mark.parametrize("call", CALLS, ids=[call.kind for call in CALLS])
async def test_call_that_is_refused_costs_nothing(call: Call, script: list[Step]) -> None:
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES) as relay:
        upstream.script = script
        await ask(relay, path_of(call))
        state = await settled(relay)

    assert (0, 0) == (state.day.nano_usd, state.day.held_nano_usd)


IMAGES = "/v1/images/generations"
SPEECH = "/v1/audio/speech"
WAV = b"\0" * 150_001
EVENTS = "text/event-stream"


@pytest.mark.parametrize(
    ("path", "media_type", "body", "output"),
    [
        (IMAGES, "application/json", '{"data": [{"b64_json": "eA=="}]}', 2 * 6208),
        (IMAGES, "application/json", '{"data": [], "usage": {}}', 2 * 6208),
        (IMAGES, "application/json", '{"usage": {"output_tokens": 0}}', 0),
        (IMAGES, EVENTS, 'data: {"b64_json": "eA=="}\n\n', 2 * 6208),
        (SPEECH, "audio/wav", WAV, 101),
        (SPEECH, "Audio/MPEG; x=1", WAV, 391),
        (SPEECH, "audio/ogg", WAV, 782),
        (SPEECH, "audio/ogg", WAV * 20, 12_500),
        (SPEECH, EVENTS, 'data: {"type": "speech.audio.done"}\n\n' * 50, 10),
        (FORM, "application/json", json.dumps({"text": "a" * 289}), 101),
        (FORM, "text/plain", "a" * 100_000, 2000),
        ("/v1/moderations", "application/json", "{}", 0),
        ("/v1/rerank", "application/json", '{"results": []}', 0),
    ],
)
async def test_output_without_usage_is_estimated(
    path: str, media_type: str, body: str | bytes, output: int
) -> None:
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES) as relay:
        upstream.script = reply("200 OK", body, media_type)
        await ask(relay, path)
        state = await settled(relay)
        (row,) = await rows(relay)

    inputs = INPUTS[next(call.kind for call in CALLS if path_of(call) == path)]
    assert ("completed", inputs, output) == (row.status, row.input_tokens, row.output_tokens)
    assert "estimate" == row.usage_from
    assert FEE + 2000 * inputs + 3000 * output == row.nano_usd == state.day.nano_usd


AUDIO = (PriceConfig(target="openai/*", input=2, audio_input=6, output=3, audio_output=12),)


@pytest.mark.parametrize(
    ("path", "nano"), [(FORM, 10 * 6000 + 1000 * 3000), (SPEECH, 20 * 2000 + 2 * 12_000)]
)
async def test_estimated_sound_has_the_price_of_sound(path: str, nano: int) -> None:
    call = next(call for call in CALLS if path_of(call) == path)
    async with serve_upstream() as upstream, serve(upstream, prices=AUDIO) as relay:
        upstream.script = reply("200 OK", PIECE, TYPES[call.kind])
        await ask(relay, path)
        state = await settled(relay)

    assert nano == state.day.nano_usd


async def test_usage_of_speech_is_sound() -> None:
    usage = {"input_tokens": 10, "output_tokens": 100, "total_tokens": 110}
    done = f"data: {json.dumps({'type': 'speech.audio.done', 'usage': usage})}\n\n"
    async with serve_upstream() as upstream, serve(upstream, prices=AUDIO) as relay:
        upstream.script = [chunked_head(content_type=EVENTS), chunk(done), LAST_CHUNK]
        await ask(relay, SPEECH)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert ("provider", 10 * 2000 + 100 * 12_000) == (row.usage_from, state.day.nano_usd)


async def test_sound_of_stated_length_was_made_before_it_was_sent() -> None:
    speech = next(call for call in CALLS if call.kind == "speech")
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES) as relay:
        upstream.script = [
            head(content_type="audio/wav", content_length="150000"),
            send(PIECE),
            Hold(),
        ]
        await leave(relay, speech)
        await settled(relay)
        (row,) = await rows(relay)

    assert (20, 100, "cancelled") == (row.input_tokens, row.output_tokens, row.status)


@pytest.mark.parametrize("first", [[Hold()], [head(content_length="9"), wait(0.03)], []])
async def test_output_is_counted_for_one_attempt_only(
    first: list[Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"first_event_timeout_s": 5, "keeps_rows": True}
    async with (
        serve_route(tmp_path, monkeypatch, ledger=LedgerConfig(), **settings) as (relay, one, two),
        Clock(monkeypatch).hurrying(),
    ):
        one.script, two.script = first, reply("200 OK", "{}")
        body = {"model": "both", **BODIES["images/generations"]}
        assert 200 == (await relay.client.post(IMAGES, json=body)).status_code
        await settled(relay)
        (row,) = await rows(relay)

    assert (1, 1) == (len(one.calls), len(two.calls))
    assert (2, 2 * 15, 2 * 6208) == (row.attempts, row.input_tokens, row.output_tokens)


@pytest.mark.pure
@pytest.mark.parametrize("n", ['"10"', "[10]", "true", "2.5", "3.0", "0", "101", "-3", "{}"])
def test_number_of_images_that_is_none_is_refused(n: str) -> None:
    images = next(call for call in CALLS if call.kind == "images")
    with pytest.raises(RequestError, match=r"^n: "):
        parse_json(images, f'{{"model": "m", "n": {n}}}'.encode())


@pytest.mark.pure
@pytest.mark.parametrize(("n", "images"), [("null", 1), ("3", 3), ("100", 100)])
def test_number_of_images_is_reserved(n: str, images: int) -> None:
    call = next(call for call in CALLS if call.kind == "images")
    request = parse_json(call, f'{{"model": "m", "n": {n}}}'.encode())
    assert images * 6208 == request.output_tokens
