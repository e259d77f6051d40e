"""Anthropic's own clients, on a real socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.dialects.anthropic.client.request import parse_request
from app.dialects.reasoning_signatures import UNSIGNED, pack
from app.dialects.writing.token_estimate import estimate_tokens
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Reset,
    Step,
    Until,
    Upstream,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.api.asking import Started
from tests.dialects.anthropic import test_same_dialect as same
from tests.dialects.anthropic.messages_protocol import without_unknown
from tests.needs import file, program
from tests.serving import HELLO, Relay, chat, serve_relay, serve_script

ROOT = Path(__file__).parents[2]
SDK = ROOT / "node_modules" / "@anthropic-ai" / "sdk"
ASK: dict[str, Any] = {
    "model": "openai/m",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello"}],
}
WEATHER: Any = {
    "name": "get_weather",
    "description": "Tell the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def called(*calls: tuple[int, dict[str, Any]]) -> str:
    return "".join(event({"tool_calls": [{"index": index, **call}]}) for index, call in calls)


PARALLEL = called(
    (0, {"id": "a", "function": {"name": "get_weather", "arguments": '{"ci'}}),
    (1, {"id": "b", "function": {"name": "get_weather", "arguments": '{"city"'}}),
    (0, {"function": {"arguments": 'ty":"Kyoto"}'}}),
    (1, {"function": {"arguments": ':"Nara"}'}}),
)
ANSWER = [
    head(),
    send(event({"reasoning_content": "Hm"}) + text("こん") + text("にちは") + PARALLEL),
    send(event(finish_reason="tool_calls") + USAGE + DONE),
]
HANGS: list[Step] = [head(), send(text("Hi")), Hold()]
PLAIN = [head(), send(text("Hi") + FINISH + USAGE + DONE)]


def client(relay: Relay) -> AsyncAnthropic:
    return AsyncAnthropic(api_key="k", base_url=relay.url, max_retries=0)


def said(message: Any) -> dict[str, Any]:
    """Return a message without its id, and without what is not there."""
    found: dict[str, Any] = without_unknown(message.model_dump(exclude_none=True))
    assert found.pop("id").startswith("msg_")
    return found


WHOLE = {
    "type": "message",
    "role": "assistant",
    "model": "openai/m",
    "content": [
        {"type": "thinking", "thinking": "Hm", "signature": pack(UNSIGNED)},
        {"type": "text", "text": "こんにちは"},
        {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Kyoto"}},
        {"type": "tool_use", "id": "b", "name": "get_weather", "input": {"city": "Nara"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


@pytest.mark.parametrize("beta", [False, True])
async def test_the_python_client_makes_one_message_of_it(beta: bool) -> None:
    async with serve_script(ANSWER) as (relay, _), client(relay) as sdk:
        messages: Any = sdk.beta.messages if beta else sdk.messages
        whole = await messages.create(**ASK)
        async with messages.stream(**ASK) as stream:
            pieces = [piece async for piece in stream.text_stream]
            streamed = await stream.get_final_message()

    assert said(whole) == WHOLE
    assert said(streamed) == WHOLE
    assert pieces == ["こん", "にちは"]


async def test_the_python_client_is_answered_in_a_loop_of_tools() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = lambda call: PLAIN if "sunny" in call.body.decode() else ANSWER
        async with client(relay) as sdk:
            turns: list[Any] = list(ASK["messages"])
            first = await sdk.messages.create(**{**ASK, "messages": turns}, tools=[WEATHER])
            turns.append({"role": "assistant", "content": first.content})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "sunny"}
                for block in first.content
                if block.type == "tool_use"
            ]
            turns.append({"role": "user", "content": results})
            last = await sdk.messages.create(**{**ASK, "messages": turns}, tools=[WEATHER])

    assert last.stop_reason == "end_turn"
    told = upstream.calls[1].json["messages"]
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in told[1]["tool_calls"]] == ["a", "b"]
    assert "client_body" not in upstream.calls[1].json


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        ("400 Bad Request", anthropic.BadRequestError, "invalid_request_error"),
        ("401 Unauthorized", anthropic.AuthenticationError, "authentication_error"),
        ("402 Payment Required", anthropic.APIStatusError, "billing_error"),
        ("403 Forbidden", anthropic.PermissionDeniedError, "permission_error"),
        ("404 Not Found", anthropic.NotFoundError, "not_found_error"),
        ("429 Too Many Requests", anthropic.RateLimitError, "rate_limit_error"),
        ("503 Service Unavailable", anthropic.OverloadedError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_is_the_clients_own_exception(
    status: str, kind: type[anthropic.APIStatusError], told: str, stream: bool
) -> None:
    script = reply(status, '{"error":{"message":"no","type":"t"}}')
    async with serve_script(script) as (relay, _), client(relay) as sdk:
        with pytest.raises(kind) as failed:
            await sdk.messages.create(**ASK, stream=stream)

    assert failed.value.type == told
    assert failed.value.request_id is not None


async def test_a_stream_that_breaks_is_an_exception_and_no_message() -> None:
    async with (
        serve_script([head(), send(text("Hi")), Reset()]) as (relay, _),
        client(relay) as sdk,
        sdk.messages.stream(**ASK) as stream,
    ):
        with pytest.raises(anthropic.APIStatusError) as failed:
            await stream.get_final_message()

    assert failed.value.type == "api_error"


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_somebody_cancels_is_an_exception(stream: bool) -> None:
    started = Started()
    async with serve_script(HANGS, observers=[started]) as (relay, upstream), client(relay) as sdk:
        asking = asyncio.ensure_future(read_whole(sdk, stream=stream))
        await asyncio.wait_for(upstream.called.wait(), 20)
        (name,) = started.streams
        await relay.client.post(f"/v1/streams/{name}/cancel")
        with pytest.raises(anthropic.APIStatusError) as failed:
            await asyncio.wait_for(asking, 20)

    assert failed.value.type == "api_error"
    assert failed.value.status_code == 499 or stream


async def read_whole(sdk: AsyncAnthropic, *, stream: bool) -> Any:
    if not stream:
        return await sdk.messages.create(**ASK)
    async with sdk.messages.stream(**ASK) as running:
        return await running.get_final_message()


@pytest.mark.parametrize("name", same.PAYLOADS)
async def test_a_relayed_message_is_the_one_that_anthropic_sent(name: str) -> None:
    script = [head(), send(same.body(name))]
    async with serve_script(script, dialect="anthropic") as (relay, upstream), client(relay) as sdk:
        base_url = upstream.base_url.removesuffix("/v1")
        async with AsyncAnthropic(api_key="k", base_url=base_url, max_retries=0) as direct:
            sent, got = [await read_beta(one) for one in (direct, sdk)]

    assert [] == same.unexpected({"message": sent}, {"message": got})


async def test_hidden_thinking_is_counted_before_it_ends() -> None:
    counted = same.body("hidden thinking").split(b"\n\n")[:4]
    script: list[Step] = [head(), send(b"\n\n".join([*counted, b""])), Hold()]
    async with (
        serve_script(script, dialect="anthropic") as (relay, _),
        asyncio.timeout(20),
        relay.client.stream("POST", "/v1/messages", json={**ASK, "stream": True}) as reply,
    ):
        lines = reply.aiter_lines()
        while "estimated_tokens" not in await anext(lines):
            pass


async def read_beta(sdk: AsyncAnthropic) -> dict[str, Any]:
    async with sdk.beta.messages.stream(**ASK) as stream:
        return (await stream.get_final_message()).to_dict(mode="json", warnings=False)


@pytest.mark.sends_refused
async def test_a_claude_agents_request_reaches_anthropic_as_it_is() -> None:
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {
        "model": "openai/claude-opus-5-5",
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "You are an agent.", **cached}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", **cached}]}],
        "tools": [
            {**WEATHER, "eager_input_streaming": True},
            {"type": "web_search_20260318", "name": "web_search", "max_uses": 8},
        ],
        "metadata": {"user_id": '{"device_id":"d","session_id":"s"}'},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "temperature": 1,
        "novel_field": {"a": 1},
    }
    headers = {
        "authorization": "Bearer client",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "claude-code-20250219,oauth-2025-04-20,context-management-2025-06-27",
    }
    async with serve_script([head(), send(ANTHROPIC)], dialect="anthropic") as (relay, upstream):
        reply = await relay.client.post("/v1/messages?beta=true", json=body, headers=headers)

    assert reply.status_code == 200
    sent = upstream.calls[0]
    assert sent.json == {**body, "model": "claude-opus-5-5"}
    assert sent.headers["anthropic-beta"] == "claude-code-20250219,context-management-2025-06-27"
    assert "client" not in str(sent.headers)
    assert reply.text.count("event: message_stop") == 1


def of_anthropic(*payloads: dict[str, Any]) -> str:
    return "".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in payloads)


ANTHROPIC = of_anthropic(
    {"type": "message_start", "message": {"id": "msg_up", "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)


BY_CODE = {"type": "code_execution_20250825", "tool_id": "srvtoolu_2"}
DIRECT = {"type": "direct"}
AT_TEXT = {"cited_text": "c", "document_index": 0, "document_title": "D"}
IN_RESULT = {
    **{"type": "search_result_location", "source": "kb/1", "title": None, "cited_text": "c"},
    **{"search_result_index": 0, "start_block_index": 0, "end_block_index": 1},
}
FOUND = {"type": "web_search_result", "title": "T", "url": "https://a.example", "page_age": None}
RAN: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    {
        **{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "caller": DIRECT},
        "content": [{**FOUND, "encrypted_content": "e"}],
    },
    {
        **{"type": "text", "text": "It is so."},
        "citations": [
            IN_RESULT,
            {**AT_TEXT, "type": "char_location", "start_char_index": 5, "end_char_index": 6},
            {**AT_TEXT, "type": "char_location", "start_char_index": 7, "end_char_index": 8},
            {
                **{**AT_TEXT, "type": "page_location", "file_id": "file_1"},
                **{"start_page_number": 1, "end_page_number": 2},
            },
            {
                **{**AT_TEXT, "type": "content_block_location"},
                **{"start_block_index": 0, "end_block_index": 1},
            },
            {
                **{"type": "web_search_result_location", "url": "https://a.example"},
                **{"title": "T", "cited_text": "c", "encrypted_index": "i"},
            },
        ],
    },
    {
        **{"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s"},
        "input": {"a": 1},
    },
    {
        **{"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True},
        "content": [{"type": "text", "text": "no", "citations": None}],
    },
    {"type": "novel_tool_use", "id": "x", "name": "novel", "input": {}, "at": 1},
    {"type": "novel_tool_result", "tool_use_id": "x", "content": {"type": "novel"}, "by": None},
    {
        **{"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution"},
        **{"input": {"code": "f()"}, "caller": DIRECT},
    },
    {
        **{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Nara"}},
        "caller": BY_CODE,
    },
]
CONTAINER = {"id": "container_1", "expires_at": "2026-11-23T00:00:00Z"}


def streamed(block: dict[str, Any], index: int) -> list[dict[str, Any]]:
    """A block as Anthropic streams it."""
    pieces: list[dict[str, Any]] = []
    start = dict(block)
    if block["type"] == "text":
        start |= {"text": "", "citations": []}
        found = [{"type": "citations_delta", "citation": one} for one in block["citations"]]
        pieces = [*found, {"type": "text_delta", "text": block["text"]}]
    elif "input" in block:
        start["input"] = {}
        pieces = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    deltas = [{"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces]
    first = {"type": "content_block_start", "index": index, "content_block": start}
    return [first, *deltas, {"type": "content_block_stop", "index": index}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.sends_refused
async def test_what_anthropics_tools_did_is_told_whole_and_goes_back(stream: bool) -> None:
    body = of_anthropic(
        {"type": "message_start", "message": {"id": "msg_up", "usage": {"input_tokens": 3}}},
        *(piece for index, block in enumerate(RAN) for piece in streamed(block, index)),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "container": CONTAINER}},
        {"type": "message_stop"},
    )
    script = [head(), send(body)]
    async with serve_script(script, dialect="anthropic") as (relay, upstream), client(relay) as sdk:
        if stream:
            async with sdk.beta.messages.stream(**ASK) as answer:
                message = await answer.get_final_message()
        else:
            message = await sdk.beta.messages.create(**ASK)
        told = json.loads(message.model_dump_json(exclude_unset=True, warnings=False))
        turn = {"role": "assistant", "content": told["content"]}
        await sdk.beta.messages.create(**{**ASK, "messages": [*ASK["messages"], turn]})

    for block in told["content"]:
        block.pop("parsed_output", None)
    assert told["content"] == RAN
    assert told["container"] == CONTAINER
    assert upstream.calls[1].json["messages"][1]["content"] == RAN


@pytest.mark.parametrize("own", [True, False])
async def test_the_message_begins_with_its_input_tokens(tmp_path: Path, own: bool) -> None:
    async with routed(tmp_path) as (relay, claude, other), client(relay) as sdk:
        begin, stop, rest = ANTHROPIC.partition("event: content_block_stop")
        go_on = Until()
        claude.script = [head(), send(begin), go_on, send(stop + rest)]
        other.script = [head(), send(text("Hi")), go_on, send(FINISH + USAGE + DONE)]
        async with sdk.messages.stream(**{**ASK, "model": "claude/c" if own else "other/o"}) as s:
            start = await anext(aiter(s))
            assert start.type == "message_start"
            begun = start.message.usage.input_tokens
            go_on.told.set()
            message = await s.get_final_message()

    estimate = estimate_tokens(parse_request(json.dumps(ASK).encode()).chat)
    assert (begun, message.usage.input_tokens) == ((3, 3) if own else (estimate, 3))


async def test_what_only_anthropic_knows_is_left_out_for_others_and_noted() -> None:
    found = {"type": "web_search_result", "title": "T", "url": "https://a.example/t"}
    history = [
        *ASK["messages"],
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": [found]},
            ],
        },
        {"role": "user", "content": "and now?"},
    ]
    fields = {
        "messages": history,
        "novel": 1,
        "container": "c",
        "tools": [WEATHER, {"type": "web_search_20260318", "name": "web_search"}],
        "tool_choice": {"type": "tool", "name": "web_search"},
        "stream": True,
    }
    async with serve_script(PLAIN) as (relay, upstream):
        reply = await relay.client.post("/v1/messages", json={**ASK, **fields})
        again = await relay.client.get(f"/v1/streams/{reply.headers['stream-id']}/events")

    body = upstream.calls[0].json
    assert reply.status_code == 200
    assert [tool["function"]["name"] for tool in body["tools"]] == ["get_weather"]
    assert "tool_choice" not in body
    assert "https://a.example/t" in json.dumps(body["messages"][1]["content"])
    for told in (
        "does not support novel: dropped",
        "does not support container, tools[1]: Anthropic's tool 'web_search_20260318': dropped",
        "does not support blocks 'server_tool_use', 'web_search_tool_result' of anthropic: sent as text",
    ):
        assert told in again.text


@pytest.mark.parametrize("field", [{"inference_geo": "eu"}, {"max_tokens": 0}])
async def test_what_a_client_relies_on_is_refused_by_others(field: dict[str, Any]) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        reply = await relay.client.post("/v1/messages", json={**ASK, **field})

    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert reply.json()["error"]["message"].startswith(next(iter(field)))
    assert upstream.calls == []


ROUTES = """
[upstream.claude]
dialect = "anthropic"
base_url = "{claude}"
quirks = {{ sampling = false }}
headers = {{ anthropic-beta = "own-1" }}
options = ["safe", "tools.web_search_*"]
[upstream.other]
base_url = "{other}/v1"
[[route]]
name = "claude-first"
targets = ["claude/c", "other/o"]
[[route]]
name = "other-first"
targets = ["other/o", "claude/c"]
"""
RICH: dict[str, Any] = {
    "max_tokens": 100,
    "temperature": 0.5,
    "cache_control": {"type": "ephemeral"},
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
}


@contextlib.asynccontextmanager
async def routed(folder: Path) -> AsyncIterator[tuple[Relay, Upstream, Upstream]]:
    """Serve a relay with one upstream that speaks Anthropic's words, and one that does not."""
    async with serve_upstream() as claude, serve_upstream() as other:
        config = folder / "seseragi.toml"
        urls = (upstream.base_url.removesuffix("/v1") for upstream in (claude, other))
        config.write_text(ROUTES.format(**dict(zip(("claude", "other"), urls, strict=True))))
        environ = {"SESERAGI_CONFIG": str(config)}
        async with serve_relay(environ=environ, attempts=2) as relay:
            claude.script = [head(), send(ANTHROPIC)]
            other.script = PLAIN
            yield relay, claude, other


