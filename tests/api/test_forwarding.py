"""Calls that are forwarded to the provider, and whose answers come back as they come."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import cohere
import httpx
import httpx2
import openai
import pytest

from app.api import endpoints
from app.dialects import forwarded
from app.dialects.forwarded import CALLS, TAIL_BYTES, UsageReader, parse_json
from app.errors import RequestError
from app.events import TokenCounts
from app.framing.multipart import parse_form
from app.generation import forwarded_call
from app.ledger.config import PriceConfig, UsageLimits
from app.testing.upstream import (
    LAST_CHUNK,
    Call,
    Hold,
    Step,
    Until,
    Upstream,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    wait,
)
from app.upstreams.http import HttpClient
from app.upstreams.http_call import HttpCall, HttpReply
from tests.api.test_call_money import rows, serve, settled
from tests.clock import Clock
from tests.serving import Relay, serve_relay, serve_script

KEY = "sk-test-0123456789"
MODEL = "openai/m-1"
FORM = "/v1/audio/transcriptions"
FORMS = {f"/v1/{call.path}" for call in CALLS if call.form}
EDITS = "/v1/images/edits"
BODIES: dict[str, dict[str, Any]] = {
    "moderations": {"input": ["a", {"type": "text"}]},
    "rerank": {"query": "a", "documents": ["b", {"text": "c"}], "top_n": 1},
    "images/generations": {"prompt": "a cat", "n": 2, "size": "1024x1024"},
    "audio/speech": {"input": "hello", "voice": "alloy", "response_format": "wav"},
}
FIELDS = {"model": MODEL, "language": "en", "timestamp_granularities[]": "word"}
SOUND = bytes(range(256)) * 40
FILE = {"file": ("a.wav", SOUND, "audio/wav")}
IMAGE = {"model": MODEL, "prompt": "a cat"}


async def ask(relay: Relay, path: str, **how: Any) -> httpx2.Response:
    if path in FORMS:
        return await relay.client.post(path, data=FIELDS, files=FILE, **how)
    body = {"model": MODEL, **BODIES[path[4:]]}
    return await relay.client.post(path, json=body, **how)


async def read_cut(relay: Relay, path: str) -> bytes:
    """Return the bytes of an answer that begins, and is broken off."""
    body = {"model": MODEL, **BODIES[path[4:]]}
    read = b""
    async with relay.client.stream("POST", path, json=body) as answer:
        assert 200 == answer.status_code
        with contextlib.suppress(httpx2.RemoteProtocolError):
            async for piece in answer.aiter_bytes():
                read += piece
            pytest.fail("it ended as if it were complete")
    return read


def form_of(call: Call) -> dict[str, bytes]:
    parts = parse_form(call.body, call.headers["content-type"])
    return {part.name: bytes(part.content) for part in parts}


PATHS = [path for call in CALLS for path in call.paths]


@pytest.mark.parametrize("path", PATHS)
async def test_bytes_go_there_and_come_back(path: str):
    odd = b'{ "x":1.50,\n"usage" :7 }' + bytes(range(256)) * 500
    async with serve_script(reply("200 OK", odd, "x/odd; a=1")) as (relay, upstream):
        answer = await ask(relay, path)
        listening = await ask(relay, path, headers={"origin": "http://localhost:3000"})

    [call, _] = upstream.calls
    assert (200, odd, "x/odd; a=1") == (
        *(answer.status_code, answer.content),
        answer.headers["content-type"],
    )
    assert "no-store, no-transform" == answer.headers["cache-control"]
    assert "http://localhost:3000" == listening.headers["access-control-allow-origin"]
    assert (path.replace("/v2/", "/v1/"), f"Bearer {KEY}") == (
        call.path,
        call.headers["authorization"],
    )
    assert "via" in call.headers
    assert not {"stream-id", "content-location", "seseragi-ignored"} & set(answer.headers)
    if path in FORMS:
        sent = {name: value.encode() for name, value in FIELDS.items()}
        assert {**sent, "model": b"m-1", "file": SOUND} == form_of(call)
        assert b'filename="a.wav"\r\ncontent-type: audio/wav' in call.body
    else:
        assert {"model": "m-1", **BODIES[path[4:]]} == call.json


async def test_only_the_model_of_a_body_is_another():
    """And fields that are not the call's are written as they were read, to be checked."""
    body = (
        b'{"prompt": "\\u00e9 \xc3\xa9", "model":"openai/a/b" , "size" :1.0, "quality": [ 1 ,2.50]'
    )
    body += b', "x": [ 1 ,2.50]}'
    async with serve_script(reply("200 OK", "{}")) as (relay, upstream):
        headers = {"content-type": "application/json"}
        await relay.client.post("/v1/images/generations", content=body, headers=headers)

    expected = b'{"prompt":"\\u00e9 \xc3\xa9","model":"a/b","size":1.0,"quality":[ 1 ,2.50]'
    expected += b',"x":[1,2.5]}'
    assert expected == upstream.calls[0].body


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_official_client_uses_them(tmp_path: Path):
    image = {"created": 1, "data": [{"b64_json": "eA=="}]}
    done = {"type": "image_generation.completed", "b64_json": "eA=="}
    moderation = {"id": "m", "model": "m-1", "results": []}
    sound = tmp_path / "a.wav"
    sound.write_bytes(SOUND)
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream) as relay,
        openai.AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0) as sdk,
    ):
        upstream.script = reply("200 OK", json.dumps(moderation))
        assert [] == (await sdk.moderations.create(model=MODEL, input="a")).results
        upstream.script = reply("200 OK", json.dumps(image))
        made = await sdk.images.generate(model=MODEL, prompt="a cat")
        assert made.data is not None
        assert "eA==" == made.data[0].b64_json
        upstream.script = reply(
            "200 OK",
            f"event: {done['type']}\ndata: {json.dumps(done)}\n\n",
            "text/event-stream",
        )
        stream = await sdk.images.generate(model=MODEL, prompt="a cat", stream=True)
        assert [done["type"]] == [event.type async for event in stream]
        upstream.script = reply("200 OK", SOUND, "audio/wav")
        async with sdk.audio.speech.with_streaming_response.create(
            model=MODEL, input="hello", voice="alloy"
        ) as speech:
            assert SOUND == await speech.read()
        upstream.script = reply("200 OK", '{"text": "hello"}')
        text = await sdk.audio.transcriptions.create(model=MODEL, file=sound)
        assert "hello" == text.text
        assert "hello" == (await sdk.audio.translations.create(model=MODEL, file=sound)).text
        upstream.script = reply("200 OK", json.dumps(image))
        edited = await sdk.images.edit(model=MODEL, image=[sound, sound], prompt="a hat", n=2)
        assert edited.data is not None
        assert "eA==" == edited.data[0].b64_json
        upstream.script = reply("400 Bad", '{"error": {"message": "no voice", "param": "voice"}}')
        with pytest.raises(openai.BadRequestError, match="no voice"):
            await sdk.audio.speech.create(model=MODEL, input="hello", voice="none")


