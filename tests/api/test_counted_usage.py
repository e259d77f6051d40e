"""What streams have used and cost, however they end: on sockets, against a scripted upstream.

A token of the input costs a millionth of a dollar, one of the output ten.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from app.dialects.openai_chat.upstream.request import Quirks, render_request
from app.dialects.writing import token_estimate
from app.errors import ServiceError
from app.events import TextDelta
from app.generation import settlement
from app.ledger.accounts import AccountState
from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.ledger.hidden_output import DEFAULT_RATE
from app.requests import ChatRequest
from app.telemetry.row import unpack_row
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Hold,
    Reset,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from app.upstreams.connection import Connection
from app.upstreams.http_call import Origin
from app.upstreams.presets import PRESETS
from app.upstreams.transport import Connector
from tests.api.asking import Started, altering
from tests.clock import Clock
from tests.logged import logged
from tests.serving import HELLO, Relay, chat, serve_relay, text_so_far
from tests.waiting import until

PRICE = PriceConfig(target="openai/*", input=1, output=10)
INPUT = 9
"""The estimate of `HELLO`."""
SAID = "word " * 8
"""Ten tokens, by the estimate."""


@contextlib.asynccontextmanager
async def serve_priced(
    script: Any, *, relay: UsageLimits | None = None, **settings: Any
) -> AsyncIterator[Relay]:
    limits = LimitsConfig(relay=relay or UsageLimits(usd_per_day=1))
    ledger = LedgerConfig(limits=limits, prices=(PRICE,))
    async with serve_relay(script, ledger=ledger, **settings) as running:
        yield running


async def account(relay: Relay) -> AccountState:
    (state,) = await relay.accounts.read_accounts(["relay"])
    return state


def nano(usd: str | None) -> int:
    return int(Decimal(usd or 0) * 10**9)


def counted(given: int, made: int) -> str:
    return f"data: {json.dumps({'choices': [], 'usage': {'prompt_tokens': given, 'completion_tokens': made, 'total_tokens': given + made}})}\n\n"


def impossible_parts(given: int, made: int) -> str:
    """A count with more reasoning and more from a cache than there can be."""
    usage = json.loads(counted(given, made).removeprefix("data: "))
    usage["usage"] |= {
        "completion_tokens_details": {"reasoning_tokens": 2**53 - 1},
        "prompt_tokens_details": {"cached_tokens": 2**32 - 1},
    }
    return f"data: {json.dumps(usage)}\n\n"


def counting(content: str, given: int, made: int) -> str:
    """A chunk that says what was used so far, as vLLM's and Perplexity's do."""
    payload = json.loads(text(content).removeprefix("data: "))
    payload["usage"] = {"prompt_tokens": given, "completion_tokens": made}
    return f"data: {json.dumps(payload)}\n\n"


ERROR = 'data: {"error": {"message": "no", "code": 503, "type": "overloaded"}}\n\n'
BEGUN = [chunked_head(), chunk(text(SAID))]
WHOLE = [head(), send(text(SAID) + FINISH + USAGE + DONE)]


def about(tokens: float) -> Any:
    return pytest.approx(tokens, abs=0.3 * DEFAULT_RATE)


ENDS: list[tuple[str, Sequence[Step], str, tuple[int, Any, bool] | None]] = [
    ("told", WHOLE, "completed", (3, 2, False)),
    ("not told", [head(), send(text(SAID) + FINISH + DONE)], "completed", (INPUT, 10, True)),
    ("told as nothing, though there is text", [head(), send(text(SAID) + FINISH + counted(0, 0) + DONE)], "completed", (INPUT, 10, True)),
    ("told as no output, though there is text", [head(), send(text(SAID) + FINISH + counted(5, 0) + DONE)], "completed", (5, 10, True)),
    ("told as more than any call takes", [head(), send(text(SAID) + FINISH + counted(2**53 - 1, 2**31) + DONE)], "completed", (INPUT, 10, True)),
    ("told as far more than was sent", [head(), send(text(SAID) + FINISH + counted(10_000_000, 1_000_000) + DONE)], "completed", (200_000 + 4 * INPUT, 2 * 16_384 + 1_000 + 4 * 10, True)),
    ("told with parts that no call takes", [head(), send(text(SAID) + FINISH + impossible_parts(3, 2) + DONE)], "completed", (3, 2, False)),
    ("told before the text only", [head(), send(counted(5, 1) + text(SAID) * 3 + FINISH + DONE)], "completed", (5, 30, True)),
    ("told on every chunk but the last", [head(), send(counting(SAID, 5, 9) + counting(SAID, 5, 19) + FINISH + DONE)], "completed", (5, 19, False)),
    ("cut", [*BEGUN, Reset()], "failed", (INPUT, 10, True)),
    ("ended early", [head(), send(text(SAID))], "failed", (INPUT, 10, True)),
    # The text, and two seconds in which it may have thought.
    ("silent amid the text", [*BEGUN, Hold()], "failed", (INPUT, about(10 + 2 * DEFAULT_RATE), True)),
    ("cut, told on every chunk", [chunked_head(), *(chunk(counting(SAID, 5, 11 * n)) for n in (1, 2, 3)), Reset()], "failed", (5, 33, False)),
    ("cut, told before the text only", [chunked_head(), chunk(counted(5, 1)), *(chunk(text(SAID)) for _ in range(3)), Reset()], "failed", (5, 30, True)),
    ("cut after all but the end mark", [chunked_head(), chunk(text(SAID) + FINISH + counted(5, 12)), Reset()], "completed", (5, 12, False)),
    ("an error after the finish and the counts", [chunked_head(), chunk(text(SAID) + FINISH + counted(5, 12) + ERROR)], "failed", (5, 12, False)),
    ("an error amid the text", [*BEGUN, chunk(ERROR)], "failed", (INPUT, 10, True)),
    ("garbage amid the text", [*BEGUN, chunk("data: x\n\n")], "failed", (INPUT, 10, True)),
    ("an error instead of the text", [head(), send(ERROR)], "failed", None),
    ("refused", reply("400 Bad Request", '{"error": {"message": "no"}}'), "failed", None),
    ("failed", reply("500 Internal Server Error", ""), "failed", None),
    ("limited", reply("429 Too Many Requests", ""), "failed", None),
    # It has taken the request, and may have run the model.
    ("reset before the head", [Reset()], "failed", (INPUT, 0, True)),
    ("closed before the head", [], "failed", (INPUT, 0, True)),
    ("silent after the head", [head(), Hold()], "failed", (INPUT, about(3 * DEFAULT_RATE), True)),
    ("silent", [Hold()], "failed", (INPUT, 0, True)),
    ("cut before the text", [chunked_head(), Reset()], "failed", (INPUT, 0, True)),
    ("garbage instead of the text", [head(), send("data: x\n\n")], "failed", (INPUT, 0, True))
]  # fmt: skip


def cost_of(usage: tuple[int, int, bool] | None) -> int:
    return 0 if usage is None else 1000 * usage[0] + 10_000 * usage[1]


@pytest.mark.parametrize(
    ("script", "status", "usage"), [e[1:] for e in ENDS], ids=[e[0] for e in ENDS]
)
async def test_every_end_costs_what_was_used(monkeypatch, script, status, usage):
    waits = any(isinstance(step, Hold) for step in script)
    times: dict[str, Any] = {"idle_timeout_s": 2, "first_event_timeout_s": 3}
    with logged(settlement) as lines:
        async with (
            serve_upstream() as upstream,
            serve_priced(upstream, observers=[started := Started()], **times) as relay,
            Clock(monkeypatch).hurrying() if waits else contextlib.nullcontext(),
        ):
            upstream.script = script
            end = await finish(relay, started)
            state = await account(relay)

    assert status == end["status"]
    told = end.get("usage")
    found = told and (told["input_tokens"], told["output_tokens"], told.get("estimated", False))
    assert usage == found
    assert cost_of(found) == nano(end.get("cost")) == state.day.nano_usd
    tokens = (0, 0) if found is None else found[:2]
    assert tokens == (state.day.input_tokens, state.day.output_tokens)
    assert (0, 0, 1) == (state.running, state.day.held_nano_usd, state.day.requests)
    lowered = usage is not None and usage[0] > 200_000
    assert lowered == str(lines).count("provider counts more than is possible")


async def finish(relay: Relay, started: Started) -> dict[str, Any]:
    """Run a stream to its end, also one that fails before anything visible."""
    await relay.client.post("/v1/chat", json=HELLO)
    (stream,) = started.streams
    response = await relay.client.get(f"/v1/streams/{stream}/events")
    data = [line for line in response.text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1].removeprefix("data: "))


@pytest.mark.parametrize(
    "end", ["not told", "an error amid the text", "silent", "reset before the head"]
)
async def test_strict_is_no_different_where_no_hidden_output_is_estimated(monkeypatch, end):
    _, script, _, usage = next(one for one in ENDS if one[0] == end)
    limits = UsageLimits(usd_per_day=1, strict=True)
    async with (
        serve_upstream() as upstream,
        serve_priced(upstream, relay=limits, first_event_timeout_s=3) as relay,
        Clock(monkeypatch).hurrying() if end == "silent" else contextlib.nullcontext(),
    ):
        upstream.script = script
        await relay.client.post("/v1/chat", json=HELLO)
        state = await account(relay)

    assert cost_of(usage) == state.day.nano_usd


ROUTE = """
[upstream.openai]
base_url = "URL"
[[route]]
name = "fast"
targets = ["openai/m-a", "openai/m-b"]
"""


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("first", "costs"),
    [
        ("silent after the head", True),
        ("cut before the text", True),
        ("an error instead of the text", False),
        ("failed", False),
        ("limited", False),
        ("reset before the head", True),
    ],
)
async def test_a_stream_costs_all_its_attempts(monkeypatch, tmp_path, first, costs, strict):
    scripts = [next(e[1] for e in ENDS if e[0] == first), WHOLE]
    async with serve_upstream() as upstream:
        config = tmp_path / "route.toml"
        config.write_text(ROUTE.replace("URL", upstream.base_url))
        environ = {"SESERAGI_CONFIG": str(config)}
        limits = UsageLimits(usd_per_day=1, strict=strict)
        async with (
            serve_priced(None, relay=limits, environ=environ, fallback_after_s=3) as relay,
            Clock(monkeypatch).hurrying(),
        ):
            upstream.choose = lambda call: scripts.pop(0)
            *_, end = await chat(relay, model="fast")
            state = await account(relay)

    usage = end["usage"]
    assert ("0.000023", 3, 2) == (usage["cost"], usage["input_tokens"], usage["output_tokens"])
    assert "estimated" not in usage
    hidden = state.day.output_tokens - 2
    assert hidden == (about(3 * DEFAULT_RATE) if first == "silent after the head" else 0)
    whole = 23_000 + 1000 * INPUT * costs + 10_000 * hidden
    assert whole == nano(end["cost"]) == state.day.nano_usd
    assert 3 + INPUT * costs == state.day.input_tokens


async def test_a_cancelled_stream_costs_what_came():
    async with serve_upstream() as upstream, serve_priced(upstream) as relay:
        upstream.script = [*BEGUN, Hold()]
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            stream = response.headers["stream-id"]
            await text_so_far(relay, stream, SAID)
            result = await relay.client.post(f"/v1/streams/{stream}/cancel")
        state = await account(relay)

    assert {"input_tokens": 9, "output_tokens": 10, "total_tokens": 19} == {
        name: count for name, count in result.json()["usage"].items() if name.endswith("tokens")
    }
    assert result.json()["usage"]["estimated"]
    assert 109_000 == nano(result.json()["cost"]) == state.day.nano_usd


THOUGHT = [wait(2), head(), wait(2), send(text("word") + FINISH + counted(5, 2_001) + DONE)]
PLAIN = [head(), wait(4), send(text("word") + FINISH + counted(5, 1) + DONE)]


@pytest.mark.parametrize(
    ("answers", "limits", "script", "most", "output"),
    [
        ([], {}, [chunked_head(), Hold()], None, 10 * DEFAULT_RATE),
        ([], {}, [Hold()], None, 10 * DEFAULT_RATE),  # thought before the head
        ([], {}, [wait(9.5), *BEGUN, Hold()], None, 10 + 9.5 * DEFAULT_RATE),
        ([], {}, [chunked_head(), Hold()], 300, 300),  # no more than was reserved
        ([], {}, [*BEGUN, Hold()], 5, 5),  # no more than was asked of the provider
        # Four seconds at the highest rate that counts, and at none, beside sixty at the default.
        ([THOUGHT] * 9, {}, [chunked_head(), Hold()], None, 10 * (6_000 + 36 * 400) / 96),
        ([PLAIN] * 9, {}, [chunked_head(), Hold()], None, 10 * 6_000 / 96),
        ([THOUGHT] * 9 + [PLAIN], {}, [chunked_head(), Hold()], None, 10 * (6_000 + 36 * 400) / 96),
        ([], {"strict": True}, [chunked_head(), Hold()], 2_000, 2_000),
        ([], {"strict": True}, [*BEGUN, Hold()], 2_000, 2_000),
        ([], {"strict": True, "tokens_per_minute": 900 + INPUT}, [*BEGUN, Hold()], 2_000, 900),
    ],
)  # fmt: skip
async def test_who_leaves_while_a_model_thinks_pays_for_that(
    monkeypatch, answers, limits, script, most, output
):
    clock, loop = Clock(monkeypatch), asyncio.get_running_loop()
    asked = {**HELLO, "model": "openai/m"} | ({} if most is None else {"max_tokens": most})
    async with (
        serve_upstream() as upstream,
        serve_priced(upstream, relay=UsageLimits(usd_per_day=1, **limits)) as relay,
        clock.hurrying(),
    ):
        for answer in answers:
            upstream.reset(*answer)
            await chat(relay, model="openai/m")
        before = (await account(relay)).day.nano_usd
        upstream.reset(*script)
        response = await relay.client.post(
            "/v1/chat", json=asked, headers={"prefer": "respond-async"}
        )
        left_at = loop.time() + 10
        await until(lambda: loop.time() > left_at)
        await relay.client.post(f"{response.headers['location']}/cancel")
        result = (await relay.client.get(response.headers["location"])).json()
        state = await account(relay)

    used = result["usage"]
    assert used["output_tokens"] == pytest.approx(output, rel=0.06)
    assert used["estimated"]
    assert cost_of((used["input_tokens"], used["output_tokens"], True)) == nano(result["cost"])
    assert before + nano(result["cost"]) == state.day.nano_usd
    assert 0 == state.day.held_nano_usd


@pytest.mark.parametrize("end", ["cut", "left"])
async def test_the_wait_for_a_connection_is_no_hidden_output(monkeypatch, end):
    clock = Clock(monkeypatch)
    connect = Connector.connect

    async def connect_late(self: Connector, origin: Origin) -> Connection:
        await clock.pass_(4)
        return await connect(self, origin)

    monkeypatch.setattr(Connector, "connect", connect_late)
    async with serve_upstream() as upstream, serve_priced(upstream) as relay:
        upstream.script = [*BEGUN, Reset() if end == "cut" else Hold()]
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as response:
            stream = response.headers["stream-id"]
            await text_so_far(relay, stream, SAID)
            used = (await relay.client.post(f"/v1/streams/{stream}/cancel")).json()["usage"]

    assert (INPUT, 10, True) == (used["input_tokens"], used["output_tokens"], used["estimated"])


STATED = USAGE.replace('"usage":{', '"usage":{"cost":0.000669,"is_byok":false,')


@pytest.mark.parametrize(
    ("prices", "script", "streams", "cost", "version"),
    [
        ((), [head(), send(text(SAID) + FINISH + STATED + DONE)], True, "0.000669", "provider"),
        ((), [head(), send(text(SAID) + FINISH + STATED + DONE)], False, "0.000669", "provider"),
        ((PRICE,), [head(), send(text(SAID) + FINISH + STATED + DONE)], True, "0.000023", "own"),
        ((), [head(), send(STATED + text(SAID) * 9), Reset()], True, None, ""),  # it was of a part
        ((), WHOLE, True, None, ""),
    ],
)
async def test_a_cost_that_the_provider_states_counts_where_no_price_is_known(
    prices, script, streams, cost, version
):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, ledger=LedgerConfig(prices=prices), keeps_rows=True) as relay,
    ):
        upstream.script = script
        if streams:
            *_, event, end = await chat(relay)
            assert ("usage", cost) == (event["type"], event.get("cost"))
        else:
            end = (await relay.client.post("/v1/chat", json={**HELLO, "stream": False})).json()
        state, used = await account(relay), end["usage"]
        [(_, packed)] = await relay.rows.rows(limit=9)
        metrics = (await relay.client.get("/metrics")).text

    assert (cost, cost) == (end.get("cost"), used.get("cost"))
    assert used.get("cost_from") == (version if version == "provider" else None)
    row = unpack_row(packed)
    assert (None if cost is None else nano(cost)) == row.nano_usd
    assert row.price_version.startswith(version)
    assert (nano(cost), cost is None) == (state.day.nano_usd, state.day.unpriced)
    assert cost is None or re.search(rf"cost_usd_total{{.*}} {float(cost)}\n", metrics)


async def test_a_log_that_is_full_counts_an_attempt_once():
    async with serve_upstream() as upstream, serve_priced(upstream, max_stream_events=6) as relay:
        pieces = [step for _ in range(9) for step in (chunk(text(SAID)), wait(0.01))]
        upstream.script = [chunked_head(), *pieces, chunk(FINISH + USAGE + DONE)]
        *_, end = await chat(relay)
        state = await account(relay)

    assert "failed" == end["status"]
    used = end["usage"]
    once = cost_of((used["input_tokens"], used["output_tokens"], True))
    assert once == nano(end["cost"]) == state.day.nano_usd
    assert 1 == state.day.requests
    assert state.day.input_tokens in (3, INPUT)


async def test_nobody_to_connect_to_costs_nothing():
    async with serve_upstream() as upstream:
        pass  # it is gone
    async with serve_priced(upstream, observers=[told := Started()]) as relay:
        end = await finish(relay, told)
        state = await account(relay)

    assert "usage" not in end
    assert (0, 0, 1) == (state.day.nano_usd, state.day.input_tokens, state.day.requests)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("through_proxy", [False, True])
@pytest.mark.parametrize(
    "asked", [{"path": "/v1/chat", **HELLO}, {"path": "/v1/embeddings", "input": "hello"}]
)
async def test_what_ends_before_there_is_a_connection_costs_nothing(
    monkeypatch, asked, through_proxy, leaves
):  # fmt: skip
    connected, over = asyncio.Event(), asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await over.wait()
        writer.transport.abort()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    host = f"127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"https://{host}/v1"}
    if through_proxy:
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("HTTPS_PROXY", f"http://{host}")

    async def is_over() -> bool:
        return not (await account(relay)).running

    limits = UsageLimits(usd_per_day=1, strict=True)
    async with serve_priced(None, relay=limits, environ=environ) as relay:
        body = {"model": "openai/m", **asked}
        asking = asyncio.create_task(relay.client.post(body.pop("path"), json=body))
        await asyncio.wait_for(connected.wait(), 20)
        if leaves:
            asking.cancel()
        else:
            over.set()
        await until(is_over)
        over.set()
        state = await account(relay)
    silent.close()

    assert (0, 0, 1) == (state.day.nano_usd, state.day.input_tokens, state.day.requests)


async def test_an_end_that_the_log_refuses_once_is_charged_once():
    refused: list[Any] = []

    async def refuse_once(append: Any, stream: str, events: Any, settlement: Any = None) -> None:
        if settlement is not None and not refused:
            refused.append(events)
            raise ServiceError("internal", "the event log failed")
        await append(stream, events, settlement)

    async with (
        serve_upstream() as upstream,
        serve_priced(upstream, wrap_log=altering(append=refuse_once)) as relay,
    ):
        rest = chunk(FINISH + USAGE + DONE)
        upstream.script = [chunked_head(), chunk(text("word")), wait(0.05), rest]
        *_, end = await chat(relay)
        state = await account(relay)

    assert refused
    assert (3, 2) == (end["usage"]["input_tokens"], end["usage"]["output_tokens"])
    assert "estimated" not in end["usage"]
    assert 23_000 == nano(end["cost"]) == state.day.nano_usd


ANTHROPIC = """event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":5,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"SAID"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}

