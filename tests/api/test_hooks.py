"""Hooks on requests and answers: what readers and providers get, in every dialect."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from app.dialects.client_formats import CLIENT_FORMATS
from app.hooks import contract
from app.hooks.contract import Check, Text, Verdict
from app.hooks.redact import EMAIL, KEY, redact, redact_text
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Step,
    Until,
    Upstream,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.api.bodies import body_of
from tests.serving import HELLO, Relay, chat, serve_relay, text_of
from tests.serving import until as asked_until
from tests.waiting import until

SECRET = f"sk-{'abcdefghij0123456789'}"
ANSWER = f"Your key is {SECRET}, dear ann.smith@example.com! Keep it safe, and never tell anybody."
REDACTED = f"Your key is {KEY}, dear {EMAIL}! Keep it safe, and never tell anybody."

TABLES = """
[upstream.a]
base_url = "{a}"
dialect = "{dialect}"
options = ["*"]
[[route]]
name = "fast"
targets = ["a/m"]
{route}
{hooks}
"""
OVER = threading.Event()
"""Set once a test is over."""
GOING: set["asyncio.Task[Any]"] = set()
"""The calls of `goes_on`."""
REDACT = '[[hook]]\ncall = "redact"\nhold = 40\n'


def says(pieces: Sequence[str], *end: Step) -> list[Step]:
    return [
        head(),
        *(send(text(piece)) for piece in pieces),
        *(end or [send(FINISH + USAGE + DONE)]),
    ]


def words(answer: str, size: int = 4) -> list[str]:
    return [answer[at : at + size] for at in range(0, len(answer), size)]


def call_of(function: str, **fields: Any) -> str:
    """A hook of this module."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    return "\n".join(["[[hook]]", f'call = "{__name__}:{function}"', *lines, ""])


@contextlib.asynccontextmanager
async def serve_hooks(
    tmp_path: Any,
    hooks: str = REDACT,
    *,
    dialect: str = "openai_chat",
    route: str = "",
    **settings: Any,
) -> AsyncIterator[tuple[Relay, Upstream]]:
    async with serve_upstream() as upstream:
        path = tmp_path / "seseragi.toml"
        base_url = (
            upstream.base_url.removesuffix("/v1") if dialect == "anthropic" else upstream.base_url
        )
        path.write_text(TABLES.format(a=base_url, dialect=dialect, hooks=hooks, route=route))
        upstream.script = says(words(ANSWER))
        async with serve_relay(config=path, default_model="fast", **settings) as relay:
            OVER.clear()
            try:
                yield relay, upstream
            finally:
                OVER.set()
                await asyncio.gather(*GOING)


async def ask(relay: Relay, path: str, *, streams: bool = True) -> str:
    body = {**body_of(path, streams=streams)}
    if path not in ("/v1/ui/chat", "/v1/ag-ui", "/v1/chat"):
        body["model"] = "fast"
    body.pop("model", None) if path == "/v1/chat" else None
    answered = await relay.client.post(path, json=body)
    assert answered.status_code == 200, answered.text
    return answered.text


@pytest.mark.parametrize("name", CLIENT_FORMATS)
async def test_readers_of_every_dialect_get_the_redacted_answer(name, tmp_path):
    path = CLIENT_FORMATS[name].path
    async with serve_hooks(tmp_path) as (relay, _):
        found = await ask(relay, path)
    plain = "".join(character for character in found if character.isalnum())
    assert SECRET not in found
    assert "abcdefghij" not in found
    assert "smith" not in found
    assert "example" not in found
    assert KEY in found or "key" in plain


@pytest.mark.parametrize("size", [1, 3, 8, 1000])
async def test_an_answer_is_the_same_in_whatever_pieces(size, log, tmp_path):
    async with serve_hooks(tmp_path, log=log) as (relay, upstream):
        upstream.script = says(words(ANSWER, size))
        events = await chat(relay)
        stream = events[0]["stream"]
        state = (await relay.client.get(f"/v1/streams/{stream}")).json()
    assert text_of(events) == state["text"] == REDACTED
    assert events[-1]["status"] == "completed"
    assert (events[-1]["usage"]["input_tokens"], events[-1]["usage"]["output_tokens"]) == (3, 2)