@pytest.mark.parametrize(
    ("dialect", "path"), [("openai_responses", "/v1/rerank"), ("cohere", "/v1/v2/rerank")]
)
async def test_formats_have_paths_of_their_own(dialect: str, path: str):
    async with serve_script(reply("200 OK", "{}"), dialect=dialect) as (relay, upstream):
        assert 200 == (await ask(relay, "/v1/rerank")).status_code
        images = await ask(relay, "/v1/images/generations")

    assert path == upstream.calls[0].path
    assert (200 if dialect == "openai_responses" else 400) == images.status_code
    if images.status_code == 400:
        assert "does not support /v1/images/generations" in images.json()["error"]["message"]


async def test_coheres_client_reranks_by_its_defaults():
    ranked = {"id": "1", "results": [{"index": 1, "relevance_score": 0.9}]}
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = reply("200 OK", json.dumps(ranked))
        async with httpx.AsyncClient(trust_env=False) as http:
            client = cohere.AsyncClientV2("k", base_url=relay.url, httpx_client=http)
            found = await client.rerank(model=MODEL, query="a", documents=["b", "c"], top_n=1)
            assert [1] == [one.index for one in found.results]
            assert "/v1/rerank" == upstream.calls[0].path


MODERATIONS = {
    "one provider": (
        "[upstream.a]\nbase_url = '{url}'\nkey_env = 'KEY'\n",
        "omni-moderation-latest",
    ),
    "OpenAI and another": (
        "[upstream.b]\nbase_url = 'http://127.0.0.1:9/v1'\nkey_env = 'KEY'\n"
        "[upstream.openai]\nbase_url = '{url}'\nkey_env = 'KEY'\n",
        "omni-moderation-latest",
    ),
    "a route of its name": (
        "[upstream.a]\nbase_url = '{url}'\nkey_env = 'KEY'\n"
        "[[route]]\nname = 'omni-moderation-latest'\ntargets = ['a/own']\n",
        "own",
    ),
}