async def test_the_settings_of_an_upstream_hold_for_what_is_sent_on(tmp_path: Path) -> None:
    async with routed(tmp_path) as (relay, claude, _):
        reply = await relay.client.post(
            "/v1/messages",
            json={**RICH, "model": "claude/c", "provider_options": {"top_k": 3}},
            headers={"anthropic-beta": "a-1"},
        )

    assert reply.json()["content"] == [{"type": "text", "text": "Hi"}]
    kept = {name: value for name, value in RICH.items() if name != "temperature"}
    assert claude.calls[0].json == {**kept, "model": "c", "stream": True, "top_k": 3}
    assert claude.calls[0].headers["anthropic-beta"] == "own-1"


async def test_the_next_target_is_told_in_its_own_words(tmp_path: Path) -> None:
    async with routed(tmp_path) as (relay, claude, other):
        claude.script = reply("500 Oops", "{}")
        answer = await relay.client.post("/v1/messages", json={**RICH, "model": "claude-first"})

    assert answer.status_code == 200
    assert claude.calls[0].json["cache_control"] == {"type": "ephemeral"}
    assert other.calls[0].json == {
        "model": "o",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "Hi"}],
    }


async def test_what_one_target_cannot_be_told_goes_to_the_next(tmp_path: Path) -> None:
    tools = [{"type": "web_search_20260318", "name": "web_search"}]
    async with routed(tmp_path) as (relay, claude, other):
        body = {**RICH, "model": "other-first", "tools": tools}
        answer = await relay.client.post("/v1/messages", json=body)

    assert answer.status_code == 200
    assert other.calls == []
    assert claude.calls[0].json["tools"] == tools


