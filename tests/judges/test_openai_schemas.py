"""Every body and chunk in OpenAI's words is as OpenAI's own schemas say."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RelayError
from app.framing.sse import Decoder, Message
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Step,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
)
from tests.dialects.streams import recordings
from tests.judges.recorded import STREAM, WAYS, played, rendered
from tests.judges.schemas import validate, validate_event
from tests.serving import Relay, read_messages, serve_relay
from tests.waiting import until

pytestmark = pytest.mark.proving

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
PATHS = pytest.mark.parametrize("path", [CHAT, RESPONSES])
HELLO = [{"role": "user", "content": "hello"}]
FUNCTION: dict[str, Any] = {"name": "weather", "parameters": {"type": "object", "properties": {}}}


def request(path: str, model: str = "openai/m", **fields: Any) -> dict[str, Any]:
    if path == CHAT:
        tool: dict[str, Any] = {"type": "function", "function": FUNCTION}
        asked: dict[str, Any] = {"messages": HELLO}
        if fields.get("stream"):
            asked["stream_options"] = {"include_usage": True}
    else:
        tool = {"type": "function", "strict": False, **FUNCTION}
        asked = {"input": "hello"}
    return {"model": model, "tools": [tool], **asked, **fields}


def judge_frames(path: str, messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Judge what a stream said; return its objects."""
    found = [json.loads(message.data) for message in messages if message.data != "[DONE]"]
    assert found
    for one in found:
        if path == RESPONSES:
            validate_event(one)
        elif "error" in one:
            validate("ErrorResponse", one)
        else:
            validate("CreateChatCompletionStreamResponse", one)
    return found


def judge_body(path: str, body: dict[str, Any]) -> None:
    validate("Response" if path == RESPONSES else "CreateChatCompletionResponse", body)


async def stream_of(relay: Relay, path: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    async with relay.client.stream("POST", path, json={**asked, "stream": True}) as answer:
        assert 200 == answer.status_code, await answer.aread()
        return judge_frames(path, await read_messages(answer))


# ---- the demo models ------------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("model", ["demo", "demo-reasoning", "demo-tools", "demo-drop"])
async def test_what_the_demo_says(path, model):
    async with serve_relay() as relay:
        await stream_of(relay, path, request(path, model, stream=True))
        answer = await relay.client.post(path, json=request(path, model))

        if answer.status_code == 200:
            judge_body(path, answer.json())
        else:
            assert "demo-drop" == model
            validate("ErrorResponse", answer.json())


# ---- scripted upstreams ---------------------------------------------------------------------


def logprobs(*tokens: str) -> dict[str, Any]:
    rows = [{"token": t, "logprob": -0.1, "bytes": [*t.encode()]} for t in tokens]
    return {"content": [{**row, "top_logprobs": rows} for row in rows], "refusal": None}


def call(**fields: Any) -> str:
    return event({"tool_calls": [{"index": 0, **fields}]})


CITED = {
    "type": "url_citation",
    "url_citation": {"start_index": 0, "end_index": 2, "url": "https://a.example", "title": "A"},
}
SAYINGS: dict[str, str] = {
    "text": text("a") + text("🌊") + FINISH + USAGE,
    "nothing": FINISH,
    "cut by length": text("a") + event(finish_reason="length"),
    "filtered": text("a") + event(finish_reason="content_filter"),
    "reasoning and text": event({"reasoning_content": "Hm"}) + text("a") + FINISH,
    "reasoning alone": event({"reasoning_content": "Hm"}) + FINISH,
    "a call": call(id="c1", type="function", function={"name": "weather", "arguments": "{}"}) + event(finish_reason="tool_calls"),
    "text and calls": event({"reasoning_content": "Hm"})
    + text("a")
    + call(id="c1", type="function", function={"name": "weather", "arguments": ""})
    + call(function={"arguments": '{"a":1}'})
    + event({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "weather"}}]})
    + event(finish_reason="tool_calls"),
    "a refusal": event({"refusal": "I "}) + event({"refusal": "won't"}) + FINISH,
    "text and a refusal": text("a") + event({"refusal": "No"}) + FINISH,
    "logprobs": event({"content": "ab"}, logprobs=logprobs("a", "b")) + FINISH,
    "logprobs of a refusal": event({"refusal": "No"}, logprobs={"content": None, "refusal": logprobs("No")["content"]}) + FINISH,
    "sources": text("ab") + event({"annotations": [CITED]}) + FINISH,
    "audio": event({"audio": {"id": "au1", "transcript": "a"}}) + event({"audio": {"data": "AAAA"}}) + FINISH,
    "a picture": event({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}) + FINISH,
}  # fmt: skip
BROKEN: dict[str, list[Step]] = {
    "cut": [head(), send(text("a"))],
    "cut in a call": [head(), send(call(id="c1", function={"name": "weather", "arguments": '{"a'}))],
    "failed": [head(), send(text("a") + 'data: {"error":{"message":"x","code":500}}\n\n')],
    "failed at once": [head(), send('data: {"error":{"message":"x","code":500}}\n\n')],
    "refused": reply("400 Bad Request", '{"error":{"message":"x"}}'),
    "too long": reply("400 Bad Request", '{"error":{"code":"context_length_exceeded"}}'),
    "no key": reply("401 Unauthorized", "{}"),
    "busy": reply("429 Too Many", "{}", retry_after="3"),
    "down": reply("503 Gone", "down"),
}  # fmt: skip