@pytest.mark.parametrize("case", MODERATIONS)
async def test_moderations_need_no_model(case: str, tmp_path: Path):
    tables, model = MODERATIONS[case]
    config = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream:
        config.write_text(tables.format(url=upstream.base_url))
        async with serve_relay(environ={"SESERAGI_CONFIG": str(config), "KEY": "sk-a"}) as relay:
            upstream.script = reply("200 OK", "{}")
            answer = await relay.client.post("/v1/moderations", json={"input": "a"})
            unknown = await relay.client.post("/v1/rerank", json={"query": "a", "documents": []})

    assert 200 == answer.status_code, answer.text
    assert {"input": "a", "model": model} == upstream.calls[0].json
    assert (400, 1) == (unknown.status_code, len(upstream.calls))


async def test_moderations_without_any_provider_of_them(tmp_path: Path):
    tables = "".join(
        f"[upstream.{name}]\nbase_url = 'http://127.0.0.1:9/v1'\nkey_env = 'KEY'\n" for name in "ab"
    )
    (tmp_path / "seseragi.toml").write_text(tables)
    environ = {"SESERAGI_CONFIG": str(tmp_path / "seseragi.toml"), "KEY": "sk-a"}
    async with serve_relay(environ=environ) as relay:
        answer = await relay.client.post("/v1/moderations", json={"input": "a"})

    assert (404, True) == (answer.status_code, "omni-moderation-latest" in answer.text)


async def test_pieces_come_as_they_are_made():
    more = Until()
    script: list[Step] = [
        chunked_head(),
        chunk("data: 1\n\n"),
        more,
        chunk("data: 2\n\n"),
        LAST_CHUNK,
    ]
    async with serve_script(script) as (relay, _):
        async with relay.client.stream(
            "POST", "/v1/images/generations", json={**IMAGE, "stream": True}
        ) as answer:
            pieces = answer.aiter_bytes()
            assert b"data: 1\n\n" == await anext(pieces)
            assert 1 == relay.hub.calls.count
            more.told.set()
            assert b"data: 2\n\n" == await anext(pieces)
            assert [] == [piece async for piece in pieces]
        assert "text/event-stream" == answer.headers["content-type"]


BEGUN: list[Step] = [chunked_head(content_type="audio/wav"), chunk(b"RIFF"), wait(0.05)]


@pytest.mark.parametrize(
    ("script", "settings"),
    [
        (BEGUN, {}),
        ([*BEGUN, send("no chunk\r\n")], {}),
        ([*BEGUN, Hold()], {"idle_timeout_s": 5}),
        ([*BEGUN, Hold()], {"total_timeout_s": 5}),
        ([*BEGUN, chunk(b"x" * 2000), LAST_CHUNK], {}),
        ([*BEGUN, chunk(KEY[-14:-5]), wait(0.05), chunk(f"{KEY[-5:]}."), LAST_CHUNK], {}),
    ],
    ids=["cut", "malformed", "silent", "long", "large", "quotes the key"],
)
async def test_answer_that_breaks_is_broken_off(
    script: list[Step], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forwarded_call, "MAX_BYTES", 1000)
    async with serve_upstream() as upstream, serve(upstream, attempts=2, **settings) as relay:
        upstream.script = script
        hurry = Clock(monkeypatch).hurrying() if Hold() in script else contextlib.nullcontext()
        async with hurry:
            body = await read_cut(relay, "/v1/audio/speech")
        state = await settled(relay)
        (row,) = await rows(relay)

    assert body in (b"RIFF", b"RIFF" + KEY[-14:-5].encode())
    assert 1 == len(upstream.calls)
    assert ("failed", "estimate") == (row.status, row.usage_from)
    assert row.nano_usd == state.day.nano_usd > 0 == state.day.held_nano_usd