async def test_what_is_left_out_is_noted_in_the_stream() -> None:
    async with serve_script(PLAIN) as (relay, _):
        body = {**ASK, "top_k": 5, "cache_control": {"type": "ephemeral"}, "stream": True}
        reply = await relay.client.post("/v1/messages", json=body)
        again = await relay.client.get(f"/v1/streams/{reply.headers['stream-id']}/events")

    assert "does not support cache_control: dropped" in again.text
    assert "field_ignored" not in reply.text


async def test_any_stream_can_be_read_in_anthropics_words() -> None:
    async with serve_relay() as relay:
        events = await chat(relay, {**HELLO, "max_tokens": 5})
        url = f"/v1/streams/{events[0]['stream']}/events?format=anthropic"
        whole = (await relay.client.get(url)).text
        rest = (await relay.client.get(f"{url}&after=2")).text
        done = await relay.client.get(url, headers={"last-event-id": last_id(whole)})

    strip = [line for line in whole.split("\n\n") if line]
    assert rest.split("\n\n")[-3:] == whole.split("\n\n")[-3:]
    assert len([line for line in rest.split("\n\n") if line]) == len(strip) - 2
    assert done.status_code == 204


def last_id(body: str) -> str:
    return [line for line in body.splitlines() if line.startswith("id: ")][-1][4:]


