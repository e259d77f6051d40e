"""Who ended an answer: the same word in `stream.end`, the log, and the metric."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from app.identity.principal import Principal
from app.ledger.config import LedgerConfig, LimitsConfig, UsageLimits
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Reset,
    Step,
    event,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, serve_relay
from tests.waiting import until

ME, BOSS = Principal("t", "me", "app"), Principal(key="boss", roles=frozenset({"admin"}))
SO_FAR: list[Step] = [head(x_request_id="req_of_provider"), send(text("so far"))]
RUNS = [*SO_FAR, Hold()]
ENDS: list[Step] = [head(), send(text("all") + FINISH + DONE)]
CUT_TO_LENGTH: list[Step] = [head(), send(text("all") + event(finish_reason="length") + DONE)]
PIECES = (send(text(f"{n} ")) if n % 2 else wait(0.001) for n in range(400))
LONG: list[Step] = [head(), *PIECES, Hold()]
BUSY = reply(
    "529 Overloaded",
    json.dumps({"error": {"message": "no room\nfor sk-test-0123456789 now"}}),
    request_id="req_9",
)

LOST_SLOT = 'data: {"error":{"code":529,"message":"the slot is lost"}}\n\n'

KEY = "sk-test-0123456789"
"""Of the provider, which may say it again anywhere."""

Act = Callable[[Relay, str], Awaitable[Any]]


def stopping(who: str, query: str = "") -> Act:
    """Stop the stream as somebody."""

    async def stop(relay: Relay, stream: str) -> None:
        url = f"/v1/streams/{stream}/cancel{query}"
        assert 202 == (await relay.client.post(url, headers=bearer(who))).status_code

    return stop


async def drain(relay: Relay, stream: str) -> None:
    await relay.hub.drain(0)


async def nothing(relay: Relay, stream: str) -> None:
    pass


class Case(NamedTuple):
    ended_by: str | None
    status: str
    script: Sequence[Step]
    act: Act = nothing
    settings: Mapping[str, Any] = MappingProxyType({})
    body: Mapping[str, Any] = MappingProxyType({})


TOKENS = LedgerConfig(limits=LimitsConfig(user=UsageLimits(tokens_per_minute=500)))

CASES = {
    "complete": Case(None, "completed", ENDS),
    "stopped by its owner": Case("user", "cancelled", RUNS, stopping("me")),
    "stopped by an admin": Case("operator", "cancelled", RUNS, stopping("boss")),
    "left": Case("reader_gone", "cancelled", RUNS, settings={"linger_s": 0}),
    "drained": Case("shutdown", "interrupted", RUNS, drain),
    "cut by the provider": Case("provider", "failed", [*SO_FAR, Reset()]),
    "refused by the provider": Case("provider", "failed", BUSY),
    "failed within the answer": Case("provider", "failed", [*SO_FAR, send(LOST_SLOT), Hold()]),
    "refused as late by the provider": Case(
        "provider", "failed", reply("504 Late", "{}", request_id=KEY)
    ),
    "silent": Case("deadline", "failed", RUNS, settings={"event_gap_timeout_s": 0.2}),
    "late to begin": Case("deadline", "failed", [Hold()], settings={"first_event_timeout_s": 0.2}),
    "too long for the log": Case("relay", "failed", LONG, settings={"max_stream_events": 50}),
    "too long for the limits": Case(
        "budget", "completed", CUT_TO_LENGTH, settings={"ledger": TOKENS}, body={"max_tokens": 9000}
    ),
    "as long as it asked to be": Case(
        None, "completed", CUT_TO_LENGTH, settings={"ledger": TOKENS}, body={"max_tokens": 9}
    ),
}


@contextlib.asynccontextmanager
async def ended(case: Case) -> AsyncIterator[tuple[Relay, str, list[Any]]]:
    """Have a stream ended; give the relay, its id, and the lines of its log."""
    settings = {"linger_s": 600, **case.settings}
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, authenticator=known(me=ME, boss=BOSS), **settings) as relay,
    ):
        upstream.script = case.script
        body = {**HELLO, **case.body}
        with capture_logs() as logs:
            async with relay.client.stream(
                "POST", "/v1/chat", json=body, headers=bearer("me")
            ) as r:
                stream = r.headers["stream-id"]
                if case.act is nothing and case.ended_by != "reader_gone":
                    await r.aread()
                else:
                    await anext(r.aiter_raw())
                    await case.act(relay, stream)
            await until(lambda: [line for line in logs if line["event"] == "stream ended"])
            yield relay, stream, logs


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
async def test_stream_says_who_ended_it(case: Case) -> None:
    async with ended(case) as (relay, stream, logs):
        if case.ended_by == "shutdown":
            end = (await relay.log.read(stream, 0, timeout_s=0))[-1]
            found = {"status": end.status, "ended_by": end.ended_by}  # type: ignore[union-attr]
        else:
            shown = await relay.client.get(f"/v1/streams/{stream}", headers=bearer("me"))
            found = shown.json()
        metrics = (await relay.client.get("/metrics", headers=bearer("boss"))).text

    assert (case.status, case.ended_by) == (found["status"], found.get("ended_by"))
    (line,) = [line for line in logs if line["event"] == "stream ended"]
    assert (case.status, case.ended_by) == (line["status"], line["ended_by"])
    assert KEY not in repr(logs)
    assert any(
        name.startswith("seseragi_streams_ended_total{")
        and f'ended_by="{case.ended_by or "none"}"' in name
        and name.endswith(" 1.0")
        for name in metrics.splitlines()
    )


async def test_admin_who_stops_his_own_stream_may_say_that_he_does_so_as_the_operator() -> None:
    boss = CASES["left"]._replace(act=stopping("boss", "?operator"), settings={})
    async with ended(boss._replace(ended_by="operator")) as (_, _, logs):
        pass
    assert ["operator"] == [line["ended_by"] for line in logs if line["event"] == "stream ended"]

    me = CASES["silent"]
    async with ended(me) as (relay, stream, _):
        url = f"/v1/streams/{stream}/cancel?operator"
        assert 403 == (await relay.client.post(url, headers=bearer("me"))).status_code


@pytest.mark.parametrize(
    ("case", "status", "its_id", "said"),
    [
        ("refused by the provider", 529, "req_9", "no room for "),
        ("failed within the answer", 200, "req_of_provider", "the slot is lost"),
    ],
)
async def test_attempt_that_failed_has_a_line_with_what_the_provider_said_and_calls_it(
    case: str, status: int, its_id: str, said: str
) -> None:
    async with ended(CASES[case]) as (_, stream, logs):
        pass

    (line,) = [line for line in logs if line["event"] == "attempt failed"]
    told = {
        "stream": stream,
        "target": "openai/gpt-6-luna",
        "attempt": 1,
        "http_status": status,
        "upstream_request_id": its_id,
        "code": "upstream_overloaded",
        "log_level": "warning",
    }
    assert told == {name: line[name] for name in told}
    assert line["provider_message"].startswith(said)
    assert KEY not in repr(logs)
    assert 0 <= line["attempt_s"] < 20


@pytest.mark.parametrize("case", ["cut by the provider", "silent"])
async def test_cut_answer_is_one_warning_with_its_stream(case: str) -> None:
    async with ended(CASES[case]) as (_, stream, logs):
        pass

    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert ("attempt failed", stream) == (line["event"], line["stream"])
    assert (case == "cut by the provider") == ("cause" in line), line


@pytest.mark.parametrize(("quoted", "shown"), [(KEY, "[key]"), ("/v1?sig=hidden", "/v1?...")])
async def test_cause_of_a_failed_connection_has_no_secret(quoted: str, shown: str) -> None:
    async with ended(Case("provider", "failed", [send(f"{quoted}\r\n\r\n")])) as (_, _, logs):
        pass

    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert shown in line["cause"]
    assert quoted not in repr(logs)


async def test_line_of_a_stream_says_by_what_id_the_provider_knows_its_call() -> None:
    async with ended(CASES["stopped by its owner"]) as (_, _, logs):
        pass

    assert [] == [line for line in logs if line["event"] == "attempt failed"]
    (line,) = [line for line in logs if line["event"] == "stream ended"]
    assert (200, "req_of_provider") == (line["http_status"], line["upstream_request_id"])