async def test_client_that_leaves_stops_the_call():
    async with serve_upstream() as upstream, serve(upstream) as relay:
        for script in ([Hold()], [*BEGUN, Hold()]):
            upstream.reset(*script)
            upstream.called.clear()
            asking = asyncio.create_task(ask(relay, "/v1/audio/speech"))
            await asyncio.wait_for(upstream.called.wait(), 20)
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
            await settled(relay)
        found = await rows(relay)
        left = relay.hub.admission.bytes

    assert [("cancelled", "speech")] * 2 == [(row.status, row.client_format) for row in found]
    assert 0 == left


async def test_what_runs_when_the_relay_stops_is_broken_off():
    async with serve_upstream() as upstream, serve(upstream) as relay:
        upstream.script = [*BEGUN, Hold()]
        reading = asyncio.create_task(read_cut(relay, "/v1/images/generations"))
        await asyncio.wait_for(upstream.called.wait(), 20)
        await asyncio.sleep(0.1)
        await relay.hub.drain(0)
        assert b"RIFF" == await reading
        state = await settled(relay)

    assert 0 == state.running


# Money

PRICES = (PriceConfig(target="openai/*", input=2, output=3, request=0.001, version="list"),)
FEE = 1_000_000
IMAGES = {"input_tokens": 50, "output_tokens": 100, "total_tokens": 150}
B64 = "A" * (3 * TAIL_BYTES)


def event(**fields: Any) -> str:
    return f"event: x\ndata: {json.dumps(fields)}\n\n"


ANSWERS: dict[str, tuple[str, str, str, tuple[int, int, int]]] = {
    "images": ("/v1/images/generations", "application/json", json.dumps({"data": [], "usage": IMAGES}), (50, 100, 400_000 + FEE)),
    "large image": ("/v1/images/generations", "application/json; charset=utf-8", json.dumps({"data": [{"b64_json": B64, "usage": {"input_tokens": 1}}], "usage": IMAGES, "size": "s"}), (50, 100, 400_000 + FEE)),
    "usage of a part only": ("/v1/images/generations", "application/json", json.dumps({"data": [{"b64_json": B64, "usage": {"input_tokens": 1}}]}), (16, 2 * 6208, 32_000 + 2 * 6208 * 3000 + FEE)),
    "streamed image": ("/v1/images/generations", "text/event-stream", event(usage={"input_tokens": 1}) + event(b64_json=B64, usage=IMAGES) + "data: [DONE]\n\n", (50, 100, 400_000 + FEE)),
    "no usage": ("/v1/moderations", "application/json", "{}", (13, 0, 26_000 + FEE)),
    "not JSON": ("/v1/moderations", "application/json", "[", (13, 0, 26_000 + FEE)),
    "sound": ("/v1/audio/speech", "audio/wav", json.dumps({"usage": IMAGES}), (20, 1, 43_000 + FEE)),
    "rerank": ("/v1/rerank", "application/json", json.dumps({"usage": {"total_tokens": 40}, "results": []}), (40, 0, 80_000 + FEE)),
    "transcription": (FORM, "application/json", json.dumps({"text": "", "usage": {"type": "tokens", "input_tokens": 10, "input_token_details": {"audio_tokens": 9}, "output_tokens": 5}}), (10, 5, 35_000 + FEE)),
    "edited image": (EDITS, "application/json", json.dumps({"data": [], "usage": IMAGES}), (50, 100, 400_000 + FEE)),
    "edited image without usage": (EDITS, "application/json", '{"data": []}', (6605, 6208, 6605 * 2000 + 6208 * 3000 + FEE)),
    "translation": ("/v1/audio/translations", "application/json", '{"text": "hello"}', (10, 6, 38_000 + FEE)),
    "duration": (FORM, "application/json", json.dumps({"usage": {"type": "duration", "seconds": 9}}), (10, 15, 65_000 + FEE)),
    "impossible": (FORM, "application/json", json.dumps({"usage": {**IMAGES, "output_tokens": 10**9}}), (50, 27, 181_000 + FEE)),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
async def test_call_is_settled_by_its_usage_and_its_price(name: str):
    path, media_type, body, (inputs, outputs, nano) = ANSWERS[name]
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES) as relay:
        upstream.script = reply("200 OK", body, media_type)
        answer = await ask(relay, path)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert body == answer.text
    kind = next(call.kind for call in CALLS if f"/v1/{call.path}" == path)
    assert (kind, MODEL, "completed", "list", 1) == (
        *(row.client_format, row.target, row.status, row.price_version, row.attempts),
    )
    assert (inputs, outputs, nano) == (row.input_tokens, row.output_tokens, row.nano_usd)
    assert (1, inputs, nano, 0) == (
        *(state.day.requests, state.day.input_tokens, state.day.nano_usd),
        state.day.held_nano_usd,
    )
    assert row.request_id == answer.headers["x-request-id"]