async def test_a_secret_at_the_end_of_what_is_held_is_not_cut(tmp_path):
    long = "sk-" + "a" * 38
    async with serve_hooks(tmp_path) as (relay, upstream):
        for before in range(30, 130, 7):
            upstream.script = says(words("x " * (before // 2) + long + " and more " * 20, 3))
            found = text_of(await chat(relay))
            assert KEY in found
            assert "aaa" not in found


CLAUDE: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 3}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        for word in words(ANSWER)
    ),
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
PLACE = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
PART = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
ITEM = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [PART],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [ITEM],
}
RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
    {"type": "response.content_part.added", **PLACE, "part": {**PART, "text": ""}},
    *({"type": "response.output_text.delta", **PLACE, "delta": word} for word in words(ANSWER)),
    {"type": "response.output_text.done", **PLACE, "text": ANSWER},
    {"type": "response.content_part.done", **PLACE, "part": PART},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.completed", "response": RESPONSE},
]
OWN = {"anthropic": ("/v1/messages", CLAUDE), "openai_responses": ("/v1/responses", RESPONSES)}


@pytest.mark.parametrize("dialect", OWN)
async def test_a_provider_of_the_clients_dialect_is_no_way_around(dialect, tmp_path):
    path, payloads = OWN[dialect]
    body = "".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in payloads)
    async with serve_hooks(tmp_path, dialect=dialect) as (relay, upstream):
        upstream.script = [head(), send(body)]
        asked = {**body_of(path), "model": "fast"}
        asked["metadata"] = {"user_id": f"{SECRET}"} if dialect == "anthropic" else {}
        asked |= {"input": f"Is {SECRET} safe?"} if "input" in asked else {}
        answered = (await relay.client.post(path, json=asked)).text
        whole = (await relay.client.post(path, json={**asked, "stream": False})).text
    for found in (answered, whole):
        assert KEY in found
        assert "abcdefghij" not in found
    if dialect == "openai_responses":
        assert "abcdefghij" not in json.dumps(upstream.calls[0].json["input"])


async def test_reasoning_and_arguments_are_checked_and_logprobs_left_out(tmp_path):
    arguments = json.dumps({"key": SECRET})
    call = {
        "index": 0,
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }
    logprobs = {"content": [{"token": SECRET, "logprob": -1, "top_logprobs": []}]}
    async with serve_hooks(tmp_path) as (relay, upstream):
        pieces = [
            event({"reasoning_content": f"I know {SECRET}."}),
            event({"content": f"It is {SECRET}."}, logprobs=logprobs),
            event({"tool_calls": [call]}),
            event(finish_reason="tool_calls"),
        ]
        upstream.script = [head(), send("".join(pieces) + DONE)]
        events = await chat(relay)
    found = {e["type"]: e for e in events}
    assert SECRET not in json.dumps(events)
    assert found["reasoning.delta"]["text"] == f"I know {KEY}."
    assert json.loads(found["tool_call.end"]["arguments"]) == {"key": KEY}
    assert "logprobs" not in found


SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "n", "schema": {"type": "object", "description": SECRET}},
}
TEXTS = [
    {"messages": [{"role": "user", "content": SECRET}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": SECRET}]}]},
    {"messages": [{"role": "system", "content": SECRET}, {"role": "user", "content": "x"}]},
    {"messages": [{"role": "user", "content": "x"}], "provider_options": {"suffix": SECRET}},
    {"messages": [{"role": "user", "content": "x"}], "response_format": SCHEMA},
    {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}],
    },
    {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": SECRET})}}]},
            {"role": "tool", "tool_call_id": "c", "content": SECRET},
        ]
    },
]  # fmt: skip


@pytest.mark.parametrize("body", TEXTS)
async def test_providers_get_no_text_of_a_request_unchecked(body, tmp_path):
    async with serve_hooks(tmp_path) as (relay, upstream):
        await chat(relay, body)
    sent = json.dumps(upstream.calls[0].json)
    assert KEY in sent
    assert SECRET not in sent


async def stop(check: Check) -> Verdict | None:
    if any("forbidden" in one.text for one in check.texts):
        return Verdict(stop="a forbidden word")
    return None


async def note(check: Check) -> dict[str, Any]:
    return {"note": f"seen {check.stage} of {check.route}"}


async def shout(check: Check) -> dict[str, Any]:
    return {"texts": [one.text if one.kind == "name" else one.text.upper() for one in check.texts]}


async def hang(check: Check) -> None:
    await asyncio.sleep(60)


async def fail(check: Check) -> None:
    raise ValueError(check.texts[0].text)


async def rubbish(check: Check) -> Any:
    return {"texts": []}


