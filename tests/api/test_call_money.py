"""What calls cost that make no stream: reserved, settled and recorded as streams are."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from app.errors import ServiceError
from app.events import StreamEnd, StreamStart
from app.ledger.accounts import AccountState, month_of
from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.telemetry.row import StreamRow, unpack_row
from app.testing.upstream import Hold, Step, Upstream, head, reply, send, serve_upstream
from tests.api.asking import altering
from tests.clock import Clock
from tests.serving import Relay, serve_relay
from tests.waiting import until

PATH = "/v1/embeddings"
ASK: dict[str, Any] = {"model": "openai/e-1", "input": ["four", "more words than that"]}
COUNT: dict[str, Any] = {"model": "openai/x", "messages": [{"role": "user", "content": "Hi"}]}
VECTORS = '{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [2]}], "model": "e"'
TOLD = f'{VECTORS}, "usage": {{"prompt_tokens": 9, "total_tokens": 9}}}}'

PRICES = (PriceConfig(target="openai/*", input=2, output=0, version="list"),)
"""A token is 2,000 nano-dollars."""


@contextlib.asynccontextmanager
async def serve(
    upstream: Upstream | None,
    log: str = "memory",
    *,
    limits: UsageLimits | None = None,
    prices: tuple[PriceConfig, ...] = PRICES,
    **settings: Any,
) -> AsyncIterator[Relay]:
    ledger = LedgerConfig(limits=LimitsConfig(relay=limits or UsageLimits()), prices=prices)
    async with serve_relay(upstream, log=log, ledger=ledger, keeps_rows=True, **settings) as relay:
        yield relay


async def settled(relay: Relay) -> AccountState:
    """Return the account of the relay when nothing runs any more."""

    async def runs_nothing() -> bool:
        (state,) = await relay.accounts.read_accounts(["relay"])
        return not state.running

    await until(runs_nothing)
    (state,) = await relay.accounts.read_accounts(["relay"])
    return state


async def rows(relay: Relay) -> list[StreamRow]:
    return [unpack_row(row) for _, row in await relay.rows.rows(limit=100)]


@pytest.mark.parametrize("told", [2**53 - 1, 10_000_000])
async def test_a_count_that_cannot_be_true_is_estimated_instead(told: int) -> None:
    async with serve_upstream() as upstream, serve(upstream) as relay:
        upstream.script = reply("200 OK", TOLD.replace(": 9", f": {told}"))
        assert 200 == (await relay.client.post(PATH, json=ASK)).status_code
        state = await settled(relay)
        (row,) = await rows(relay)

    assert ("estimate", row.input_tokens) == (row.usage_from, state.day.input_tokens)
    assert 0 < state.day.input_tokens < 20


async def test_a_call_is_counted_and_leaves_a_row(log: str) -> None:
    async with serve_upstream() as upstream, serve(upstream, log) as relay:
        upstream.script = reply("200 OK", TOLD)
        response = await relay.client.post(PATH, json=ASK)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert 200 == response.status_code
    assert (1, 9, 0, 18_000, 0, 0) == (
        *(state.day.requests, state.day.input_tokens, state.day.output_tokens),
        *(state.day.nano_usd, state.day.unpriced, state.day.held_nano_usd),
    )
    assert state.month.number == month_of(state.day.number)
    assert ("embeddings", "openai/e-1", "e", "completed", 9, "provider", 18_000, "list", 1) == (
        *(row.client_format, row.target, row.answered_model, row.status, row.input_tokens),
        *(row.usage_from, row.nano_usd, row.price_version, row.attempts),
    )
    assert row.request_id == response.headers["x-request-id"]
    assert row.stream not in str(response.headers) + response.text


async def test_a_cost_that_the_provider_states_counts_where_no_price_is_known() -> None:
    stated = TOLD.replace('"usage": {', '"usage": {"cost": 0.00000018, ')
    async with serve_upstream() as upstream, serve(upstream, prices=()) as relay:
        upstream.script = reply("200 OK", stated)
        assert 200 == (await relay.client.post(PATH, json=ASK)).status_code
        state = await settled(relay)
        (row,) = await rows(relay)

    assert (180, "provider", 9) == (row.nano_usd, row.price_version, row.input_tokens)
    assert (180, 0) == (state.day.nano_usd, state.day.unpriced)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e400"])
@pytest.mark.parametrize("field", ["cost", "total_time"])
async def test_numbers_that_none_can_be_cost_no_answer(field: str, number: str) -> None:
    stated = TOLD.replace('"usage": {', f'"usage": {{"{field}": {number}, ')
    async with serve_upstream() as upstream, serve(upstream, prices=()) as relay:
        upstream.script = reply("200 OK", stated)
        response = await relay.client.post(PATH, json=ASK)
        await settled(relay)
        (row,) = await rows(relay)

    assert (200, 9) == (response.status_code, response.json()["usage"]["prompt_tokens"])
    assert (None, "", 9) == (row.nano_usd, row.price_version, row.input_tokens)


async def test_what_the_provider_does_not_count_is_estimated(log: str) -> None:
    async with serve_upstream() as upstream, serve(upstream, log) as relay:
        upstream.script = reply("200 OK", f"{VECTORS}}}")
        response = await relay.client.post(PATH, json=ASK)
        state = await settled(relay)
        (row,) = await rows(relay)

    told = response.json()["usage"]["prompt_tokens"]
    assert told > 0
    assert (told, told * 2000, "estimate") == (row.input_tokens, row.nano_usd, row.usage_from)
    assert told == state.day.input_tokens


@pytest.mark.parametrize(
    ("limits", "code", "told"),
    [
        (UsageLimits(usd_per_day=0.00002), "insufficient_quota", "0.00002 USD for the day"),
        (UsageLimits(usd_per_month=0.00002), "insufficient_quota", "0.00002 USD for the month"),
        (UsageLimits(tokens_per_minute=12), "rate_limit_exceeded", "12 tokens a minute"),
        (UsageLimits(requests_per_minute=1), "rate_limit_exceeded", "1 requests a minute"),
    ],
)
async def test_limits_hold_and_are_refused_in_openais_words(
    log: str, limits: UsageLimits, code: str, told: str
) -> None:
    async with serve_upstream() as upstream, serve(upstream, log, limits=limits) as relay:
        upstream.script = reply("200 OK", TOLD)
        first = await relay.client.post(PATH, json=ASK)
        async with openai.AsyncOpenAI(
            api_key="k", base_url=f"{relay.url}/v1", max_retries=0
        ) as sdk:
            with pytest.raises(openai.RateLimitError) as refused:
                await sdk.embeddings.create(**ASK)
        state = await settled(relay)
        left = len(await rows(relay))

    assert 200 == first.status_code
    assert code == refused.value.code
    assert told in refused.value.message
    assert int(refused.value.response.headers["retry-after"]) >= 1
    assert 1 == len(upstream.calls)
    assert (1, 1, 0) == (state.day.requests, left, state.day.held_nano_usd)


async def test_without_a_price_a_budget_refuses(log: str) -> None:
    limits = UsageLimits(usd_per_month=100)
    async with serve_upstream() as upstream, serve(upstream, log, limits=limits, prices=()) as r:
        response = await r.client.post(PATH, json=ASK)
        left = await rows(r)

    assert (429, "insufficient_quota") == (response.status_code, response.json()["error"]["code"])
    assert "[[price]]" in response.json()["error"]["message"]
    assert ([], []) == (upstream.calls, left)


async def test_without_a_price_and_a_budget_the_cost_is_unknown(log: str) -> None:
    async with serve_upstream() as upstream, serve(upstream, log, prices=()) as relay:
        upstream.script = reply("200 OK", TOLD)
        await relay.client.post(PATH, json=ASK)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert (9, None, 0, 1) == (
        row.input_tokens,
        row.nano_usd,
        state.day.nano_usd,
        state.day.unpriced,
    )


@pytest.mark.parametrize(
    ("script", "status", "paid"),
    [
        (reply("500 Broken", "{}"), "failed", False),
        (reply("429 Slow", "{}"), "failed", False),
        (reply("200 OK", '{"no": "vectors"}'), "failed", True),
        ([head(content_type="application/json", content_length="100"), send("{")], "failed", True),
        ([Hold()], "failed", True),
    ],
)
async def test_a_failure_costs_what_may_have_been_billed(
    log: str, script: Any, status: str, paid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve_upstream() as upstream,
        serve(upstream, log, first_event_timeout_s=5) as relay,
        Clock(monkeypatch).hurrying() if script == [Hold()] else contextlib.nullcontext(),
    ):
        upstream.script = script
        response = await relay.client.post(PATH, json=ASK)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert row.nano_usd is not None
    assert response.status_code >= 400
    assert status == row.status
    codes = {"upstream_rate_limited": "rate_limit_exceeded"}  # OpenAI's own
    assert response.json()["error"]["code"] == codes.get(row.code or "", row.code)
    assert paid == (row.nano_usd > 0) == (row.usage_from == "estimate")
    assert (row.nano_usd, 0) == (state.day.nano_usd, state.day.held_nano_usd)


async def test_every_attempt_is_counted(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[Step] = [head(content_type="application/json", content_length="100"), send("{")]
    scripts: list[list[Step]] = [cut, [], reply("200 OK", TOLD)]
    async with (
        serve_upstream() as upstream,
        serve(upstream, log, attempts=3) as relay,
        Clock(monkeypatch).hurrying(),
    ):
        upstream.choose = lambda _: scripts[len(upstream.calls) - 1]
        response = await relay.client.post(PATH, json=ASK)
        (row,) = await rows(relay)

    assert 200 == response.status_code
    assert 3 == row.attempts
    assert row.input_tokens is not None
    assert row.input_tokens > 9  # what was cut may be billed
    assert row.nano_usd == row.input_tokens * 2000
    assert "estimate" == row.usage_from


async def test_a_client_that_goes_pays_what_was_asked(log: str) -> None:
    async with serve_upstream() as upstream, serve(upstream, log) as relay:
        upstream.script = [head(content_type="application/json"), send("{"), Hold()]
        asking = asyncio.create_task(relay.client.post(PATH, json=ASK))
        await asyncio.wait_for(upstream.called.wait(), 20)
        (running,) = await relay.accounts.read_accounts(["relay"])
        asking.cancel()
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        state = await settled(relay)
        (row,) = await rows(relay)

    assert row.nano_usd is not None
    assert 1 == running.running
    assert running.day.held_nano_usd > 0
    assert ("cancelled", "estimate") == (row.status, row.usage_from)
    assert row.nano_usd == state.day.nano_usd > 0 == state.day.held_nano_usd


async def test_what_runs_when_the_relay_stops_is_settled() -> None:
    async with serve_upstream() as upstream, serve(upstream) as relay:
        upstream.script = [Hold()]
        asking = asyncio.create_task(relay.client.post(PATH, json=ASK))
        await asyncio.wait_for(upstream.called.wait(), 20)
        await relay.hub.drain(0)
        response = await asking
        (state,) = await relay.accounts.read_accounts(["relay"])
        (row,) = await rows(relay)

    assert row.nano_usd is not None
    assert 503 == response.status_code
    assert (0, row.nano_usd) == (state.running, state.day.nano_usd)
    assert row.nano_usd > 0


async def test_nobody_can_read_or_stop_a_call(log: str) -> None:
    made = []

    async def spy(create: Any, record: Any, **more: Any) -> Any:
        made.append(record.id)
        return await create(record, **more)

    async with (
        serve_upstream() as upstream,
        serve(upstream, log, wrap_log=altering(create=spy)) as relay,
    ):
        upstream.script = [Hold()]
        asking = asyncio.create_task(relay.client.post(PATH, json=ASK))
        await asyncio.wait_for(upstream.called.wait(), 20)
        (stream,) = made
        answers = [
            await relay.client.get(f"/v1/streams/{stream}"),
            await relay.client.get(f"/v1/streams/{stream}/events"),
            await relay.client.delete(f"/v1/streams/{stream}"),
            await relay.client.post(f"/v1/streams/{stream}/cancel"),
        ]
        unknown = await relay.client.get("/v1/streams/st_unknown")
        asking.cancel()
        await settled(relay)
        after = await relay.client.get(f"/v1/streams/{stream}")

    assert {404} == {answer.status_code for answer in (*answers, unknown, after)}


async def fail(*_: Any, **__: Any) -> Any:
    raise ServiceError("internal", "the event log failed")


def failing_at(kind: type) -> Any:
    """Return an `append` that fails where the last event is of a kind."""

    async def append(append: Any, stream: str, events: Any, *more: Any) -> None:
        if isinstance(events[-1], kind):
            await fail()
        await append(stream, events, *more)

    return append


@pytest.mark.parametrize(
    "methods", [{"create": fail}, {"append": failing_at(StreamStart)}], ids=["create", "start"]
)
async def test_where_the_log_fails_nobody_is_called(methods: Any) -> None:
    async with serve_upstream() as upstream, serve(upstream, wrap_log=altering(**methods)) as relay:
        response = await relay.client.post(PATH, json=ASK)
        state = await settled(relay)

    assert (503, "overloaded") == (response.status_code, response.json()["error"]["code"])
    assert [] == upstream.calls
    assert (0, 0) == (state.day.nano_usd, state.day.held_nano_usd)


async def test_what_cannot_be_settled_is_not_given_for_nothing() -> None:
    wrap = altering(append=failing_at(StreamEnd))
    async with serve_upstream() as upstream, serve(upstream, wrap_log=wrap) as relay:
        upstream.script = reply("200 OK", TOLD)
        response = await relay.client.post(PATH, json=ASK)
        (state,) = await relay.accounts.read_accounts(["relay"])

    assert 503 == response.status_code
    assert state.day.held_nano_usd > 0  # until the log's recovery ends it


COUNTS = ["/v1/messages/count_tokens", "/v1/responses/input_tokens"]


@pytest.mark.parametrize("path", COUNTS)
async def test_a_count_is_a_request_and_costs_nothing(log: str, path: str) -> None:
    limits = UsageLimits(requests_per_minute=2, tokens_per_minute=1, usd_per_day=0)
    async with serve_upstream() as upstream, serve(upstream, log, limits=limits, prices=()) as r:
        upstream.script = reply("404 None", "{}")
        body = COUNT if "messages" in path else {"model": "openai/x", "input": "Hi"}
        answers = [await r.client.post(path, json=body) for _ in range(3)]
        state = await settled(r)
        left = await rows(r)

    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert "2 requests a minute" in answers[-1].json()["error"]["message"]
    assert (0, 0, []) == (state.day.input_tokens, state.day.nano_usd, left)


async def test_counts_take_places_among_the_streams(log: str) -> None:
    limits = UsageLimits(streams=1)
    async with (
        serve_upstream() as upstream,
        serve(upstream, log, limits=limits, dialect="anthropic") as relay,
    ):
        upstream.script = [Hold()]
        counting = asyncio.create_task(relay.client.post(COUNTS[0], json=COUNT))
        await asyncio.wait_for(upstream.called.wait(), 20)
        refused = await relay.client.post(COUNTS[0], json=COUNT)
        counting.cancel()
        await settled(relay)

    assert 429 == refused.status_code
    assert "1 streams at once" in refused.json()["error"]["message"]


async def test_where_requests_are_not_limited_a_count_asks_nothing_of_the_log() -> None:
    async with serve(None, wrap_log=altering(create=fail)) as relay:
        response = await relay.client.post(COUNTS[0], json={**COUNT, "model": "demo"})

    assert 200 == response.status_code


async def test_what_ended_leaves_no_stream_in_the_log() -> None:
    async with serve_upstream() as upstream, serve(upstream) as relay:
        upstream.script = reply("200 OK", TOLD)
        for _ in range(3):
            await relay.client.post(PATH, json=ASK)
        await settled(relay)
        await until(lambda: not relay.hub.load().log_streams)

        assert 3 == len(await rows(relay))