async def test_the_number_of_results_in_a_form_is_reserved():
    limits = UsageLimits(usd_per_day=1000)
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES, limits=limits) as relay:
        upstream.script = [Hold()]
        form = {"model": MODEL, "prompt": "a", "n": "3"}
        asking = asyncio.create_task(relay.client.post(EDITS, data=form, files=FILE))
        await asyncio.wait_for(upstream.called.wait(), 20)
        (state,) = await relay.accounts.read_accounts(["relay"])
        asking.cancel()
        await settled(relay)
        refused = [
            await relay.client.post(EDITS, data={**form, "n": n}, files=FILE)
            for n in ("0", "101", "1000", "-1", "2.0", "x", "")
        ]

    assert 3 * 6208 * 3000 < state.day.held_nano_usd < 3 * 6208 * 3000 + 7000 * 2000 + FEE
    assert [400] * 7 == [one.status_code for one in refused]
    assert all("n: send an integer" in one.text for one in refused)
    assert 1 == len(upstream.calls)


async def test_stated_cost_counts_where_no_price_is_known():
    async with serve_upstream() as upstream, serve(upstream, prices=()) as relay:
        upstream.script = reply("200 OK", '{"usage": {"cost": 0.002, "search_units": 1}}')
        await ask(relay, "/v1/rerank")
        await settled(relay)
        (row,) = await rows(relay)

    assert (2_000_000, "provider") == (row.nano_usd, row.price_version)


async def test_output_is_reserved_before_and_calls_beyond_a_budget_are_refused():
    per_image = 6208 * 3000
    limits = UsageLimits(usd_per_day=(2 * per_image + 2 * FEE) / 1e9)
    async with (
        serve_upstream() as upstream,
        serve(upstream, prices=PRICES, limits=limits) as relay,
    ):
        upstream.script = [Hold()]
        first = asyncio.create_task(ask(relay, "/v1/images/generations"))  # two images
        await asyncio.wait_for(upstream.called.wait(), 20)
        refused = await ask(relay, "/v1/images/generations")
        (state,) = await relay.accounts.read_accounts(["relay"])
        first.cancel()
        ended = await settled(relay)

    assert (429, "insufficient_quota") == (*(refused.status_code, refused.json()["error"]["code"]),)
    assert 1 == len(upstream.calls)
    assert 2 * per_image + FEE + 32_000 == state.day.held_nano_usd == ended.day.nano_usd


@pytest.mark.parametrize(
    ("limits", "prices", "code", "told"),
    [
        (UsageLimits(usd_per_day=100), (), "insufficient_quota", "[[price]]"),
        (UsageLimits(requests_per_minute=0), PRICES, "rate_limit_exceeded", "requests a minute"),
    ],
)
async def test_limits_are_those_of_other_calls(limits: Any, prices: Any, code: str, told: str):
    async with (
        serve_upstream() as upstream,
        serve(upstream, prices=prices, limits=limits) as relay,
    ):
        for path in PATHS:
            refused = await ask(relay, path)
            error = refused.json()["error"]
            assert (429, code, True) == (
                refused.status_code,
                error["code"],
                told in error["message"],
            )

    assert [] == upstream.calls


# Failures

FAILURES: list[tuple[list[Step], int, str]] = [
    (reply("429 Slow", "{}", retry_after="7"), 429, "rate_limit_exceeded"),
    (reply("401 No", f'{{"error":{{"message":"bad key {KEY}"}}}}'), 401, "upstream_auth"),
    (reply("403 No", "{}"), 403, "upstream_forbidden"),
    (reply("400 Bad", f'{{"error":{{"message":"{KEY} odd"}}}}'), 400, "upstream_invalid_request"),
    (reply("404 No", "{}"), 404, "model_not_found"),
    (reply("405 No", "{}"), 400, "upstream_invalid_request"),
    (reply("500 Broken", "{}"), 502, "upstream_unavailable"),
    (reply("302 Found", ""), 502, "upstream_invalid_response"),
    (reply("200 OK", "<html>", "text/html"), 502, "upstream_invalid_response"),
    (reply("200 OK", "x", content_encoding="gzip"), 502, "upstream_invalid_response"),
    (reply("200 OK", ""), 502, "upstream_invalid_response"),
    ([head(content_length="9"), wait(0.02)], 502, "upstream_truncated"),
    ([], 502, "upstream_unavailable"),
]


