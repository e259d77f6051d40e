"""Counting tokens: asked of who can, estimated otherwise, and never a stream."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from app.dialects.writing.token_estimate import estimate_text, estimate_tokens
from app.generation.single_call import COUNT_S
from app.requests import parse_chat_request
from app.testing.upstream import Hold, head, reply, send, serve_upstream
from tests.clock import Clock
from tests.serving import Relay, serve_relay, serve_script
from tests.waiting import until

ASK: dict[str, Any] = {"model": "openai/claude-x", "messages": [{"role": "user", "content": "Hi"}]}
TOOL: Any = {"name": "f", "description": "d", "input_schema": {"type": "object"}}
PATH = "/v1/messages/count_tokens"


def claude(relay: Relay, **fields: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="k", base_url=relay.url, max_retries=0, **fields)


def gpt(relay: Relay) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{relay.url}/v1", max_retries=0)


async def test_anthropic_counts_what_its_clients_say() -> None:
    async with serve_script(reply("200 OK", '{"input_tokens": 2095}'), dialect="anthropic") as (
        relay,
        upstream,
    ):
        async with claude(relay) as sdk:
            answer = await sdk.beta.messages.with_raw_response.count_tokens(
                **ASK,
                system="Be brief",
                tools=[TOOL],
                thinking={"type": "enabled", "budget_tokens": 2048},
                betas=["context-1m-2025-08-07"],
                extra_body={"temperature": 1, "metadata": {"user_id": "u"}},
            )
        (call,) = upstream.calls

    assert 2095 == (await answer.parse()).input_tokens
    assert "seseragi-estimated" not in answer.headers
    assert call.path.startswith("/v1/v1/messages/count_tokens")
    assert {"model", "messages", "system", "tools", "thinking"} == call.json.keys()
    assert "claude-x" == call.json["model"]
    assert "context-1m-2025-08-07" in call.headers["anthropic-beta"]
    assert "via" in call.headers


@pytest.mark.parametrize(
    ("dialect", "answer", "path"),
    [
        ("vertex_anthropic", '{"input_tokens": 7}', "/v1/count-tokens:rawPredict"),
        ("bedrock_anthropic", '{"inputTokens": 7}', "/v1/model/claude-x/count-tokens"),
        ("bedrock_converse", '{"inputTokens": 7}', "/v1/model/claude-x/count-tokens"),
        ("gemini", '{"totalTokens": 7}', "/v1/models/claude-x:countTokens"),
        ("openai_responses", '{"object":"response.input_tokens","input_tokens":7}', "/v1/responses/input_tokens")
    ]
)  # fmt: skip
async def test_others_that_count_are_asked(dialect: str, answer: str, path: str) -> None:
    async with serve_script(reply("200 OK", answer), dialect=dialect) as (relay, upstream):
        async with claude(relay) as sdk:
            counted = await sdk.messages.count_tokens(**ASK, tools=[TOOL])
        (call,) = upstream.calls

    assert 7 == counted.input_tokens
    assert path == call.path
    said = json.dumps(call.json)
    if dialect == "bedrock_anthropic":
        said = base64.b64decode(call.json["input"]["invokeModel"]["body"]).decode()
        assert {"anthropic_version", "max_tokens", "messages"} <= json.loads(said).keys()
    assert '"Hi"' in said
    assert "stream" not in said


async def test_openais_clients_count_too() -> None:
    async with (
        serve_script(
            reply("200 OK", '{"object":"response.input_tokens","input_tokens":11}'),
            dialect="openai_responses",
        ) as (relay, upstream),
        gpt(relay) as sdk,
    ):
        counted = await sdk.responses.input_tokens.count(
            model="openai/gpt-x", input="Hi", instructions="Be brief"
        )
        guessed = await sdk.responses.input_tokens.with_raw_response.count(
            model="demo", instructions="Be brief"
        )
    (call,) = upstream.calls

    assert (11, "response.input_tokens") == (counted.input_tokens, counted.object)
    assert "gpt-x" == call.json["model"]
    assert {"stream", "store", "include"}.isdisjoint(call.json)
    assert "true" == guessed.headers["seseragi-estimated"]
    assert guessed.parse().input_tokens > 0


async def test_what_a_stored_response_said_is_counted_too() -> None:
    async with serve_relay() as relay, gpt(relay) as sdk:
        first = await sdk.responses.create(model="demo", input="Tell me a story of the sea.")
        alone = await sdk.responses.input_tokens.count(model="demo", input="And?")
        after = await sdk.responses.input_tokens.count(
            model="demo", input="And?", previous_response_id=first.id
        )

    assert after.input_tokens > alone.input_tokens + 10


async def test_where_nobody_counts_it_is_estimated_and_said() -> None:
    async with serve_relay() as relay, claude(relay) as sdk:
        raw = sdk.messages.with_raw_response
        few = await raw.count_tokens(model="demo", messages=[{"role": "user", "content": "Hi"}])
        many = await raw.count_tokens(
            model="demo", messages=[{"role": "user", "content": "Hi " * 4000}]
        )
        streams = relay.hub.admission.streams

    assert "true" == few.headers["seseragi-estimated"] == many.headers["seseragi-estimated"]
    assert 0 < (await few.parse()).input_tokens < 20
    assert 2_900 < (await many.parse()).input_tokens < 3_100
    assert 0 == streams


@pytest.mark.parametrize(
    "script",
    [
        reply("404 Not Found", '{"error":{"message":"no"}}'),
        reply("405 Method Not Allowed", ""),
        reply("503 Busy", "{}"),
        reply("401 No", '{"error":{"message":"bad key"}}'),
        reply("200 OK", '{"input_tokens": "many"}'),
        reply("200 OK", "hello"),
        reply("200 OK", b"\xff"),
        reply("200 OK", b"x" * 100_000),
        [head(content_type="application/json"), send("{")],
        [],
    ],
    ids=["404", "405", "503", "401", "text", "no JSON", "no UTF-8", "long", "cut", "hang up"],
)
async def test_an_upstream_that_cannot_is_no_failure(script: Any) -> None:
    async with serve_script(script, dialect="anthropic") as (relay, _):
        counted = await relay.client.post(PATH, json=ASK)

    assert 200 == counted.status_code
    assert "true" == counted.headers["seseragi-estimated"]
    assert counted.json()["input_tokens"] > 0


ROUTE = """
[upstream.a]
base_url = "{a}"
dialect = "anthropic"
[upstream.b]
base_url = "{b}"
dialect = "{dialect}"
[[route]]
name = "count"
targets = ["a/m", "b/m"]
"""


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
async def test_next_target_counts_if_the_first_one_fails(dialect: str, tmp_path: Path) -> None:
    async with serve_upstream() as a, serve_upstream() as b:
        a.script = reply("503 Busy", "{}")
        b.script = reply("200 OK", '{"input_tokens": 9}')
        config = tmp_path / "seseragi.toml"
        config.write_text(ROUTE.format(a=a.base_url, b=b.base_url, dialect=dialect))
        async with serve_relay(config=config) as relay:
            counted = await relay.client.post(PATH, json={**ASK, "model": "count"})
            states = {one.target: one.state for one in relay.hub.upstreams.health(now=0)}

    if dialect == "anthropic":
        assert 9 == counted.json()["input_tokens"]
        assert "seseragi-estimated" not in counted.headers
    else:  # it has no such call
        assert "true" == counted.headers["seseragi-estimated"]
        assert not b.calls
    assert {"closed"} == set(states.values())


async def test_a_silent_upstream_is_waited_for_a_short_while(monkeypatch: Any) -> None:
    async with (
        serve_script([Hold()], dialect="anthropic") as (relay, upstream),
        Clock(monkeypatch).hurrying(),
    ):
        counted = await relay.client.post(PATH, json=ASK)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)

    assert "true" == counted.headers["seseragi-estimated"]


async def test_silent_targets_share_the_time_of_a_count(monkeypatch: Any, tmp_path: Path) -> None:
    async with serve_upstream() as a, serve_upstream() as b:
        a.script = b.script = [Hold()]
        config = tmp_path / "seseragi.toml"
        route = ROUTE.format(a=a.base_url, b=b.base_url, dialect="anthropic")
        config.write_text(f"{route}budget_s = 60\n")
        loop = asyncio.get_running_loop()
        async with serve_relay(config=config) as relay, Clock(monkeypatch).hurrying():
            began = loop.time()
            counted = await relay.client.post(PATH, json={**ASK, "model": "count"})
            took_s = loop.time() - began

    assert "true" == counted.headers["seseragi-estimated"]
    assert took_s < COUNT_S + 2


async def test_what_is_wrong_with_a_request_is_told() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream, dialect="anthropic") as relay:
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": "odd"}}
        upstream.script = reply("400 Bad", json.dumps(error))
        by_upstream = await relay.client.post(PATH, json=ASK)
        by_us = await relay.client.post(PATH, json={**ASK, "messages": 1})
        nobody = await relay.client.post(PATH, json={**ASK, "model": "x/y/z" * 500})
        empty = await relay.client.post("/v1/responses/input_tokens", json=[])

    assert {400} == {r.status_code for r in (by_upstream, by_us, empty)}
    assert 404 == nobody.status_code
    assert "odd" in by_upstream.json()["error"]["message"]
    assert "messages" in by_us.json()["error"]["message"]
    assert "error" == by_us.json()["type"]
    assert "invalid_request" == empty.json()["error"]["code"]


async def test_a_client_that_goes_takes_its_call_along() -> None:
    async with serve_script([Hold()], dialect="anthropic") as (relay, upstream):
        asking = asyncio.create_task(relay.client.post(PATH, json=ASK))
        await asyncio.wait_for(upstream.called.wait(), 20)
        assert 1 == relay.hub.admission.streams
        asking.cancel()
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        await until(lambda: not (relay.hub.admission.streams or relay.hub.admission.bytes))


async def test_counts_have_the_bounds_of_generations() -> None:
    async with serve_relay(max_request_bytes=200_000) as relay:
        large = await relay.client.post(
            PATH, content=b"x" * 200_001, headers={"content-type": "application/json"}
        )
        form = await relay.client.post(PATH, content=b"{}")
        relay.hub.shutdown.draining = True
        stopped = await relay.client.post(PATH, json=ASK)

    assert [413, 415, 529] == [r.status_code for r in (large, form, stopped)]


async def test_the_relay_that_stops_waits_for_a_count_and_then_no_more() -> None:
    async with serve_script([Hold()], dialect="anthropic") as (relay, upstream):
        asking = asyncio.create_task(relay.client.post(PATH, json=ASK))
        await asyncio.wait_for(upstream.called.wait(), 20)
        await relay.hub.drain(0.01)
        response = await asyncio.wait_for(asking, 20)

    assert 529 == response.status_code


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ああ", 2), ("éé", 1), ("🌊", 2), ("aあ", 2)],
)
def test_an_estimate_goes_by_the_kind_of_character(text: str, tokens: int) -> None:
    assert tokens == estimate_text(text)


def test_an_estimate_is_linear_and_counts_everything() -> None:
    def tokens(**fields: Any) -> int:
        body = {"messages": [{"role": "user", "content": "Hi"}], **fields}
        return estimate_tokens(parse_chat_request(json.dumps(body).encode()))

    least = tokens()
    image = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
    small = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}}
    sound = {"type": "input_audio", "input_audio": {"data": "A" * 8000, "format": "wav"}}
    page = {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    more = [
        *(tokens(messages=[{"role": "user", "content": [part]}]) for part in (image, small, page)),
        tokens(messages=[{"role": "user", "content": [sound]}]),
        tokens(messages=[{"role": "assistant", "content": "Hi", "tool_calls": [call]}]),
        tokens(tools=[{"type": "function", "function": {"name": "f", "description": "d" * 400}}]),
        tokens(response_format=schema),
        tokens(messages=[{"role": "system", "content": "Hi"}, {"role": "user", "content": "Hi"}]),
    ]

    assert 0 < least < min(more)
    assert more[0] > 1_500 > 100 > more[1]
    one, two = (tokens(messages=[{"role": "user", "content": "word " * n}]) for n in (1000, 2000))
    assert 1.9 < two / one < 2.1
