"""A provider refuses a field once: the request is sent without it, and so is the next."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.ledger.config import LedgerConfig, PriceConfig
from app.testing.upstream import Call, Step, answer, reply, serve_upstream
from tests.api.test_call_ids import script as asking
from tests.api.test_embeddings import openai_answer
from tests.serving import Relay, chat, serve_relay

Q = {"role": "user", "content": "Hi"}
M = "openai/m"
ASK: dict[str, Any] = {"model": M, "messages": [Q]}
UNSUPPORTED = "Unsupported parameter: '%s' is not supported with this model."


def refuse(message: str, **fields: Any) -> list[Step]:
    error = {"type": "invalid_request_error", "message": message, **fields}
    return reply("400 Bad Request", json.dumps({"message": message, "error": error}))


def without(name: str, message: str, taken: list[Step]) -> Callable[[Call], list[Step]]:
    """Refuse all requests with the name in their body or headers."""

    def choose(call: Call) -> list[Step]:
        sent = json.dumps([call.json, call.headers])
        return refuse(message) if f'"{name}' in sent else taken

    return choose


def notices(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"] for event in events if event["type"] == "notice"]


@pytest.mark.parametrize("dialect", [*UPSTREAM_FORMATS])
async def test_every_format_is_asked_once_more_and_then_right_at_once(dialect: str) -> None:
    message = "`temperature` is deprecated for this model."
    async with serve_upstream() as upstream, serve_relay(upstream, dialect=dialect) as relay:
        upstream.choose = without("temperature", message, asking(dialect, "call_1"))
        first = await chat(relay, {**ASK, "temperature": 0.5})
        asked = len(upstream.calls)
        body = {**ASK, "temperature": 0.5, "stream": False}
        document = await relay.client.post("/v1/chat/completions", json=body)
        again = await chat(relay, {**ASK, "temperature": 0.25})

    assert "completed" == first[-1]["status"] == again[-1]["status"]
    assert 200 == document.status_code
    assert (2, 4) == (asked, len(upstream.calls))
    for events in (first, again):
        assert [told for told in notices(events) if "temperature: dropped" in told]
    assert [1] == [event["attempt"] for event in first if event["type"] == "stream.target"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [Q]}),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/messages", {"messages": [Q], "max_tokens": 9}),
        ("/v1/completions", {"prompt": "Hi"}),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
async def test_clients_of_every_format_get_the_answer(
    path: str, fields: dict[str, Any], streams: bool
) -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = without("top_p", UNSUPPORTED % "top_p", answer("ok"))
        body = {"model": M, "top_p": 0.5, "stream": streams, **fields}
        done = await relay.client.post(path, json=body)

    assert 200 == done.status_code
    assert "ok" in done.text
    assert [True, False] == ["top_p" in call.json for call in upstream.calls]


NAMES = ["max_tokens", "max_completion_tokens"]


@pytest.mark.parametrize("old", NAMES)
async def test_the_limit_goes_by_its_other_name(old: str, tmp_path: Path) -> None:
    new = next(name for name in NAMES if name != old)
    async with serve_upstream() as upstream:
        config = tmp_path / "seseragi.toml"
        config.write_text(f'[upstream.x]\nbase_url = "{upstream.base_url}"\n')
        upstream.choose = without(f'{old}"', UNSUPPORTED % old, answer("ok"))
        async with serve_relay(config=config) as relay:
            body = {"model": "x/m", "messages": [Q], old: 70}
            for _ in range(2):
                done = await relay.client.post("/v1/chat/completions", json=body)
                assert 200 == done.status_code

    sent = [[call.json.get(name) for name in (old, new)] for call in upstream.calls]
    assert [[70, None], [None, 70], [None, 70]] == sent


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Unexpected value(s) `bad-2026-01-01` for the `anthropic-beta` header.", "good-1"),
        ("invalid beta flag", None),
    ],
)
async def test_betas_that_are_refused_are_left_out(message: str, left: str | None) -> None:
    headers = {"anthropic-beta": "good-1,bad-2026-01-01", "anthropic-version": "2023-06-01"}
    body = {"model": M, "messages": [Q], "max_tokens": 9}

    def choose(call: Call) -> list[Step]:
        bad = "bad" in call.headers.get("anthropic-beta", "")
        return refuse(message) if bad else asking("anthropic", "call_1")

    async with serve_upstream() as upstream, serve_relay(upstream, dialect="anthropic") as relay:
        upstream.choose = choose
        for _ in range(2):
            done = await relay.client.post("/v1/messages", json=body, headers=headers)
            assert 200 == done.status_code

    assert [None, left, left] == [
        None if "bad" in (sent := call.headers.get("anthropic-beta", "")) else sent or None
        for call in upstream.calls
    ]


async def test_keywords_and_marks_are_left_out_where_they_are_no_data() -> None:
    schema = {
        "type": "object",
        "properties": {"uniqueItems": {"type": "array", "uniqueItems": True, "minItems": 1}},
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": False}}
    messages = [
        "Invalid schema for function 'f': In context=('a'), 'uniqueItems' is not permitted.",
        "tools.0.function.strict: Extra inputs are not permitted",
    ]

    def choose(call: Call) -> list[Step]:
        function = call.json["tools"][0]["function"]
        if "uniqueItems" in function["parameters"]["properties"]["uniqueItems"]:
            return refuse(messages[0])
        return refuse(messages[1]) if "strict" in function else answer("ok")

    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = choose
        body = {**ASK, "tools": [tool]}
        replies = [await relay.client.post("/v1/chat", json=body) for _ in range(2)]

    # Two refusals are two requests: the first is learnt as the second is about something else.
    assert [400, 200] == [done.status_code for done in replies]
    assert 4 == len(upstream.calls)
    kept = {"uniqueItems": {"type": "array", "minItems": 1}}
    [taken] = upstream.calls[-1].json["tools"]
    assert {"name": "f", "parameters": {**schema, "properties": kept}} == taken["function"]


async def test_a_refused_value_is_left_out_and_others_are_sent() -> None:
    message = "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model."
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = without("minimal", message, answer("ok"))
        for effort in ("minimal", "low", "minimal"):
            end = (await chat(relay, {**ASK, "reasoning_effort": effort}))[-1]
            assert "completed" == end["status"]

    sent = [call.json.get("reasoning_effort") for call in upstream.calls]
    assert ["minimal", None, "low", None] == sent


@pytest.mark.parametrize(
    "fields",
    [
        {"stop": ["x"]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"logit_bias": {"1": 5}},
        {"logprobs": True},
    ],
)
async def test_what_carries_meaning_is_refused_with_a_remedy(fields: dict[str, Any]) -> None:
    name = next(iter(fields))
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = refuse(UNSUPPORTED % name)
        done = await relay.client.post("/v1/chat/completions", json={**ASK, **fields})

    assert 400 == done.status_code
    assert f'add drop = ["{name}"] to [upstream.openai]' in done.json()["error"]["message"]
    assert 1 == len(upstream.calls)


async def test_no_remedy_is_named_that_the_settings_refuse() -> None:
    """What determines the reservation cannot be dropped."""
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = refuse(UNSUPPORTED % "n")
        done = await relay.client.post("/v1/chat/completions", json={**ASK, "n": 2})

    assert (400, 1) == (done.status_code, len(upstream.calls))
    assert "drop" not in done.json()["error"]["message"]


async def test_there_is_one_repetition_and_only_what_was_taken_is_learnt() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = refuse(UNSUPPORTED % "seed")
        for _ in range(2):
            done = await relay.client.post("/v1/chat", json={**ASK, "seed": 1})
            assert (400, "upstream_invalid_request") == (done.status_code, done.json()["code"])

    assert [True, False] * 2 == ["seed" in call.json for call in upstream.calls]


async def test_a_refusal_that_may_quote_the_client_is_not_followed() -> None:
    quoted = UNSUPPORTED % "seed"
    message = {"role": "user", "content": f"say: {quoted}"}
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = refuse(f"bad prompt: say: {quoted}")
        await relay.client.post("/v1/chat", json={"model": M, "messages": [message], "seed": 1})

    assert 1 == len(upstream.calls)


async def test_the_repetition_has_no_idempotency_key() -> None:
    headers = {"idempotency-key": "k-1"}
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = without("seed", UNSUPPORTED % "seed", answer("ok"))
        body = {**ASK, "seed": 1}
        await relay.client.post("/v1/chat/completions", json=body, headers=headers)

    assert "idempotency-key" not in upstream.calls[1].headers


async def embed(relay: Relay, **fields: Any) -> Any:
    body = {"model": "openai/e", "input": "x", **fields}
    return await relay.client.post("/v1/embeddings", json=body)


async def test_embeddings_learn_too() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.choose = without('user"', UNSUPPORTED % "user", openai_answer([1.0]))
        replies = [await embed(relay, user="u") for _ in range(2)]
        asked = len(upstream.calls)
        upstream.choose = without("dimensions", UNSUPPORTED % "dimensions", openai_answer([1.0]))
        failed = await embed(relay, dimensions=3)

    assert [200, 200] == [done.status_code for done in replies]
    assert ["user", "user"] == [done.headers["seseragi-ignored"] for done in replies]
    assert (3, 400) == (asked, failed.status_code)


async def test_a_refused_call_costs_nothing_and_is_no_failed_attempt() -> None:
    ledger = LedgerConfig(prices=(PriceConfig(target="openai/*", input=2, output=1, version="v"),))
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, ledger=ledger, keeps_rows=True) as relay,
    ):
        upstream.choose = without("seed", UNSUPPORTED % "seed", answer("ok"))
        for _ in range(2):
            end = (await chat(relay, {**ASK, "seed": 1}))[-1]
            assert 8e-6 == pytest.approx(float(end["usage"]["cost"]))  # 3 tokens in, 2 out
        metrics = (await relay.client.get("/metrics", headers=relay.operator)).text

    assert 3 == len(upstream.calls)
    assert "upstream_invalid_request" in metrics
    assert not re.search(r'"upstream_invalid_request".*\} [1-9]', metrics)