@pytest.mark.parametrize(("script", "status", "code"), FAILURES)
@pytest.mark.parametrize("path", ["/v1/audio/speech", FORM])
async def test_failure_before_the_answer_is_an_error_in_openais_words(
    script: list[Step], status: int, code: str, path: str
):
    async with serve_upstream() as upstream, serve(upstream, prices=PRICES) as relay:
        upstream.script = script
        answer = await ask(relay, path)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    assert "sk-test" not in answer.text
    assert "failed" == row.status
    # As with embeddings, the input may be billed if there was an answer, or none at all.
    billed = not script or row.code in ("upstream_invalid_response", "upstream_truncated")
    assert billed == (state.day.nano_usd > 0)
    assert not row.output_tokens or row.code == "upstream_truncated"


TWO = """
[upstream.one]
base_url = "{one}"
key_env = "KEY"
[upstream.two]
base_url = "{two}"
key_env = "KEY"
[[route]]
name = "both"
targets = ["one/a", {{ model = "two/b", connect_timeout_s = 7 }}]
"""


@contextlib.asynccontextmanager
async def serve_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Relay, Upstream, Upstream]]:
    async with serve_upstream() as one, serve_upstream() as two:
        text = TWO.format(one=one.base_url, two=two.base_url)
        (tmp_path / "seseragi.toml").write_text(text)
        monkeypatch.chdir(tmp_path)
        async with serve_relay(environ={"KEY": "sk-a"}, **settings) as relay:
            yield relay, one, two


@pytest.mark.parametrize("script", [reply("503 Busy", "{}"), [], [head(content_length="9")]])
async def test_next_target_is_tried_until_an_answer_begins(script: Any, tmp_path, monkeypatch):
    async with serve_route(tmp_path, monkeypatch) as (relay, one, two):
        one.script, two.script = script, reply("200 OK", "{}")
        answer = await relay.client.post("/v1/moderations", json={"model": "both", "input": "a"})
        sent = await relay.client.post(FORM, data={"model": "both"}, files=FILE)

    assert (200, "{}") == (answer.status_code, answer.text)
    assert ["a", "b"] == [one.calls[0].json["model"], two.calls[0].json["model"]]
    # A file is sent once.
    assert (2, 1) == (len(one.calls), len(two.calls))
    assert sent.status_code >= 500


async def test_timeouts_of_a_target_count_for_calls_without_a_stream(tmp_path, monkeypatch):
    waits: list[float | None] = []
    open_call = HttpClient.open

    async def spy(self: HttpClient, call: HttpCall, **more: Any) -> HttpReply:
        waits.append(call.connect_timeout_s)
        return await open_call(self, call, **more)

    monkeypatch.setattr(HttpClient, "open", spy)
    async with serve_route(tmp_path, monkeypatch) as (relay, one, two):
        one.script, two.script = reply("503 Busy", "{}"), reply("200 OK", "{}")
        for path in ("/v1/moderations", "/v1/embeddings"):
            await relay.client.post(path, json={"model": "both", "input": "a"})

    assert [10, 7] * 2 == waits


# Requests


async def test_fields_that_clients_may_not_set_are_dropped_and_named():
    more = {"api_base": "http://evil.test", "seed": 1, "odd": [], "other": {}}
    async with serve_script(reply("200 OK", "{}")) as (relay, upstream):
        body = {**IMAGE, **more, "fallbacks": ["x"]}
        answer = await relay.client.post("/v1/images/generations", json=body)
        fields = {**FIELDS, **{"api_base": "x", "extra_body[model]": "y", "fallbacks[]": "z"}}
        sent = await relay.client.post(FORM, data=fields, files=FILE)

    assert "api_base, fallbacks" == answer.headers["seseragi-ignored"]
    assert {**IMAGE, "model": "m-1", "seed": 1, "odd": [], "other": {}} == upstream.calls[0].json
    assert "api_base, extra_body, fallbacks" == sent.headers["seseragi-ignored"]
    assert {*FIELDS, "file"} == set(form_of(upstream.calls[1]))