async def wrong(check: Check) -> Any:
    return {"text": "x"}


async def goes_on(check: Check) -> None:
    """Go on to the end of the test, whatever cancels it, as a loop of tries that catches all."""
    tries, calling = 200, asyncio.current_task()
    assert calling is not None
    GOING.add(calling)
    calling.add_done_callback(GOING.discard)
    while tries and not OVER.is_set():
        tries -= 1
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.05)
    raise ValueError(check.texts[0].text)  # which nobody waits for


async def gives_up(check: Check) -> None:
    raise asyncio.CancelledError  # as by a task of its own that it has cancelled


async def test_a_request_is_stopped_before_the_provider(tmp_path):
    async with serve_hooks(tmp_path, call_of("stop", name="words")) as (relay, upstream):
        body = {"messages": [{"role": "user", "content": "the forbidden word"}]}
        refused = await relay.client.post("/v1/chat", json=body)
    assert refused.status_code == 400
    assert refused.json()["code"] == "content_filtered"
    assert "'words' stopped the request: a forbidden word" in refused.json()["detail"]
    assert not upstream.calls


@pytest.mark.parametrize("before", [0, 300])
async def test_an_answer_is_stopped_and_its_provider_cancelled(before, tmp_path):
    async with serve_hooks(tmp_path, call_of("stop", on=["answer"], hold=20)) as (relay, upstream):
        answer = "fine " * (before // 5) + "a forbidden word " + "and more " * 9
        upstream.script = says(words(answer), Hold())
        answered = await relay.client.post("/v1/chat", json=HELLO)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 10)
    assert "forbidden word and" not in answered.text
    if not before:
        assert answered.status_code == 400
        assert answered.json()["code"] == "content_filtered"
    else:
        end = json.loads(answered.text.rpartition("data: ")[2].partition("\n")[0])
        assert (end["status"], end["error"]["code"]) == ("failed", "content_filtered")
        shown = [line for line in answered.text.splitlines() if "text.delta" in line]
        assert "forbidden" not in "".join(shown)
        assert end["usage"]["output_tokens"] > 70


async def test_hooks_run_in_order_and_may_note(tmp_path):
    hooks = REDACT + call_of("shout", on=["answer"]) + call_of("note", name="eye")
    async with serve_hooks(tmp_path, hooks) as (relay, _):
        events = await chat(relay)
    assert text_of(events) == REDACTED.upper()
    notes = [e["message"] for e in events if e["type"] == "notice"]
    assert notes == ["hook 'eye': seen request of fast", "hook 'eye': seen answer of fast"]


async def empty(check: Check) -> dict[str, Any]:
    return {"texts": [""] * len(check.texts)}


async def test_names_stay_and_a_request_without_texts_is_told(tmp_path):
    tools = [{"type": "function", "function": {"name": "find_it", "description": "finds"}}]
    async with serve_hooks(tmp_path, call_of("shout", on=["request"])) as (relay, upstream):
        await chat(relay, tools=tools)
    [tool] = upstream.calls[0].json["tools"]
    assert tool["function"]["name"] == "find_it"
    assert tool["function"]["description"] == "FINDS"
    async with serve_hooks(tmp_path, call_of("empty", on=["request"])) as (relay, upstream):
        answered = await relay.client.post("/v1/chat", json=HELLO)
    assert answered.status_code in (200, 400, 500)
    assert "Traceback" not in answered.text


async def test_a_hook_of_a_route_leaves_others_alone(tmp_path):
    more = '[[route]]\nname = "other"\ntargets = ["a/m"]'
    hooks = call_of("shout", routes=["other"])
    async with serve_hooks(tmp_path, hooks, route=more) as (relay, _):
        first = await chat(relay)
        second = await chat(relay, model="other")
    assert text_of(first) == ANSWER
    assert text_of(second) == ANSWER.upper()


BROKEN = ["hang", "fail", "rubbish", "wrong", "gives_up", "goes_on"]