async def test_the_models_are_listed_for_the_python_client() -> None:
    async with serve_relay() as relay, client(relay) as sdk:
        every = [model.id async for model in await sdk.models.list()]
        paged = [model.id async for model in await sdk.models.list(limit=2)]
        one = await sdk.models.retrieve("demo")
        with pytest.raises(anthropic.NotFoundError):
            await sdk.models.retrieve("nope/nope")
        openai = (await relay.client.get("/v1/models")).json()
        row = (await relay.client.get("/v1/models/demo")).json()
        missing = await relay.client.get("/v1/models/nope")

    assert every == paged == [model["id"] for model in openai["data"]]
    assert (one.id, one.type, one.lifecycle) == ("demo", "model", "active")
    assert row == openai["data"][0]
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


@pytest.fixture
def node() -> Any:
    """Ask through the client for Node, and give what it made of the answer."""
    binary = program("node")
    file(SDK / "package.json", how="run npm ci")

    async def ask(relay: Relay, **body: Any) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            binary,
            str(ROOT / "tests" / "clients" / "anthropic.mjs"),
            relay.url,
            json.dumps({**ASK, **body}),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        found: dict[str, Any] = json.loads(out)
        return found

    return ask


@pytest.mark.proving
@pytest.mark.parametrize("beta", [False, True])
async def test_the_node_client_makes_one_message_of_it(node: Any, beta: bool) -> None:
    async with serve_script(ANSWER) as (relay, _):
        found = [await node(relay, stream=stream, beta=beta) for stream in (True, False)]

    for one in found:
        message = one["message"]
        kept = {k: v for k, v in without_unknown(message).items() if v is not None}
        assert kept.pop("id").startswith("msg_")
        assert kept == WHOLE
    assert found[0]["seen"][0] == "message_start"
    assert found[0]["seen"][-1] == "message_stop"


def of_gemini(part: dict[str, Any]) -> str:
    candidate = {"content": {"parts": [part], "role": "model"}, "finishReason": "STOP"}
    return f"data: {json.dumps({'candidates': [candidate]})}\r\n\r\n"


async def test_what_gemini_wants_back_comes_back_through_the_client() -> None:
    part = {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": "c2ln"}
    async with serve_upstream() as upstream, serve_relay(upstream, dialect="gemini") as relay:
        upstream.choose = lambda call: [
            head(),
            send(of_gemini({"text": "Sunny."} if b"functionResponse" in call.body else part)),
        ]
        async with client(relay) as sdk:
            runner = sdk.beta.messages.tool_runner(**ASK, tools=[get_weather])
            last = await runner.until_done()

    assert [block.type for block in last.content] == ["text"]
    _, answer, result = upstream.calls[1].json["contents"]
    assert answer["parts"][0]["thoughtSignature"] == "c2ln"
    assert result["parts"][0]["functionResponse"]["response"] == {"result": "sunny"}


@anthropic.beta_async_tool
async def get_weather() -> str:
    """Tell the weather."""
    return "sunny"