event: message_stop
data: {"type":"message_stop"}

""".replace("SAID", SAID)


@pytest.mark.parametrize("whole", [True, False])
async def test_a_placeholder_is_not_what_an_answer_costs(whole):
    async with serve_upstream() as upstream, serve_priced(upstream, dialect="anthropic") as relay:
        said = ANTHROPIC if whole else ANTHROPIC.partition("event: message_delta")[0]
        upstream.script = [head(), send(said)]
        *_, end = await chat(relay)

    assert ("completed" if whole else "failed") == end["status"]
    assert (5, 10, True) == tuple(
        end["usage"][name] for name in ("input_tokens", "output_tokens", "estimated")
    )
    assert 105_000 == nano(end["cost"])


ROOM = UsageLimits(tokens_per_minute=200)
BIG = 5000
PASSED = (
    ("/v1/chat", HELLO, "openai_chat", ("max_tokens", "max_completion_tokens")),
    ("/v1/chat/completions", HELLO, "openai_chat", ("max_tokens", "max_completion_tokens")),
    ("/v1/completions", {"prompt": "hello"}, "openai_chat", ("max_tokens",)),
    ("/v1/messages", HELLO, "openai_chat", ("max_tokens",)),
    ("/v1/messages", HELLO, "anthropic", ("max_tokens",)),
    ("/v1/responses", {"input": "hello"}, "openai_chat", ("max_output_tokens",)),
    ("/v1/responses", {"input": "hello"}, "openai_responses", ("max_output_tokens",)),
)
SENT = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@pytest.mark.parametrize("options", [{}, {"provider_options": {"max_tokens": BIG}}])
@pytest.mark.parametrize(("path", "body", "dialect", "names"), PASSED)
async def test_no_request_asks_for_more_than_is_reserved(path, body, dialect, names, options):
    for name in names:
        async with (
            serve_upstream() as upstream,
            serve_priced(upstream, relay=ROOM, dialect=dialect) as relay,
        ):
            upstream.script = reply("400 Bad Request", '{"error": {"message": "no"}}')
            asked = {"model": "openai/m", **body, name: BIG, **options}
            response = await relay.client.post(path, json=asked)
            if options and not upstream.calls:
                assert 400 == response.status_code
                continue
            (call,) = upstream.calls
            said = [call.json[name] for name in SENT if name in call.json]
            assert 1 == len(said), call.json
            assert 100 < said[0] < 200


@pytest.mark.parametrize(
    "options",
    [
        {"n": 8},
        {"best_of": 8},
        {"max_tokens": BIG},
        {"max_completion_tokens": -1},
        {"extra": {"max_new_tokens": BIG}},
        {"stream_options": {"include_usage": False}},
    ],
)
async def test_no_option_goes_round_a_limit(options):
    async with serve_upstream() as upstream, serve_priced(upstream, relay=ROOM) as relay:
        upstream.script = WHOLE
        asked = {**HELLO, "model": "openai/m", "provider_options": options}
        response = await relay.client.post("/v1/chat", json=asked)
        if "n" in options or "best_of" in options:
            assert 400 == response.status_code
            assert "reserved answers, 1; set `n`" in response.json()["detail"]
            assert not upstream.calls
            return
        (call,) = upstream.calls
        assert {"include_usage": True} == call.json["stream_options"]
        assert "max_tokens" not in call.json
        assert 0 < call.json["max_completion_tokens"] < 200
        assert BIG not in call.json.get("extra", {}).values()


SHOWN: list[tuple[str, dict[str, Any], bool, list[dict[str, Any]]]] = [
    ("/v1/chat", HELLO, False, [{"cost": "0.000109", "usage": {"estimated": True}}]),
    ("/v1/chat", HELLO, True, [{"cost": "0.000109", "usage": {"estimated": True}}]),
    ("/v1/chat/completions", {**HELLO, "stream_options": {"include_usage": True}}, True, [{"usage": {"cost": 0.000109, "estimated": True, "completion_tokens": 10}}]),
    ("/v1/chat/completions", HELLO, False, [{"usage": {"cost": 0.000109, "estimated": True}}]),
    ("/v1/completions", {"prompt": "x"}, False, [{"usage": {"estimated": True}}]),
    ("/v1/messages", {**HELLO, "max_tokens": 50}, False, [{"usage": {"cost": 0.000109}}]),
    ("/v1/messages", {**HELLO, "max_tokens": 50}, True, [{"usage": {"cost": 0.000109, "estimated": True}}]),
    ("/v1/responses", {"input": "hello"}, False, [{"usage": {"estimated": True}}]),
    ("/v1/responses", {"input": "hello"}, True, [{"response": {"usage": {"cost": 0.000109, "estimated": True}}}]),
    (
        "/v1/ui/chat",
        {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}]},
        True,
        [{"messageMetadata": {"usage": {"cost": "0.000109", "estimated": True}}}]
    ),
    ("/v1/ag-ui", {"threadId": "t", "runId": "r", "messages": [{"id": "u", **HELLO["messages"][0]}]}, True, [{"metadata": {"cost": "0.000109", "usageEstimated": True}}])
]  # fmt: skip


def holds(found: Any, wanted: Any) -> bool:
    """Whether an object says all that is wanted."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(holds(found.get(k), v) for k, v in wanted.items())
    return bool(found == wanted)


