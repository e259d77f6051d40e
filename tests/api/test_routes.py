"""Routes with several targets: one clean answer or one clear error, whatever fails."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from app.framing.sse import Decoder
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Until,
    Upstream,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.clock import Clock
from tests.serving import (
    HELLO,
    Relay,
    chat,
    events_of,
    read_messages,
    serve_relay,
    text_of,
    text_so_far,
)
from tests.waiting import until

BUSY = reply("503 Busy", "{}")
PAUSE_S = 30
"""How long a target is passed over that fails."""
ROUTE = """
[[route]]
name = "fast"
targets = ["a/m-a", "b/m-b"]
"""


def answer(content: str = "fine") -> list[Step]:
    return [head(), send(text(content) + FINISH + DONE)]


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def of_type(events: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


@dataclass
class Routed:
    relay: Relay
    a: Upstream
    b: Upstream
    clock: Clock
    environ: dict[str, str]

    async def post(self, **fields: Any) -> httpx2.Response:
        """Ask the route, or what else the fields name, and return the whole answer."""
        body = {**HELLO, "model": "fast", **fields}
        return await self.relay.client.post("/v1/chat", json=body)

    async def chat(self) -> list[dict[str, Any]]:
        return await chat(self.relay, model="fast")

    async def states(self) -> dict[str, str]:
        body = (await self.relay.client.get("/readyz?verbose")).json()
        return {target["target"]: target["state"] for target in body["targets"]}

    async def until_half_open(self) -> None:
        """Let time pass until `a` may be tried again."""
        assert "open" == (await self.states())["a/m-a"]
        await self.clock.pass_(PAUSE_S)
        assert "half-open" == (await self.states())["a/m-a"]


@pytest.fixture
def routed(tmp_path, monkeypatch):
    """Serve a relay with the upstreams `a` and `b`, and the routes given.

    Between two attempts it waits for a short time; tests/policies/test_retry.py says how long it would.
    """
    monkeypatch.setattr("app.policies.retry.FIRST_PAUSE_S", 0.02)

    @contextlib.asynccontextmanager
    async def serve(routes: str = ROUTE, **settings: Any) -> AsyncIterator[Routed]:
        async with serve_upstream() as a, serve_upstream() as b:
            config = tmp_path / "routes.toml"
            config.write_text(
                f'[upstream.a]\nbase_url = "{a.base_url}"\n'
                f'[upstream.b]\nbase_url = "{b.base_url}"\n{routes}'
            )
            environ = {"SESERAGI_CONFIG": str(config)}
            limits = {"max_line_bytes": 100_000, "breaker_pause_s": PAUSE_S}
            settings = {"attempts": 2, **limits, **settings}
            async with serve_relay(environ=environ, **settings) as relay:
                yield Routed(relay, a, b, Clock(monkeypatch), environ)

    return serve


async def test_a_failure_that_may_pass_is_tried_again_at_the_same_target(routed):
    async with routed() as served:
        served.a.choose = lambda call: answer() if len(served.a.calls) == 2 else BUSY
        events = await served.chat()

    assert ["retry"] == [notice["code"] for notice in of_type(events, "notice")]
    assert 2 == of_type(events, "stream.target")[0]["attempt"]
    assert "fine" == text_of(events)
    assert not served.b.calls


async def test_retry_after_is_kept(routed):
    async with routed() as served:
        served.a.choose = lambda call: (
            answer() if len(served.a.calls) == 2 else reply("429 Slow", "{}", retry_after_ms="300")
        )
        started = time.monotonic()
        await served.chat()

    assert 0.3 <= time.monotonic() - started < 60  # as seconds it would be minutes


async def test_a_filtered_request_is_not_sent_elsewhere(routed):
    async with routed() as served:
        served.a.script = reply("400 Bad", '{"error":{"code":"content_filter","message":"no"}}')
        response = await served.post()

    assert (400, "content_filtered") == (response.status_code, response.json()["code"])
    assert not served.b.calls


async def test_the_better_advice_is_given(routed):
    async with routed() as served:
        served.a.script = reply("429 Slow", "{}", retry_after="30")
        served.b.script = reply("401 No", "{}")
        response = await served.post()

    assert (429, "30") == (response.status_code, response.headers["retry-after"])
    detail = response.json()["detail"]
    assert "no target of 'fast' could answer" in detail
    assert "'a'" in detail
    assert "'b'" in detail


async def test_a_failing_target_is_passed_over_and_found_well_again(routed):
    async with routed(attempts=1) as served:
        served.a.script, served.b.script = BUSY, answer()
        assert {"a/m-a": "closed", "b/m-b": "closed"} == await served.states()
        for _ in range(5):
            assert "fine" == text_of(await served.chat())
        assert 3 == len(served.a.calls)
        assert {"a/m-a": "open", "b/m-b": "closed"} == await served.states()

        served.a.script = answer("back")
        await served.clock.pass_(PAUSE_S)
        assert {"a/m-a": "half-open", "b/m-b": "closed"} == await served.states()
        assert "back" == text_of(await served.chat())
        assert {"a/m-a": "closed", "b/m-b": "closed"} == await served.states()


async def test_while_one_request_tries_a_target_the_others_pass_it_over(routed):
    async with routed(attempts=1) as served:
        served.a.script, served.b.script = BUSY, answer()
        for _ in range(3):
            await served.chat()
        await served.until_half_open()
        served.a.script = [Hold()]
        served.a.called.clear()
        trial = asyncio.create_task(chat(served.relay, model="fast"))
        await asyncio.wait_for(served.a.called.wait(), 20)
        for _ in range(3):
            assert "fine" == text_of(await served.chat())
        assert 4 == len(served.a.calls)
        trial.cancel()
        await asyncio.wait({trial})


async def test_targets_that_all_fail_are_tried_all_the_same(routed):
    async with routed(attempts=1) as served:
        served.a.script = served.b.script = BUSY
        for _ in range(5):
            await served.post()
        assert {"a/m-a": "open", "b/m-b": "open"} == await served.states()
        served.a.script = answer()

        assert "fine" == text_of(await served.chat())


async def test_cancel_in_the_pause_ends_the_stream(routed, monkeypatch):
    monkeypatch.setattr("app.policies.retry.PATIENCE_S", 30)
    async with routed(status_wait_s=0) as served:
        served.a.script = reply("429 Slow", "{}", retry_after="25")
        async with served.relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "fast"}
        ) as response:
            stream = response.headers["stream-id"]

            async def pauses() -> bool:
                return (await served.relay.log.state(stream)).last >= 2  # its notice is there

            await until(pauses)
            async with asyncio.timeout(20):  # and not when the pause is over
                await served.relay.client.post(f"/v1/streams/{stream}/cancel")
                events = events_of(await read_messages(response))

    assert ("cancelled", "cancelled") == (events[-1]["status"], events[-1]["finish_reason"])
    assert 1 == kinds(events).count("stream.end")
    assert (1, 0) == (len(served.a.calls), len(served.b.calls))


async def later(served: Routed, seconds: float) -> httpx2.Response:
    """Ask, and let so much time pass once `a` has been asked."""
    asking = asyncio.create_task(served.post())
    await asyncio.wait_for(served.a.called.wait(), 20)
    await served.clock.pass_(seconds)
    return await asking


async def test_after_the_gate_attempts_are_told_as_they_come(routed):
    async with routed(status_wait_s=10) as served:
        refused = Until()
        served.a.script, served.b.script = [refused, *BUSY], answer()
        asking = asyncio.create_task(served.chat())
        await asyncio.wait_for(served.a.called.wait(), 20)
        await served.clock.pass_(11)
        refused.told.set()
        events = await asking

    assert ["stream.start", "notice", "notice", "stream.target"] == kinds(events)[:4]
    assert "completed" == events[-1]["status"]


OWN_TIME = '{ model = "a/m-a", first_event_timeout_s = 10 }'


@pytest.mark.parametrize("silence", [[Hold()], [head(), Hold()]], ids=["no head", "no event"])
@pytest.mark.parametrize("own", [True, False])
async def test_a_target_that_is_silent_for_its_own_time_is_left_for_the_next_at_once(
    silence: list[Step], own: bool, routed: Any
):
    route = ROUTE.replace('"a/m-a"', OWN_TIME) if own else ROUTE
    times = {} if own else {"first_event_timeout_s": 10}
    async with routed(route, attempts=3, **times) as served:
        served.a.script, served.b.script = silence, answer()
        response = await later(served, 11)

    assert "fine" == text_of(events_of(Decoder().feed(response.content)))
    assert (1, 1) == (len(served.a.calls), len(served.b.calls))


async def test_a_target_alone_that_is_silent_for_its_own_time_is_asked_once(routed):
    async with routed(
        ROUTE.replace('"a/m-a", "b/m-b"', OWN_TIME), attempts=3, status_wait_s=99
    ) as served:
        served.a.script = [Hold()]
        response = await later(served, 11)

    assert (504, 1) == (response.status_code, len(served.a.calls))


@pytest.mark.parametrize(
    ("targets", "busy", "found"),
    [
        pytest.param('"a/m", "b/m"', False, "fine", id="another follows"),
        pytest.param('"a/m"', False, "late", id="alone"),
        pytest.param('"b/m", "a/m"', True, "late", id="the last one"),
        pytest.param(
            '{ model = "a/m", first_event_timeout_s = 20 }, "b/m"', False, "late", id="its own time"
        ),
    ],
)
async def test_a_target_that_another_follows_is_left_sooner(
    targets: str, busy: bool, found: str, routed: Any
):
    route = ROUTE.replace('"a/m-a", "b/m-b"', targets)
    async with routed(route, fallback_after_s=10) as served:
        answers = Until()
        served.a.script = [answers, *answer("late")]
        served.b.script = BUSY if busy else answer()
        asking = asyncio.create_task(served.chat())
        await asyncio.wait_for(served.a.called.wait(), 20)
        await served.clock.pass_(11)
        if found == "late":
            answers.told.set()
        events = await asyncio.wait_for(asking, 20)
        answers.told.set()

    assert found == text_of(events)
    assert 1 == len(served.a.calls)


@pytest.mark.parametrize("own", [True, False])
async def test_later_events_have_a_time_of_their_own(own: bool, routed: Any):
    times = {"first_event_timeout_s": 20, "event_gap_timeout_s": 200}
    keys = ", ".join(f"{key} = {value}" for key, value in times.items())
    route = ROUTE.replace('"a/m-a"', f'{{ model = "a/m-a", {keys} }}') if own else ROUTE
    settings = {"idle_timeout_s": 200, **({"event_gap_timeout_s": 10} if own else times)}
    async with routed(route, **settings) as served:
        go_on = Until()
        served.a.script = [head(), send(text("fi")), go_on, send(text("ne") + FINISH + DONE)]
        async with served.relay.client.stream(
            "POST", "/v1/chat", json={**HELLO, "model": "fast"}
        ) as response:
            stream = response.headers["stream-id"]
            await text_so_far(served.relay, stream, "fi")
            await served.clock.pass_(100)
            go_on.told.set()
            events = events_of(await read_messages(response))

    assert ("completed", "fine") == (events[-1]["status"], text_of(events))


async def test_the_budget_holds_over_all_attempts(routed):
    route = """
        [[route]]
        name = "fast"
        budget_s = 100
        targets = ["a/m", "b/m", "a/n", "b/n"]
    """
    times = {"fallback_after_s": 500, "first_event_timeout_s": 500, "status_wait_s": 500}
    async with routed(route, **times) as served:
        refuse = Until()
        served.a.script = [refuse, *reply("401 No", "{}")]
        served.b.script = [Hold()]
        body = {**HELLO, "model": "fast"}
        asking = asyncio.create_task(served.relay.client.post("/v1/chat", json=body, timeout=999))
        await asyncio.wait_for(served.a.called.wait(), 20)
        await served.clock.pass_(40)
        refuse.told.set()
        await asyncio.wait_for(served.b.called.wait(), 20)
        assert not asking.done()
        await served.clock.pass_(61)
        async with asyncio.timeout(20):  # an attempt alone has minutes
            response = await asking

    assert 504 == response.status_code
    assert (1, 1) == (len(served.a.calls), len(served.b.calls))


VERDICT = (
    'data: {"id":"","object":"","model":"","choices":[],"prompt_filter_results":'
    '[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false}}}]}\n\n'
)


async def test_a_verdict_on_the_prompt_is_not_yet_an_answer(routed):
    async with routed(f"{ROUTE}budget_s = 0.2") as served:
        served.a.script = [head(), send(VERDICT), Hold()]
        response = await served.post()

    assert (504, "upstream_timeout") == (response.status_code, response.json()["code"])


async def test_silence_after_a_verdict_on_the_prompt_may_be_thought(routed):
    async with routed(idle_timeout_s=0.02) as served:
        served.a.script = [head(), send(VERDICT), wait(0.05), *answer()[1:]]
        events = await served.chat()

    assert "fine" == text_of(events)
    assert ["prompt"] == [event["scope"] for event in of_type(events, "content_filter")]


EQUAL = """
[[route]]
name = "fast"
targets = [{ model = "a/m", weight = 1 }, { model = "b/m", weight = 1 }]
"""


async def test_without_affinity_weights_share_the_requests(routed):
    async with routed(f"{EQUAL}balance = 'random'") as served:
        served.a.script, served.b.script = answer("a"), answer("b")
        found = [text_of(await served.chat()) for _ in range(40)]

    assert {"a", "b"} == set(found)
    assert not served.a.calls[0].json.get("weight")


async def test_a_conversation_keeps_its_target_in_all_formats_at_all_replicas(routed):
    async with routed(EQUAL) as served, serve_relay(environ=served.environ) as replica:
        served.a.script, served.b.script = answer("a"), answer("b")
        targets = []
        for number in range(8):
            messages = [{"role": "user", "content": f"question {number}"}]
            calls = len(served.a.calls), len(served.b.calls)
            for turn in range(10):
                client = (served.relay, replica)[turn % 2].client
                path = ("/v1/chat", "/v1/chat/completions", "/v1/messages")[turn % 3]
                body = {"model": "fast", "max_tokens": 9, "messages": messages}
                assert 200 == (await client.post(path, json=body)).status_code
                messages += [{"role": "assistant", "content": "fine"}, *HELLO["messages"]]
            targets.append((len(served.a.calls) - calls[0], len(served.b.calls) - calls[1]))

    assert {(10, 0), (0, 10)} == set(targets)


async def test_a_conversation_leaves_its_target_while_that_fails(routed):
    async with routed(EQUAL, attempts=1) as served:
        served.a.script, served.b.script = answer("a"), answer("b")
        first = text_of(await served.chat())
        own = served.a if first == "a" else served.b
        own.script = BUSY
        found = [text_of(await served.chat()) for _ in range(6)]
        calls = len(own.calls)
        own.script = answer(first)
        await served.clock.pass_(PAUSE_S)
        again = [text_of(await served.chat()) for _ in range(3)]

    assert 1 < calls < 6
    assert first not in found
    assert [first] * 3 == again


async def test_a_target_that_cannot_say_the_request_is_passed_over(routed, tmp_path):
    route = '\n[upstream.c]\ndialect = "ollama"\nbase_url = "{url}"\n'
    route += '[[route]]\nname = "fast"\ntargets = ["c/m", "b/m-b"]\n'
    async with serve_upstream() as c:
        async with routed(route.format(url=f"http://127.0.0.1:{c.port}")) as served:
            served.b.script = answer()
            events = await chat(served.relay, model="fast", n=2)

        assert not c.calls
    assert "b" == of_type(events, "stream.target")[0]["upstream"]


async def test_a_relay_that_asks_itself_says_so_at_once(routed):
    async with routed() as served:
        served.a.script = answer()
        await chat(served.relay, model="a/x")
        (call,) = served.a.calls
        # As if that call had been to the relay itself, or had come back in a ring.
        response = await served.relay.client.post(
            "/v1/chat/completions", json=call.json, headers={"via": call.headers["via"]}
        )

    assert 400 == response.status_code
    assert "leads back to this relay" in response.json()["error"]["message"]


async def test_the_way_of_a_request_is_told_on(routed):
    async with routed() as served:
        served.a.script = answer()
        await served.relay.client.post(
            "/v1/chat", json={**HELLO, "model": "a/x"}, headers={"via": "1.1 seseragi-00000000"}
        )

    headers = served.a.calls[0].headers
    assert headers["via"].startswith("1.1 seseragi-00000000, 1.1 seseragi-")
    assert headers["cdn-loop"].startswith("seseragi-00000000, seseragi-")


@pytest.mark.parametrize("before", ["1.1 x, " * 700, "1.1 " + "x" * 5000 + ", "])
async def test_a_long_way_hides_no_ring(routed, before):
    async with routed() as served:
        served.a.script = answer()
        await chat(served.relay, model="a/x")
        own = served.a.calls[0].headers["via"]
        replies = [
            await served.relay.client.post(
                "/v1/chat", json={**HELLO, "model": "a/x"}, headers={"via": via}
            )
            for via in (before + own, f"{own}, {before}1.1 y", f"{before}1.1 y")
        ]

    assert [400] * 3 == [reply.status_code for reply in replies]
    assert 1 == len(served.a.calls)


async def test_a_ring_of_replicas_ends_after_a_few(routed):
    via = ", ".join(f"1.1 seseragi-0000000{number}" for number in range(6))
    async with routed() as served:
        served.a.script = answer()
        replies = [
            await served.relay.client.post(
                "/v1/chat", json={**HELLO, "model": "a/x"}, headers={"via": passed}
            )
            for passed in (via, via.rpartition(", ")[0])
        ]

    assert [400, 200] == [reply.status_code for reply in replies]
    assert "6 relays" in replies[0].json()["detail"]


class Dropping:
    """A proxy that passes requests on to a relay, without one of their headers."""

    def __init__(self, header: str) -> None:
        self.dropped = f"{header}:"
        self.to = self.port = self.requests = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        length = next(int(line[16:]) for line in lines if line.startswith("content-length: "))
        kept = [line for line in lines if not line.lower().startswith(self.dropped)]
        head = "\r\n".join([*kept, "connection: close", "", ""]).encode()
        answer, question = await asyncio.open_connection("127.0.0.1", self.to)
        question.write(head + await reader.readexactly(length))
        writer.write(await answer.read())
        question.close()
        writer.close()


@contextlib.asynccontextmanager
async def dropping(header: str) -> AsyncIterator[Dropping]:
    proxy = Dropping(header)
    server = await asyncio.start_server(proxy.pass_on, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy


@pytest.mark.parametrize("dropped", ["via", "cdn-loop"])
async def test_two_relays_that_ask_each_other_stop_when_it_has_come_round(dropped):
    async with (
        dropping(dropped) as to_b,
        dropping(dropped) as to_a,
        serve_relay(to_b) as a,  # type: ignore[arg-type]  # its address is all that matters
        serve_relay(to_a) as b,  # type: ignore[arg-type]
    ):
        to_b.to, to_a.to = b.port, a.port
        refused = await a.client.post("/v1/chat", json=HELLO)

    assert (1, 1) == (to_b.requests, to_a.requests)
    assert 400 <= refused.status_code


async def test_models_are_the_routes_first(routed):
    async with routed(ROUTE + '[[route]]\nname = "other"\ntargets = ["b/x"]\n') as served:
        listing = (await served.relay.client.get("/v1/models")).json()["data"]

    assert [("fast", "seseragi"), ("other", "seseragi")] == [
        (model["id"], model["owned_by"]) for model in listing[:2]
    ]


async def test_a_request_without_a_model_gets_the_first_route(routed):
    async with routed() as served:
        served.a.script = answer()
        events = await chat(served.relay)

    assert "fast" == events[0]["model"]


async def test_names_pass_through_only_where_that_is_allowed(routed):
    async with routed() as served:
        served.a.script = answer()
        assert "fine" == text_of(await chat(served.relay, model="a/other"))
    async with routed(passthrough=False) as served:
        response = await served.post(model="a/other")
        listing = (await served.relay.client.get("/v1/models")).json()["data"]

    assert (404, "model_not_found") == (response.status_code, response.json()["code"])
    assert "a/..." not in response.json()["detail"]
    assert not served.a.calls
    assert "fast" == listing[0]["id"]
    assert not any(model["id"].startswith(("a/", "b/")) for model in listing)


async def test_a_json_answer_falls_back_too(routed):
    async with routed() as served:
        served.a.script, served.b.script = BUSY, answer()
        response = await served.post(stream=False)

    assert ("fine", "b") == (response.json()["text"], response.json()["target"]["upstream"])