@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ({"content": b"x", "headers": {"content-type": "application/json"}}, 415, "multipart/form-data"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary"),
        ({"data": {"model": ["a", "b"]}, "files": FILE}, 400, "model"),
        ({"files": FILE}, 400, "model: missing"),
        ({"data": {"model": "openai/" + "x" * 3000}, "files": FILE}, 404, "model"),
        ({"files": {"file": b"x" * 2000}}, 413, "limit"),
    ],
)  # fmt: skip
async def test_form_that_is_none_is_refused(
    how: Any, status: int, told: str, monkeypatch: pytest.MonkeyPatch
):
    if status == 413:
        monkeypatch.setattr(endpoints, "UPLOAD_BYTES", 1000)
    async with serve_script(reply("200 OK", "{}"), max_request_bytes=1500) as (relay, upstream):
        answer = await relay.client.post(FORM, **how)
        left = relay.hub.admission.bytes

    assert status == answer.status_code, answer.text
    assert told in answer.json()["error"]["message"]
    assert ([], 0) == (upstream.calls, left)


HOSTILE = [rb'"\ud800"', b"1e999", b"9" * 5000, b"[" * 800 + b"]" * 800, b"\xff", b"null", b"{}"]


@pytest.mark.pure
@pytest.mark.parametrize("call", [call for call in CALLS if not call.form])
@pytest.mark.parametrize("place", ["model", "n", "input", "odd"])
def test_no_value_is_a_failure_of_the_relay(call: forwarded.Call, place: str):
    for value in HOSTILE:
        fields = {"model": b'"m"', place: value}
        body = b"{%b}" % b",".join(b'"%b":%b' % (n.encode(), v) for n, v in fields.items())
        sent = b""
        with contextlib.suppress(RequestError):
            _, sent = parse_json(call, body).render("x", ())
        assert not sent or b'"model":"x"' in sent


async def test_file_may_be_larger_than_other_requests():
    files = {"file": ("a.mp3", b"\xff" * (25 * 2**20))}
    async with serve_script(reply("200 OK", "{}"), max_request_bytes=2**22) as (relay, upstream):
        answer = await relay.client.post(FORM, data=FIELDS, files=files)
        json_body = {**IMAGE, "prompt": "x" * (33 * 2**20)}
        refused = await relay.client.post("/v1/images/generations", json=json_body)

    assert (200, 413) == (answer.status_code, refused.status_code)
    assert len(upstream.calls[0].body) > 25 * 2**20


@pytest.mark.parametrize("path", ["/v1/files", "/v1/vector_stores/x", "/v1/fine_tuning/jobs"])
async def test_what_stores_at_the_provider_is_refused_with_the_reason(path: str):
    async with serve_relay() as relay:
        answer = await relay.client.post(path, headers={"user-agent": "OpenAI/Python 3"})

    assert (404, True) == (answer.status_code, "would belong to all clients" in answer.text)


MISSING = {
    "/v1/images/variations": "there is POST /v1/images/edits, POST /v1/images/generations",
    "/v1/audio/voices": "POST /v1/audio/speech, ",
    "/v1/chat/completion": "POST /v1/chat/completions",
    "/v1/moderation": "GET /openapi.json",
    "/v1/realtime/sessions": "speech in real time is not supported",
    "/v1/videos": "would belong to all clients",
    "/v2/embed": "GET /openapi.json",
    "/anything": "GET /openapi.json",
}


@pytest.mark.parametrize("path", MISSING)
async def test_a_missing_path_is_named_with_what_there_is(path: str):
    async with serve_relay() as relay:
        answer = await relay.client.post(path, headers={"user-agent": "OpenAI/Python 3"})

    assert (404, "false") == (answer.status_code, answer.headers["x-should-retry"])
    error = answer.json()
    message = error["error"]["message"] if "error" in error else error["detail"]
    assert f"nothing at '{path}'" in message
    assert MISSING[path] in message


@pytest.mark.pure
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_usage_is_the_same_in_all_pieces(size: int):
    body = json.dumps({"data": "A" * 2000, "usage": IMAGES}).encode()
    reader = UsageReader("application/json")
    for at in range(0, len(body), size):
        reader.feed(body[at : at + size])

    assert TokenCounts(50, 100, 150) == reader.read()
