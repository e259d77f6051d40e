"""An answer whose upstream dies is continued by another target, in every dialect, at every token.

The first upstream plays an answer up to a token and breaks; the second one has the rest.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from structlog.testing import capture_logs

from app.framing.sse import Decoder
from app.ledger.config import PriceConfig
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Reset,
    Step,
    Upstream,
    chunk,
    chunked_head,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.api.bodies import body_of
from tests.dialects import streams
from tests.serving import HELLO, Relay, chat, read_messages, serve_relay, text_of
from tests.waiting import until

TOKENS = (
    *("The", " cat", " sat", " on", " the", " mat", ".", "\n\n", "It", " was", " a", " very"),
    *(" very", " hot", " day", ":", " ", "30", " °C", "!\n", "```", "python", "\n", "    print"),
    *(
        "(",
        "'",
        "ha",
        " ha",
        " ha",
        "'",
        ")\n",
        "```",
        "\n\n",
        "猫",
        "は",
        "座",
        "った",
        "。",
        " 🐈",
    ),
    *("  ", "\n", "1", ".", " One", "\n", "2", ".", " Two", "\n", "The", " cat", " sat", "."),
)
ANSWER = "".join(TOKENS)

TIMES = {"event_gap_timeout_s": 5, "idle_timeout_s": 5}
ROUTE = """
[upstream.a]
base_url = "{a}"
{of_a}
[upstream.b]
base_url = "{b}"
{of_b}
[upstream.c]
base_url = "{c}"
{of_a}
[[route]]
name = "fast"
targets = ["a/m-a", "b/{model}", "c/m-c"]
rescue = {rescue}
"""
PREFIX = 'quirks.prefill = "prefix"'


class Targets:
    """Three upstreams: `a` dies, `b` continues, `c` has nothing to say."""

    def __init__(self, relay: Relay, upstreams: Sequence[Upstream]) -> None:
        self.relay = relay
        self.a, self.b, self.c = upstreams


@contextlib.asynccontextmanager
async def serve_targets(
    tmp_path: Any,
    *,
    of_a: str = "",
    of_b: str = PREFIX,
    model: str = "m-b",
    rescue: str = "true",
    **settings: Any,
) -> AsyncIterator[Targets]:
    async with contextlib.AsyncExitStack() as stack:
        upstreams = [await stack.enter_async_context(serve_upstream()) for _ in range(3)]
        a, b, c = (upstream.base_url for upstream in upstreams)
        path = tmp_path / "seseragi.toml"
        path.write_text(
            ROUTE.format(a=a, b=b, c=c, of_a=of_a, of_b=of_b, model=model, rescue=rescue)
        )
        settings = {"config": path, "default_model": "fast", **TIMES, **settings}
        relay = await stack.enter_async_context(serve_relay(**settings))
        targets = Targets(relay, upstreams)
        targets.c.script = reply("503 Busy", "{}")
        yield targets


def begin(count: int, *end: Step) -> list[Step]:
    """The first tokens of the answer, and how the connection ends."""
    return [head(), send("".join(map(text, TOKENS[:count]))), *end]


def rest_of(call: Call, *, echo: bool = False) -> list[Step]:
    """What a provider sends that continues the last turn of the assistant."""
    last = call.json["messages"][-1]
    assert last["role"] == "assistant"
    assert last["prefix"] is True
    assert ANSWER.startswith(last["content"])
    assert last["content"].rstrip() == last["content"]
    rest = ANSWER if echo else ANSWER[len(last["content"]) :]
    pieces = [rest[at : at + 7] for at in range(0, len(rest), 7)]
    return [head(), *map(send, map(text, pieces)), send(FINISH + USAGE + DONE)]


def asked_to_go_on(call: Call) -> list[Step]:
    """What a model sends that was asked to continue, and repeats its last line."""
    *_, last, ask = call.json["messages"]
    assert (last["role"], ask["role"]) == ("assistant", "user")
    assert ANSWER.startswith(last["content"])
    begin_at = len(last["content"]) - len(last["content"].split("\n")[-1])
    rest = ANSWER[begin_at:]
    return [head(), *(send(text(one)) for one in rest), send(FINISH + USAGE + DONE)]


CUTS: dict[str, list[Step]] = {
    "end": [wait(0.02)],
    "reset": [wait(0.1), Reset()],
    "error event": [send('data: {"error":{"message":"no","code":"server_error"}}\n\n')],
}


def check(events: list[dict[str, Any]], answer: str = ANSWER) -> None:
    kinds = [event["type"] for event in events]
    assert text_of(events) == answer
    assert kinds.count("text.start") == kinds.count("text.end") == 1
    assert kinds.count("stream.target") == 2
    assert kinds.count("stream.end") == 1
    assert [e["code"] for e in events if e["type"] == "notice"] == ["rescue"]
    assert {e["block"] for e in events if e["type"].startswith("text.")} == {0}
    end = events[-1]
    assert (end["status"], end["finish_reason"], end["rescued"]) == ("completed", "stop", True)


async def cut_at_every_token(
    targets: Targets, rest: Callable[[Call], list[Step]], *end: Step, first: int = 1
) -> None:
    """Whichever target is asked first dies: after a few times its breaker is open."""

    def choose(call: Call) -> list[Step]:
        if len(call.json["messages"]) == 1:
            return begin(int(call.json["seed"]), *end)
        return rest(call)

    targets.a.choose = targets.b.choose = targets.c.choose = choose
    for count in range(first, len(TOKENS) + 1):
        check(await chat(targets.relay, seed=count))


@pytest.mark.parametrize("cut", CUTS)
async def test_no_word_is_lost_or_repeated_wherever_the_answer_is_cut(cut, tmp_path):
    async with serve_targets(tmp_path, of_a=PREFIX) as targets:
        await cut_at_every_token(targets, rest_of, *CUTS[cut])


OTHERS: dict[str, list[Step]] = {
    "stalls": [Hold()],
    "pings": [step for _ in range(40) for step in (send(": ping\n\n"), wait(0.05))],
    "garbles": [send("data: {not JSON\n\n"), Hold()],
    "says an overload": [send('data: {"error":{"type":"overloaded_error"}}\n\n')],
    "ends within a character": [send('data: {"choices":[{"delta":{"content":"'), wait(0.02)],
}


@pytest.mark.parametrize("name", OTHERS)
async def test_an_upstream_may_die_in_other_ways(name, tmp_path):
    times: dict[str, Any] = {"event_gap_timeout_s": 0.4, "idle_timeout_s": 0.4}
    async with serve_targets(tmp_path, **times) as targets:
        targets.a.script, targets.b.choose = begin(9, *OTHERS[name]), rest_of
        check(await chat(targets.relay))
        if isinstance(OTHERS[name][-1], Hold):
            await asyncio.wait_for(targets.a.calls[0].closed.wait(), 10)


async def test_a_provider_that_repeats_the_whole_text_is_continued(tmp_path):
    async with serve_targets(tmp_path, of_a=PREFIX) as targets:
        await cut_at_every_token(targets, lambda call: rest_of(call, echo=True))


async def test_a_model_that_is_asked_to_go_on_repeats_nothing(tmp_path):
    async with serve_targets(tmp_path, of_b="") as targets:
        await cut_at_every_token(targets, asked_to_go_on)


async def test_the_rest_may_fail_over_before_it_begins_and_is_not_continued_twice(tmp_path):
    async with serve_targets(tmp_path, attempts=1) as targets:
        targets.a.script = begin(9)
        targets.b.script = reply("503 Busy", "{}")
        targets.c.script = [head(), send(text(" was it.") + FINISH + DONE)]
        events = await chat(targets.relay)
        assert text_of(events) == ANSWER[: ANSWER.index(" was")] + " was it."
        assert [e["code"] for e in events if e["type"] == "notice"] == ["rescue", "rescue"]
        assert events[-1]["status"] == "completed"

        targets.b.script = [head(), send(text(" was")), wait(0.02)]
        events = await chat(targets.relay)
        assert text_of(events) == ANSWER[: ANSWER.index(" a very")]
        assert [e["type"] for e in events[-2:]] == ["text.end", "stream.end"]
        assert (events[-1]["status"], events[-1]["rescued"]) == ("failed", True)
        assert events[-1]["error"]["code"] == "upstream_truncated"


async def test_an_answer_that_nobody_continues_ends_as_failed(tmp_path):
    async with serve_targets(tmp_path, attempts=1) as targets:
        targets.a.script = begin(9)
        targets.b.script = targets.c.script = reply("503 Busy", "{}")
        events = await chat(targets.relay)

    assert text_of(events) == "".join(TOKENS[:9])
    assert [e["type"] for e in events[-2:]] == ["text.end", "stream.end"]
    assert events[-1]["status"] == "failed"
    assert "rescued" in events[-1]
    message = events[-1]["error"]["message"]
    assert "'a' ended its answer early" in message
    assert "'b'" in message
    assert "'c'" in message


async def test_who_refuses_to_continue_is_not_the_reason_of_the_failure(tmp_path):
    async with serve_targets(tmp_path, attempts=1) as targets:
        targets.a.script = begin(9)
        refusal = '{"error":{"message":"no prefix here","type":"invalid_request_error"}}'
        targets.b.script = reply("400 Bad", refusal)
        events = await chat(targets.relay)

    end = events[-1]
    assert (end["status"], end["error"]["code"]) == ("failed", "upstream_truncated")
    assert "'a' ended its answer early" in end["error"]["message"]
    assert "'b/m-b' did not continue it: " in end["error"]["message"]
    assert "no prefix here" in end["error"]["message"]


@pytest.mark.parametrize(("attempts", "status"), [(1, "failed"), (2, "completed")])
async def test_a_target_continues_its_own_answer_if_its_attempts_allow_it(
    attempts, status, tmp_path
):
    path = tmp_path / "seseragi.toml"
    async with serve_upstream() as upstream:
        path.write_text(
            f'[upstream.a]\nbase_url = "{upstream.base_url}"\n{PREFIX}\n'
            '[[route]]\nname = "fast"\ntargets = ["a/m-a"]\nrescue = true\n'
        )
        upstream.choose = lambda call: (
            begin(9) if len(call.json["messages"]) == 1 else rest_of(call)
        )
        settings: dict[str, Any] = {"config": path, "default_model": "fast", **TIMES}
        async with serve_relay(**settings, attempts=attempts) as relay:
            events = await chat(relay)

    assert events[-1]["status"] == status
    assert (text_of(events) == ANSWER) == (status == "completed")


TOOL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
OBJECT = {"type": "json_object"}
UNSUITABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "within a tool call": (text("Let me") + event({"tool_calls": [TOOL]}), {}),
    "within reasoning": (event({"reasoning_content": "Hm"}), {}),
    "within a refusal": (event({"refusal": "I can"}), {}),
    "several choices": (text("a"), {"n": 2}),
    "a schema": (text('{"a'), {"response_format": SCHEMA}),
    "an object": (text('{"a'), {"response_format": OBJECT}),
    "no tokens left": (text("abcdefgh" * 4), {"max_tokens": 8}),
}


@pytest.mark.parametrize("name", UNSUITABLE)
async def test_other_answers_end_as_failed(name, tmp_path):
    body, fields = UNSUITABLE[name]
    async with serve_targets(tmp_path) as targets:
        targets.a.script = [head(), send(body), wait(0.02)]
        with capture_logs() as lines:
            events = await chat(targets.relay, fields)
            await until(lambda: not len(targets.relay.hub._runs))

    assert not [line for line in lines if line["log_level"] == "error"]
    assert (events[-1]["status"], "rescued" in events[-1]) == ("failed", False)
    assert not targets.b.calls
    assert not targets.c.calls


async def test_without_the_setting_an_answer_ends_as_failed(tmp_path):
    async with serve_targets(tmp_path, rescue="false") as targets:
        targets.a.script = begin(9)
        events = await chat(targets.relay)

    assert events[-1]["status"] == "failed"
    assert not targets.b.calls


async def test_reasoning_before_the_text_stays_and_that_of_the_rest_is_hidden(tmp_path):
    async with serve_targets(tmp_path) as targets:
        thought = event({"reasoning_content": "Hm."})
        targets.a.script = [head(), send(thought + text("The cat")), wait(0.02)]
        again = event({"reasoning_content": "Again."})
        call = event({"tool_calls": [{**TOOL, "function": {"name": "f", "arguments": "{}"}}]})
        finish = event(finish_reason="tool_calls")
        targets.b.script = [head(), send(again + text(" sat.") + call + finish + DONE)]
        events = await chat(targets.relay)

    kinds = [event["type"] for event in events if event["type"] != "notice"]
    assert kinds == [
        *("stream.start", "stream.target"),
        *("reasoning.start", "reasoning.delta", "reasoning.end"),
        *("text.start", "text.delta", "stream.target", "text.delta", "text.end"),
        *("tool_call.start", "tool_call.delta", "tool_call.end"),
        *("choice.end", "stream.end"),
    ]
    starts = [event.get("block") for event in events if event["type"].endswith(".start")]
    assert starts == [None, 0, 1, 2]


PRICES = [
    PriceConfig(target="a/*", input=1, output=10),
    PriceConfig(target="b/*", input=2, output=20),
]
COUNTED = (
    'data: {"id":"up-1","choices":[],"usage":'
    '{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050}}\n\n'
)


async def test_both_parts_are_counted_and_charged(log, tmp_path):
    async with serve_targets(tmp_path, prices=PRICES, log=log) as targets:
        targets.a.script = begin(9)
        targets.b.script = [head(), send(text(" rest") + FINISH + COUNTED + DONE)]
        events = await chat(targets.relay)

    end = events[-1]
    first = end["usage"]["output_tokens"] - 50
    asked = end["usage"]["input_tokens"] - 1000
    assert 5 <= first <= 15
    assert 1 <= asked <= 20
    assert end["usage"]["estimated"]
    assert float(end["cost"]) == pytest.approx((asked + 2000 + 10 * first + 1000) / 1e6)
    assert end["usage"]["cost"] == end["cost"]
    [usage] = [event for event in events if event["type"] == "usage"]
    assert usage["output_tokens"] == end["usage"]["output_tokens"]


async def test_a_limit_of_the_answer_counts_for_both_parts(tmp_path):
    async with serve_targets(tmp_path) as targets:
        targets.a.script = begin(9)
        targets.b.choose = rest_of
        await chat(targets.relay, max_tokens=100)

    [call] = targets.b.calls
    assert 80 <= call.json["max_tokens"] <= 96


async def test_a_reader_that_comes_back_gets_one_answer(log, tmp_path):
    async with serve_targets(tmp_path, log=log) as targets:
        targets.a.script = begin(9)
        targets.b.choose = rest_of
        events = await chat(targets.relay)
        stream = events[0]["stream"]
        for after in range(len(events)):
            reply = await targets.relay.client.get(
                f"/v1/streams/{stream}/events", headers={"last-event-id": f"{stream}.{after}"}
            )
            found = [json.loads(one.data) for one in Decoder().feed(reply.content)]
            assert found == events[after:]
        state = (await targets.relay.client.get(f"/v1/streams/{stream}")).json()

    assert (state["text"], state["target"]["upstream"]) == (ANSWER, "b")


@pytest.mark.parametrize("when", ["waiting", "silent", "answering"])
async def test_a_cancelled_rest_closes_the_block_and_ends_once(when, log, tmp_path):
    async with serve_targets(tmp_path, attempts=1, log=log) as targets:
        targets.a.script = begin(9)
        later = [send(text(" was")), Hold()] if when == "answering" else [Hold()]
        targets.b.script = [Hold()] if when == "waiting" else [head(), *later]
        async with targets.relay.client.stream("POST", "/v1/chat", json=HELLO) as reply:
            reading = asyncio.create_task(read_messages(reply))
            await asyncio.wait_for(targets.b.called.wait(), 10)
            await asyncio.sleep(0.1)
            stream = reply.headers["stream-id"]
            await targets.relay.client.post(f"/v1/streams/{stream}/cancel")
            events = [json.loads(message.data) for message in await reading]

    kinds = [event["type"] for event in events]
    assert kinds.count("text.end") == kinds.count("stream.end") == 1
    assert (kinds[-1], events[-1]["status"]) == ("stream.end", "cancelled")
    await asyncio.wait_for(targets.b.calls[0].closed.wait(), 10)


def sse(*payloads: dict[str, Any]) -> Step:
    return send("".join(f"event: {p['type']}\ndata: {json.dumps(p)}\n\n" for p in payloads))


def claude() -> list[Step]:
    counts = {"input_tokens": 3, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    start = {**message, "model": "claude-x", "usage": counts}
    block = {"type": "text", "text": ""}
    deltas = [{"type": "text_delta", "text": token} for token in TOKENS[:20]]
    return [
        head(),
        sse({"type": "message_start", "message": start}),
        sse({"type": "content_block_start", "index": 0, "content_block": block}),
        sse(*({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas)),
        wait(0.02),
    ]


def openai_responses() -> list[Step]:
    response = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress"}
    response |= {"model": "gpt-x", "output": [], "usage": None}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    delta = {"type": "response.output_text.delta", **place, "logprobs": []}
    added = {"type": "response.output_item.added", "output_index": 0}
    return [
        head(),
        sse({"type": "response.created", "response": response}),
        sse({**added, "item": {**item, "content": []}}),
        sse({"type": "response.content_part.added", **place, "part": part}),
        sse(*({**delta, "delta": token} for token in TOKENS[:20])),
        wait(0.02),
    ]


DYING: dict[str, list[Step]] = {
    "openai_chat": begin(20),
    "anthropic": claude(),
    "openai_responses": openai_responses(),
}
SAY_HELLO: list[Any] = [{"role": "user", "content": "hello"}]


async def ask_chat(url: str, http: Any) -> str:
    async with AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        stream = client.chat.completions.stream(model="fast", messages=SAY_HELLO)
        async with stream as events:
            pieces = [one.delta async for one in events if one.type == "content.delta"]
            final = await events.get_final_completion()
        whole = await client.chat.completions.create(model="fast", messages=SAY_HELLO)
    [choice] = final.choices
    assert choice.finish_reason == whole.choices[0].finish_reason == "stop"
    assert choice.message.content == whole.choices[0].message.content
    return "".join(pieces)


async def ask_completions(url: str, http: Any) -> str:
    async with AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        stream = await client.completions.create(model="fast", prompt="hello", stream=True)
        choices = [choice async for chunk in stream for choice in chunk.choices]
    assert [c.finish_reason for c in choices if c.finish_reason] == ["stop"]
    return "".join(choice.text for choice in choices)


async def ask_responses(url: str, http: Any) -> str:
    async with AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        async with client.responses.stream(model="fast", input="hello") as events:
            kinds = [one.type async for one in events]
            final = await events.get_final_response()
        again = await client.responses.retrieve(final.id)
    assert kinds.count("response.output_text.done") == 1
    assert kinds[-1] == "response.completed"
    assert len(final.output) == 1
    assert again.output_text == final.output_text
    return final.output_text


async def ask_messages(url: str, http: Any) -> str:
    async with AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as client:
        ask: dict[str, Any] = {"model": "fast", "messages": SAY_HELLO, "max_tokens": 999}
        async with client.messages.stream(**ask) as events:
            kinds = [event.type async for event in events]
            message: Any = await events.get_final_message()
        whole: Any = await client.messages.create(**ask)
    assert kinds.count("message_start") == kinds.count("content_block_stop") == 1
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 2
    assert message.content[0].text == whole.content[0].text
    return str(message.content[0].text)


async def ask_others(path: str, http: Any) -> list[dict[str, Any]]:
    async with http.stream("POST", path, json=body_of(path)) as reply:
        assert reply.status_code == 200, await reply.aread()
        messages = await read_messages(reply)
    return [json.loads(one.data) for one in messages if one.data != "[DONE]"]


async def ask_ui(url: str, http: Any) -> str:
    chunks = await ask_others("/v1/ui/chat", http)
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds.count("text-start") == kinds.count("text-end") == kinds.count("start") == 1
    assert kinds[-1] == "finish"
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


async def ask_ag_ui(url: str, http: Any) -> str:
    events = await ask_others("/v1/ag-ui", http)
    kinds = [event["type"] for event in events]
    pieces = [event for event in events if event["type"].startswith("TEXT_MESSAGE_")]
    assert len({piece["messageId"] for piece in pieces}) == 1
    assert kinds[-1] == "RUN_FINISHED"
    return "".join(piece.get("delta", "") for piece in pieces)


CLIENTS = [ask_chat, ask_completions, ask_responses, ask_messages, ask_ui, ask_ag_ui]


@pytest.mark.parametrize("dialect", DYING)
@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__[4:])
async def test_clients_of_every_dialect_get_one_answer(ask, dialect, tmp_path):
    async with serve_targets(tmp_path, of_a=f'dialect = "{dialect}"') as targets:
        targets.a.script = DYING[dialect]
        targets.b.choose = rest_of
        assert await ask(targets.relay.url, targets.relay.client) == ANSWER
    assert targets.a.calls
    assert len(targets.b.calls) == len(targets.a.calls)


PLACES = 24


def is_plain(row: Any) -> bool:
    """Whether a recording is one answer of text."""
    truth = row["truth"]
    [*others] = truth["choices"]
    return (
        not truth["error"]
        and len(others) == 1
        and len(others[0]["text"]) > 20
        and not any(others[0].get(name) for name in ("tool_calls", "refusal", "citations"))
    )


RECORDED = [
    pytest.param(*one.values, id=one.id, marks=pytest.mark.proving)
    for one in streams.recordings()
    if not one.marks and is_plain(one.values[0])
] or [streams.absent()]


@pytest.mark.parametrize("row", RECORDED)
async def test_recorded_answers_lose_no_word_wherever_they_are_cut(row, tmp_path):
    answer, body = row["truth"]["choices"][0]["text"], streams.body_of(row)

    def give(call: Call) -> list[Step]:
        last = call.json["messages"][-1]
        begun = last["content"] if last["role"] == "assistant" else ""
        assert answer.startswith(begun)
        return [head(), send(text(answer[len(begun) :]) + FINISH + DONE)]

    rescued = 0
    dialect = streams.DIALECT_OF[row["format"]]
    async with serve_targets(
        tmp_path,
        of_a=f'dialect = "{dialect}"',
        breaker_pause_s=0.001,
        breaker_max_pause_s=0.001,
    ) as targets:
        targets.b.choose = give
        for place in range(1, PLACES):
            targets.a.script = [chunked_head(), chunk(body[: len(body) * place // PLACES])]
            events = await chat(targets.relay)
            kinds = {event["type"] for event in events}
            if "provider_tool" in kinds:
                return
            if events[-1]["status"] == "completed":
                assert text_of(events) == answer
            elif text_of(events):  # nothing is missing but the end marker
                assert (text_of(events), "choice.end" in kinds) == (answer, True)
            else:
                assert {"reasoning.end", "provider_data"} & kinds
            rescued += "rescued" in events[-1]
    assert rescued > 2