@pytest.mark.parametrize("stage", ["request", "answer"])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_hook_lets_nothing_pass(name, stage, tmp_path):
    async with serve_hooks(tmp_path, call_of(name, name=name, on=[stage], timeout_s=0.2)) as (
        relay,
        upstream,
    ):
        refused = await relay.client.post("/v1/chat", json=HELLO)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["code"] == "overloaded"
    assert refused.json()["retryable"] is True
    assert f"{name!r} failed" in refused.text
    assert "failed, and nothing may pass unchecked" in refused.text
    assert SECRET not in refused.text
    assert (stage == "answer") == bool(upstream.calls)


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_hook_passes_all_if_the_settings_say_so(name, tmp_path):
    hooks = call_of(name, timeout_s=0.1, on_failure="open", hold=100)
    async with serve_hooks(tmp_path, hooks) as (relay, _):
        events = await chat(relay)
    assert text_of(events) == ANSWER
    notes = [e["message"] for e in events if e["type"] == "notice"]
    assert len(notes) == 2
    assert all("it failed, so that this is unchecked" in one for one in notes)


@pytest.mark.parametrize("name", ["hang", "goes_on"])
async def test_a_cancel_during_a_call_ends_the_stream(name, tmp_path):
    async with serve_hooks(tmp_path, call_of(name, on=["answer"], timeout_s=30)) as (
        relay,
        upstream,
    ):
        upstream.script = says(words(ANSWER * 9), Hold())
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        at = started.headers["location"].removesuffix("/events")
        await asyncio.wait_for(upstream.called.wait(), 10)
        await asyncio.sleep(0.2)
        async with asyncio.timeout(2):
            await relay.client.post(f"{at}/cancel")
            await upstream.calls[0].closed.wait()
        state = (await relay.client.get(at)).json()
    assert (state["status"], state["text"]) == ("cancelled", "")


@contextlib.asynccontextmanager
async def serve_endpoint(script: Any) -> AsyncIterator[Upstream]:
    async with serve_upstream() as endpoint:
        if callable(script):
            endpoint.choose = script
        else:
            endpoint.script = script
        yield endpoint


def redacted(text: str) -> str:
    """Redact a short text, for which other tasks need not run."""
    with pytest.raises(StopIteration) as found:
        redact_text(text).send(None)
    return str(found.value.value)


def redacting(call: Call) -> list[Step]:
    assert call.headers["authorization"] == "Bearer hook-key"
    assert call.json["route"] == "fast"
    texts = [redacted(one["text"]) for one in call.json["texts"]]
    return reply("200 OK", json.dumps({"texts": texts}))


async def test_an_endpoint_checks_and_its_connection_is_kept(tmp_path):
    async with serve_endpoint(redacting) as endpoint:
        hooks = f'[[hook]]\nurl = "{endpoint.base_url}"\nkey_env = "HOOK_KEY"\nhold = 30\n'
        async with serve_hooks(tmp_path, hooks, environ={"HOOK_KEY": "hook-key"}) as (relay, _):
            events = await chat(relay)
    assert text_of(events) == REDACTED
    assert 2 <= len(endpoint.calls) <= 8


async def test_null_of_an_endpoint_passes_everything(tmp_path):
    async with serve_endpoint(reply("200 OK", "null")) as endpoint:
        hooks = f'[[hook]]\nurl = "{endpoint.base_url}"\n'
        async with serve_hooks(tmp_path, hooks) as (relay, _):
            events = await chat(relay)
    assert text_of(events) == ANSWER
    assert events[-1]["status"] == "completed"
    assert endpoint.calls


async def fail_later(check: Check) -> None:
    if check.stage == "answer" and any("Stop" in one.text for one in check.texts):
        raise ValueError


async def test_a_hook_that_fails_in_mid_answer_ends_it_as_failed(tmp_path):
    hooks = call_of("fail_later", name="mine", hold=20)
    async with serve_hooks(tmp_path, hooks) as (relay, upstream):
        shown = Until()
        fine = [send(text(piece)) for piece in words("fine " * 40)]
        upstream.script = [head(), *fine, shown, send(text("Stop " + "and more " * 20)), Hold()]
        asking = asyncio.create_task(chat(relay))
        await until(lambda: any(run.events > 3 for run in relay.hub.progress(most=1)))
        shown.told.set()
        events = await asking
    assert text_of(events).startswith("fine fine")
    assert "Stop" not in text_of(events)
    end = events[-1]
    assert (end["status"], end["error"]["code"]) == ("failed", "overloaded")
    assert end["error"]["retryable"] is True
    assert end["error"]["retry_after_s"] == 1
    assert "the hook 'mine' failed" in end["error"]["message"]


