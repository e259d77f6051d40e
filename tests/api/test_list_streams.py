"""`GET /v1/streams`: what one owner has, so that another device finds what runs."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from app.dialects.client_format import MAX_PAIRS, ParsedRequest
from app.requests import ChatRequest, UserMessage
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    Upstream,
    head,
    send,
    serve_upstream,
    text,
)
from tests.api.asking import Asked, serve_asked
from tests.api.bodies import body_of
from tests.serving import HELLO, serve_relay
from tests.waiting import until

ENDS: list[Step] = [head(), send(text("a") + FINISH + DONE)]
GOES_ON: list[Step] = [head(), send(text("a")), Hold()]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with serve_upstream() as upstream:
        upstream.script = GOES_ON
        yield upstream


@pytest.fixture
async def asked(upstream: Upstream) -> AsyncIterator[Asked]:
    async with serve_asked(upstream, default_model="openai/m") as asked:
        yield asked


async def start(asked: Asked, path: str = "/v1/chat", *, who: str = "ann", **fields: Any) -> str:
    body = {**(HELLO if path == "/v1/chat" else body_of(path)), **fields}
    reply = await asked.by(who, "POST", path, json=body, headers={"prefer": "respond-async"})
    assert 202 == reply.status_code, reply.text
    return str(reply.headers["stream-id"])


async def ask(asked: Asked, query: str = "", *, who: str = "ann") -> dict[str, Any]:
    reply = await asked.by(who, "GET", f"/v1/streams{query}")
    assert (200, "no-store") == (reply.status_code, reply.headers["cache-control"]), reply.text
    page: dict[str, Any] = reply.json()
    return page


async def ids(asked: Asked, query: str = "", *, who: str = "ann") -> list[str]:
    return [one["stream"] for one in (await ask(asked, query, who=who))["data"]]


async def test_entries_say_what_the_streams_say(asked: Asked, upstream: Upstream):
    first = await start(asked, metadata={"topic": "tea: green"})
    await until(lambda: upstream.calls)
    upstream.script = ENDS
    second = await start(asked, model="openai/other")
    await start(asked, who="backend")

    async def has_ended() -> bool:
        return [second] == await ids(asked, "?status=ended")

    await until(has_ended)
    page = await ask(asked)
    assert {"data"} == page.keys()
    assert [first, second] == [one["stream"] for one in page["data"]]  # one that runs is first
    for one in page["data"]:
        whole = (await asked.by("ann", "GET", f"/v1/streams/{one['stream']}")).json()
        metadata = one.pop("metadata", None)
        assert metadata == ({"topic": "tea: green"} if one["stream"] == first else None)
        ended = one["status"] == "completed"
        assert ("last_event_id" in one, "ended_at" in one["timings"]) == (ended, ended)
        assert abs(one.pop("created") - whole["created"]) <= 1
        assert one.items() <= whole.items()
    assert [first] == await ids(asked, "?status=running")
    assert [first] == await ids(asked, f"?metadata={quote('topic:tea: green')}")
    assert [] == await ids(asked, "?metadata=topic:tea")
    assert [] == await ids(asked, "?metadata=topic:tea&status=ended")
    for stream in (first, second):
        assert 204 == (await asked.by("ann", "DELETE", f"/v1/streams/{stream}")).status_code
    assert {"data": []} == await ask(asked)


async def test_conversations_of_other_formats_are_found(asked: Asked):
    chat = await start(asked, "/v1/ui/chat")
    thread = await start(asked, "/v1/ag-ui", threadId="a thread", runId="a run")
    stored = await start(asked, "/v1/responses", metadata={"topic": "tea"})
    await start(asked)

    assert [chat] == await ids(asked, "?metadata=chat:a%20chat")
    assert [thread] == await ids(asked, "?metadata=thread_id:a%20thread&status=running")
    assert [stored] == await ids(asked, "?metadata=topic:tea")


async def test_pages_have_each_stream_once_also_if_it_ends_meanwhile(asked: Asked):
    started = [await start(asked, metadata={"n": str(number % 2)}) for number in range(7)]
    for stream in started[:3]:
        await asked.by("ann", "POST", f"/v1/streams/{stream}/cancel")
    expected = [*started[:2:-1], *started[2::-1]]
    for limit in range(1, 9):
        for query, wanted in (
            ("", expected),
            ("&metadata=n:1", [one for one in expected if one in started[1::2]]),
        ):
            page = await ask(asked, f"?limit={limit}{query}")
            found = [one["stream"] for one in page["data"]]
            while "next" in page:
                assert limit == len(page["data"])
                page = await ask(asked, f"?limit={limit}{query}&after={page['next']}")
                found += [one["stream"] for one in page["data"]]
            assert wanted == found
    page = await ask(asked, "?limit=2")
    await asked.by("ann", "POST", f"/v1/streams/{started[5]}/cancel")  # it ends the page
    assert [*started[4:2:-1], started[5], *started[2::-1]] == await ids(
        asked, f"?after={page['next']}"
    )


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("?limit=0", "limit: '0'"),
        ("?limit=101", "limit: '101'"),
        ("?status=done", "status: use"),
        ("?metadata=topic", "metadata: use"),
        ("?metadata=:tea", "metadata: use"),
        ("?after=st_1", "after: 'st_1'"),
        ("?after=e1-st_1&status=running", "after: 'e1-st_1'"),
        ("?status=running&status=ended", "status: the query has it 2 times"),
    ],
)
async def test_query_that_means_nothing_is_refused(asked: Asked, query: str, detail: str):
    reply = await asked.by("ann", "GET", f"/v1/streams{query}")

    assert 400 == reply.status_code
    assert detail in reply.json()["detail"]


async def test_search_reads_no_more_than_its_bound(asked: Asked, monkeypatch: Any):
    monkeypatch.setattr("app.generation.owned_streams.MAX_LISTED", 2)
    monkeypatch.setattr("app.generation.owned_streams.MAX_LOOKED", 4)
    started = [await start(asked, metadata={"n": str(number)}) for number in range(6)]
    page = await ask(asked, "?metadata=n:0")

    assert [] == page["data"]
    assert started[:1] == await ids(asked, f"?metadata=n:0&after={page['next']}")


async def test_credentials_of_one_user_list_the_same_and_links_list_nothing(asked: Asked):
    stream = await start(asked)
    secrets = [
        (await asked.by("backend", "POST", "/v1/client_secrets", json=body)).json()["value"]
        for body in ({"user": "ann"}, {"user": "bob"}, {})
    ]
    link = (await asked.by("ann", "POST", f"/v1/streams/{stream}/share", json={})).json()["token"]

    assert [[stream], [], []] == [await ids(asked, who=secret) for secret in secrets]
    assert 403 == (await asked.by(link, "GET", "/v1/streams")).status_code
    for query in (f"?token={link}", ""):
        assert 401 == (await asked.by("", "GET", f"/v1/streams{query}")).status_code


async def test_nobody_lists_where_nobody_has_to_say_who_they_are():
    async with serve_relay() as relay:
        await relay.client.post("/v1/chat", json={**HELLO, "stream": False})
        reply = await relay.client.get("/v1/streams")

    assert 403 == reply.status_code
    assert "set [auth]" in reply.json()["detail"]


@pytest.mark.pure
def test_metadata_of_lists_is_bounded():
    metadata = {
        "k" * 65: "v",
        "v": "v" * 513,
        "chat": "other",
        **{f"k{number}": "v" for number in range(20)},
    }
    chat = ChatRequest([UserMessage("hello")], metadata=metadata)

    listed = ParsedRequest(chat, tags={"chat": "c"}).metadata
    assert "c" == listed["chat"]
    assert ["chat", *(f"k{number}" for number in range(MAX_PAIRS - 1))] == [*listed]