@pytest.mark.parametrize(("path", "body", "streams", "wanted"), SHOWN)
async def test_every_format_shows_cost_and_estimate(path, body, streams, wanted):
    async with serve_upstream() as upstream, serve_priced(upstream) as relay:
        upstream.script = [head(), send(text(SAID) + FINISH + DONE)]
        asked = {"model": "openai/m", "stream": streams, **body}
        if path in ("/v1/ui/chat", "/v1/ag-ui"):
            asked = body
        response = await relay.client.post(path, json=asked)
    assert 200 == response.status_code, response.text
    lines = response.text.splitlines() if streams else [f"data: {response.text}"]
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    for one in wanted:
        assert any(holds(json.loads(line), one) for line in data), data


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
async def test_a_client_is_told_no_usage_that_it_did_not_ask_for(options):
    async with serve_upstream() as upstream, serve_priced(upstream) as relay:
        upstream.script = WHOLE
        asked = {**HELLO, "model": "openai/m", "stream": True, "stream_options": options}
        response = await relay.client.post("/v1/chat/completions", json=asked)

    assert {"include_usage": True} == upstream.calls[0].json["stream_options"]
    assert '"usage"' not in response.text


UNASKED = {"mistral", "perplexity"}
"""They say it unasked, and refuse the question."""


@pytest.mark.parametrize("name", [n for n, p in PRESETS.items() if p.dialect == "openai_chat"])
def test_every_preset_is_asked_for_usage(name):
    preset = PRESETS[name]
    for said in (preset.quirks, {**preset.quirks, **preset.host_quirks}):
        quirks = msgspec.convert(said, Quirks)
        for options in (None, {"stream_options": {"include_usage": False}}):
            chat = msgspec.convert({**HELLO, "provider_options": options}, ChatRequest)
            body = render_request(chat, model="m", quirks=quirks).body
            if name in UNASKED:
                assert body.get("stream_options") == (options or {}).get("stream_options")
            else:
                assert {"include_usage": True} == body["stream_options"]


def test_the_texts_of_a_long_answer_are_weighed_together(monkeypatch):
    weighed: list[int] = []

    def weigh(text: str) -> int:
        weighed.append(len(text))
        return len(text)

    monkeypatch.setattr(token_estimate, "weigh_text", weigh)
    events = [TextDelta(0, " word") for _ in range(80_000)]

    assert 100_000 == token_estimate.estimate_output(events)
    assert [400_000] == weighed