ENDPOINTS: dict[str, list[Step]] = {
    "hangs": [Hold()],
    "status": reply("500 Oops", "{}"),
    "quoting status": reply("400 Bad", '{"error": {"message": "what is Keep it safe?"}}'),
    "html": reply("200 OK", "<html>", "text/html"),
    "other JSON": reply("200 OK", '{"texts": "x"}'),
    "unknown key": reply("200 OK", '{"text": ["x"]}'),
    "too few texts": reply("200 OK", '{"texts": []}'),
    "endless": [head(content_type="application/json"), send("[" * 200_000), Hold()],
    "cut": [head(content_length="99"), send("{"), wait(0.05)],
}


@pytest.mark.parametrize("name", ENDPOINTS)
async def test_a_broken_endpoint_lets_nothing_pass(name, tmp_path, monkeypatch):
    log = CapturingLogger()
    monkeypatch.setattr(contract, "log", log)
    async with serve_endpoint(ENDPOINTS[name]) as endpoint:
        hooks = f'[[hook]]\nurl = "{endpoint.base_url}"\ntimeout_s = 0.3\non = ["answer"]\n'
        async with serve_hooks(tmp_path, hooks) as (relay, _):
            refused = await relay.client.post("/v1/chat", json=HELLO)
    assert refused.status_code == 503
    assert SECRET not in refused.text
    assert "hook failed" in repr(log.calls)
    assert "Keep it safe" not in repr(log.calls)


async def test_records_have_the_redacted_answer_and_usage_is_the_providers(tmp_path):
    hooks = call_of("shout", on=["answer"], hold=5)
    async with serve_hooks(tmp_path, hooks) as (relay, upstream):
        upstream.script = says(words(ANSWER), wait(0.02))
        events = await chat(relay)
    assert text_of(events) == ANSWER.upper()
    assert events[-1]["status"] == "failed"
    assert events[-1]["usage"]["output_tokens"] == pytest.approx(len(ANSWER) / 4, rel=0.1)


async def test_text_that_came_while_a_hook_failed_is_counted(tmp_path):
    first, more = "word " * 20, "text " * 200
    hooks = call_of("hang", on=["answer"], hold=5, timeout_s=0.2)
    async with serve_hooks(tmp_path, hooks) as (relay, upstream):
        upstream.script = [head(), send(text(first)), wait(0.05), send(text(more)), Hold()]
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        at = started.headers["location"].removesuffix("/events")
        await asked_until(relay, at.rpartition("/")[2], lambda reply: "usage" in reply.json())
        state = (await relay.client.get(at)).json()
    assert state["status"] == "failed"
    assert state["usage"]["output_tokens"] >= len(first + more) / 4


async def test_redaction_is_linear():
    hostile = ["sk-" * 60_000, "a@" * 60_000, "a." * 60_000, "eyJ" * 60_000, "x@y." * 40_000]
    async with asyncio.timeout(5):
        for one in hostile:
            await redact(Check("answer", "r", "s", [Text("text", one)]))


async def test_the_held_text_of_a_rescue_is_whole(tmp_path):
    async with serve_hooks(tmp_path, route="rescue = true", attempts=2) as (relay, upstream):
        parts = iter([says(words(ANSWER)[:9], wait(0.02)), says(words(ANSWER[36:]))])
        upstream.choose = lambda call: next(parts)
        events = await chat(relay)
    assert text_of(events) == REDACTED
    assert events[-1]["rescued"] is True


ERROR = f'{{"error":{{"message":"no ann.smith@example.com: {SECRET}"}}}}'
ENDS: dict[str, list[list[Step]]] = {
    "refused": [reply("503 Busy", ERROR), reply("400 Bad", ERROR)],
    "refused, then answered": [reply("503 Busy", ERROR), says(["fine"])],
    "failed within the answer": [[head(), send(text("fine ")), send(f"data: {ERROR}\n\n")]],
}


@pytest.mark.parametrize("name", ENDS)
async def test_errors_of_a_provider_are_checked_in_ends_and_notices(name, tmp_path):
    scripts = ENDS[name]
    async with serve_hooks(tmp_path, attempts=len(scripts)) as (relay, upstream):
        upstream.choose = lambda _: scripts[len(upstream.calls) - 1]
        reply = await relay.client.post("/v1/chat", json=HELLO)
        log = await relay.client.get(f"/v1/streams/{reply.headers['stream-id']}/events")

    assert len(scripts) == len(upstream.calls)
    for shown in (reply.text, log.text):
        assert "smith" not in shown
        assert SECRET not in shown
    assert (name == "refused") == (EMAIL in log.text)  # the messages of failures are the relay's