@PATHS
@pytest.mark.parametrize("saying", SAYINGS)
async def test_answers(path, saying):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(SAYINGS[saying] + DONE)]
        await stream_of(relay, path, request(path))
        answer = await relay.client.post(path, json=request(path))

        assert 200 == answer.status_code, answer.text
        judge_body(path, answer.json())


async def test_several_choices():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        said = (event({"content": "a"}, index=1) + event({"content": "b"})).encode()
        ends = (event(index=1, finish_reason="stop") + FINISH + USAGE + DONE).encode()
        upstream.script = [head(), send(said + ends)]
        found = await stream_of(relay, CHAT, request(CHAT, n=2))
        answer = await relay.client.post(CHAT, json=request(CHAT, n=2))

        assert {0, 1} == {row["index"] for one in found for row in one["choices"]}
        judge_body(CHAT, answer.json())
        assert 2 == len(answer.json()["choices"])


@PATHS
@pytest.mark.parametrize("breaking", BROKEN)
async def test_failures(path, breaking):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = BROKEN[breaking]
        asked = request(path)
        async with relay.client.stream("POST", path, json={**asked, "stream": True}) as answer:
            if answer.status_code == 200:
                last = judge_frames(path, await read_messages(answer))[-1]
                assert "error" in last or "response.failed" == last["type"]
            else:
                await answer.aread()
                validate("ErrorResponse", answer.json())
        whole = await relay.client.post(path, json=asked)
        if whole.status_code == 200:
            assert RESPONSES == path
            judge_body(path, whole.json())
            assert "failed" == whole.json()["status"]
        else:
            validate("ErrorResponse", whole.json())


@PATHS
async def test_stream_that_someone_stops(path):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("a")), Hold()]
        asked = request(path, stream=True)
        async with relay.client.stream("POST", path, json=asked) as answer:
            stream = answer.headers["stream-id"]
            decoder = Decoder()
            messages: list[Message] = []
            async for piece in answer.aiter_bytes():
                messages += decoder.feed(piece)
                if any('"a"' in message.data for message in messages):
                    await relay.client.post(f"/v1/streams/{stream}/cancel")
        judge_frames(path, messages)


async def test_response_in_the_background_at_any_time():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(SAYINGS["text and calls"]), Hold()]
        asked = request(RESPONSES, background=True)
        made = await relay.client.post(RESPONSES, json=asked)
        validate("Response", made.json())
        path = f"{RESPONSES}/{made.json()['id']}"

        async def says_something() -> bool:
            running = await relay.client.get(path)
            validate("Response", running.json())
            return bool(running.json()["output"])

        await until(says_something)
        stopped = await relay.client.post(f"{path}/cancel")
        validate("Response", stopped.json())
        assert "cancelled" == stopped.json()["status"]
        ended = await relay.client.get(path)
        validate("Response", ended.json())
        async with relay.client.stream("GET", path, params={"stream": "true"}) as again:
            judge_frames(RESPONSES, await read_messages(again))


# ---- what is no answer ----------------------------------------------------------------------


async def test_models():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = reply("200 OK", '{"data":[{"id":"m-1"}]}')
        models = (await relay.client.get("/v1/models")).json()

        validate("ListModelsResponse", models)
        assert "openai/m-1" in [row["id"] for row in models["data"]]
        for row in models["data"]:
            one = await relay.client.get(f"/v1/models/{row['id']}")
            validate("Model", one.json())


REFUSED: dict[str, tuple[str, str, bytes]] = {
    "no JSON": ("POST", CHAT, b"{"),
    "no messages": ("POST", CHAT, b"{}"),
    "a wrong type": ("POST", CHAT, b'{"messages":[{"role":"user","content":7}]}'),
    "no such model": ("POST", CHAT, b'{"model":"none","messages":[]}'),
    "no method": ("DELETE", CHAT, b""),
    "no JSON of a response": ("POST", RESPONSES, b"{"),
    "no input": ("POST", RESPONSES, b'{"model":"demo"}'),
    "no such response": ("GET", f"{RESPONSES}/resp_none", b""),
    "no response to stop": ("POST", f"{RESPONSES}/resp_none/cancel", b""),
    "no model of that name": ("GET", "/v1/models/none", b""),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refusals(what):
    method, path, body = REFUSED[what]
    async with serve_relay() as relay:
        headers = {"content-type": "application/json"}
        answer = await relay.client.request(method, path, content=body, headers=headers)

        assert 400 <= answer.status_code < 500
        validate("ErrorResponse", answer.json())


# ---- recorded streams -----------------------------------------------------------------------


@pytest.mark.parametrize("row", recordings())
@pytest.mark.parametrize("client_format", ["openai_chat", "openai_responses"])
def test_recorded_streams(row, client_format):
    path = CLIENT_FORMATS[client_format].path
    for part, status in WAYS:
        events = played(row, part=part, status=status)
        judge_frames(path, rendered(client_format, events))
        try:
            judge_body(path, CLIENT_FORMATS[client_format].render_result(STREAM, events))
        except RelayError as error:
            failure = CLIENT_FORMATS[client_format].render_failure(error, "req_1")
            validate("ErrorResponse", json.loads(failure.body))
        if client_format == "openai_responses" and part == 1:  # it may be asked for while it runs
            for count in range(1, len(events), max(1, len(events) // 8)):
                judge_body(
                    path, CLIENT_FORMATS[client_format].render_result(STREAM, events[:count])
                )
