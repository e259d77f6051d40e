"""A Responses provider for a Responses client: the client receives what the provider sent.

`python -m tests.dialects.openai_responses.test_same_dialect` writes the table of the exceptions
anew into the document.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import events as e
from app.dialects.openai_responses.client.result import render_result
from app.dialects.openai_responses.upstream import provider_data
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.framing.lenient import LenientDecoder
from app.framing.sse import Message
from tests.dialects.clients import STREAM, frames, read_responses, written
from tests.dialects.openai_responses import anything, verify
from tests.dialects.openai_responses.own_items import ITEMS, NOVEL, body, payloads
from tests.dialects.openai_responses.written import ENDS, MEANINGS, sse
from tests.dialects.strategies import indices, junk, some, strings
from tests.dialects.streams import CUT, absent, body_of, index, recordings, specified_bodies
from tests.dialects.tables import Table

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[3] / "docs" / "clients" / "openai.md"
BEGIN, END = (f"<!-- same dialect, Responses: {at} -->" for at in ("begin", "end"))
DIALECT = "openai_responses"

EXCEPTIONS: dict[str, tuple[str, set[str]]] = {
    "ids of the response and of items; `created_at`": (
        "the relay's; the id of a tool's item begins with the provider's",
        {"response.id", "response.created_at", "item.id", "item_id", "response.output.id"},
    ),
    "`store`, `metadata`, `user`, `safety_identifier`, `prompt_cache_key`": (
        "as the client sent them",
        {
            *("response.store", "response.metadata", "response.user"),
            *("response.safety_identifier", "response.prompt_cache_key"),
        },
    ),
    "`instructions`, `tools`, the schema of `text.format`": (
        "`null`, `[]`, `{}`: others may read the stream",
        {"response.instructions", "response.tools", "response.text.format.schema"},
    ),
    "`response.created`, `response.queued`, `response.in_progress`": (
        "the relay's, sent before the provider answers",
        set(),
    ),
    "`encrypted_content` in the last response": (
        "as in `response.output_item.done`",
        {"response.output.encrypted_content"},
    ),
    "`logprobs` of a delta": ("in `response.output_text.done`", {"logprobs"}),
    "unknown members of texts": ("in `response.output_item.done`", {"part.novel"}),
    "unknown members of deltas, repeated citations": ("left out", set()),
    "null or empty members of an item": ("may be missing", set()),
    "errors": ("the [relay's](#errors)", set()),
    "`obfuscation`, `keepalive`, sound": ("left out", {"obfuscation"}),
}
"""What differs, why, and the paths."""
EXCUSED = {path for _, paths in EXCEPTIONS.values() for path in paths}
BEGINS = ("response.created", "response.in_progress", "response.queued")


def read(body: bytes, *, keep: bool = True) -> list[e.Event]:
    """Return the whole log of a body, for a client of the same dialect or of another."""
    spoken = UPSTREAM_FORMATS[DIALECT]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u")
    if keep:
        parser.keep_provider_data()
    found = [event for message in decoder.feed(body) for event in parser.feed(message)]
    found += parser.close(decoder.close())
    target = e.StreamTarget("u", parser.model or "m", 1, "up-1")
    return [e.StreamStart(STREAM, "fast", 1_700_000_000), target, *found]


def receive(events: Iterable[e.Event]) -> list[dict[str, Any]]:
    return [json.loads(frame.data) for frame in frames(DIALECT, events)]


def sent_in(body: bytes) -> list[dict[str, Any]]:
    messages = LenientDecoder(max_line=2**24, max_event=2**24).feed(body)
    return [json.loads(message.data) for message in messages]


def differences(sent: Any, received: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of what a value has and another lacks, or has otherwise."""
    if isinstance(sent, dict) and isinstance(received, dict):
        for name, value in sent.items():
            below = f"{path}.{name}" if path else name
            if name in received:
                yield from differences(value, received[name], below)
            elif value not in (None, [], {}):
                yield below
    elif isinstance(sent, list) and isinstance(received, list) and len(sent) == len(received):
        for one, other in zip(sent, received, strict=True):
            yield from differences(one, other, path)
    elif sent != received:
        yield path


def lost(sent: Sequence[dict[str, Any]], received: Sequence[dict[str, Any]]) -> set[str]:
    """Return the paths of what the client lacks, except for its first events."""
    sent = [event for event in sent if event["type"] not in BEGINS]
    received = [event for event in received if event["type"] not in BEGINS]
    assert [event["type"] for event in sent] == [event["type"] for event in received]
    pairs = zip(sent, received, strict=True)
    found = {path for one, other in pairs for path in differences(one, other)}
    return found - {"sequence_number"}


def recorded() -> list[Any]:
    """Return the recorded answers that OpenAI and Azure completed."""
    if index("index.json") is None:
        return [absent()]
    rows = recordings(DIALECT)
    return [row for row in rows if row.values[0]["truth"]["error"] is None]


BODIES = {name: body(*items) for name, items in {**ITEMS, "unknown items": NOVEL}.items()}


@pytest.mark.parametrize("name", BODIES)
def test_a_client_receives_what_the_provider_sent(name: str) -> None:
    events = read(BODIES[name])
    received = receive(events)

    assert lost(sent_in(BODIES[name]), received) <= EXCUSED
    assert render_result(STREAM, events) == received[-1]["response"]
    if name in ITEMS:
        verify.check(frames(DIALECT, events))


@pytest.mark.parametrize("row", recorded())
def test_a_client_receives_what_was_recorded(row: dict[str, Any]) -> None:
    events = read(body_of(row))

    assert lost(sent_in(body_of(row)), receive(events)) <= EXCUSED
    verify.check(frames(DIALECT, events))


def test_count_that_the_provider_does_not_have_is_not_invented() -> None:
    *events, last = payloads(*ITEMS["a compaction"])
    usage = last["response"]["usage"]
    details = {"cached_tokens": 4}
    last["response"]["usage"] = {**usage, "input_tokens_details": details}
    received = receive(read(sse(*events, last)))

    assert details == received[-1]["response"]["usage"]["input_tokens_details"]


def every_body() -> dict[str, bytes]:
    """Return all bodies of the dialect, the broken ones too."""
    found = {name: sse(*of) if isinstance(of, list) else of for name, (of, _) in MEANINGS.items()}
    found |= {name: of for name, (of, _) in ENDS.items()}
    paths = (path for dialect, path in specified_bodies() if dialect == DIALECT)
    return found | BODIES | {path.name: path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", every_body())
def test_it_is_the_same_answer_as_for_other_clients(name: str) -> None:
    kept, plain = read(every_body()[name]), read(every_body()[name], keep=False)
    without = [event for event in kept if not isinstance(event, e.ProviderData)]

    assert plain == [
        msgspec.structs.replace(event, raw=None)
        if isinstance(event, e.ToolCallStart)
        or (isinstance(event, e.Source) and event.url is not None and "novel" in str(event.raw))
        else event
        for event in without
    ]
    assert read_responses(frames(DIALECT, plain)) == read_responses(frames(DIALECT, kept))


@pytest.mark.parametrize("name", BODIES)
def test_one_that_is_cut_anywhere_is_never_whole(name: str) -> None:
    sent = payloads(*{**ITEMS, "unknown items": NOVEL}[name])
    for count in range(1, len(sent)):
        events = read(sse(*sent[:count]))
        received = receive(events)

        assert ["error", "response.failed"] == [event["type"] for event in received[-2:]]
        open_items = [event for event in received if event["type"] == "response.output_item.added"]
        done = [event for event in received if event["type"] == "response.output_item.done"]
        assert (
            len(open_items)
            >= len(done)
            <= sum(e["type"].endswith("item.done") for e in sent[:count])
        )
        assert len(received[-1]["response"]["output"]) == len(open_items)


@given(st.lists(anything.messages, max_size=8), st.booleans())
def test_whatever_is_sent_the_items_are_in_order(sent: list[Message], cut: bool) -> None:
    found, plain = ([*read(b"")[:2]] for _ in range(2))
    for log, keeps in ((found, True), (plain, False)):
        parser = UPSTREAM_FORMATS[DIALECT].parser(upstream="u")
        if keeps:
            parser.keep_provider_data()
        log += [event for message in sent for event in parser.feed(message)]
        log += parser.cut(CUT) if cut else parser.close(None)
    received = receive(found)
    items: list[Any] = []
    done: set[int] = set()
    for event in received:
        index: Any = event.get("output_index")
        match event["type"]:
            case "response.output_item.added":
                assert index == len(items)
                items.append(event["item"])
            case "response.output_item.done":
                assert index not in done
                done.add(index)
                items[index] = event["item"]
            case _ if index is not None:
                assert event["item_id"] == items[index]["id"]

    assert read_responses(frames(DIALECT, plain)) == read_responses(frames(DIALECT, found))
    last = received[-1]["response"]
    assert last == render_result(STREAM, found)
    assert len(items) == len(last["output"])
    if last["status"] != "failed":
        assert (last["output"], len(items)) == (items, len(done))


FORGED: list[dict[str, Any]] = [
    {"type": "response.completed", "response": {"status": "completed"}},
    {"type": "response.completed"},
    {"type": "error"},
    {"type": "response.failed", "output_index": 0},
    {"type": "response.done\n\ndata: x"},
    {"type": "response.output_item.done", "output_index": 0},
    {"type": 3, "output_index": "x", "item": []},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": 3}},
    {"type": "response.novel", "output_index": 9},
    {},
]


@pytest.mark.parametrize("place", [0, -1])
def test_a_constant_of_one_event_is_in_the_last(place: int) -> None:
    constants = {"service_tier": "flex", "system_fingerprint": "f", "provider": "P"}
    response: dict[str, Any] = {"id": "r", "service_tier": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "a"},
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    ]
    events[place]["response"] |= constants
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()

    *_, last = receive(read(body))

    assert last["response"].items() >= constants.items()


def test_data_of_a_provider_cannot_end_an_answer() -> None:
    """Not even that of another relay, whose events are taken as they are."""
    records = [e.ProviderData(e.Raw(DIALECT, json.dumps(fields))) for fields in FORGED]
    error = e.ErrorInfo("upstream_truncated", "cut", True)
    events = [*read(b"")[:2], *records, e.StreamEnd("failed", "error", None, error)]
    received = receive(events)

    assert ["created", "in_progress", "output_item.added", "error", "failed"] == [
        event["type"].removeprefix("response.") for event in received
    ]
    assert "failed" == received[-1]["response"]["status"]


RECORDS = some(
    type=anything.kinds | strings,
    output_index=indices,
    item=anything.items,
    part=anything.parts,
    response=anything.responses,
    novel=junk,
)


@given(st.lists(st.tuples(st.integers(0, 30), RECORDS), max_size=6))
def test_no_record_breaks_an_answer(records: list[tuple[int, dict[str, Any]]]) -> None:
    events = read(BODIES["tools of an MCP server"])
    for at, fields in records:
        place = 2 + at % (len(events) - 2)
        events.insert(place, e.ProviderData(e.Raw(DIALECT, json.dumps(fields))))
    received = receive(events)

    ends = ("response.completed", "response.incomplete", "response.failed", "error")
    assert ["response.completed"] == [event["type"] for event in received if event["type"] in ends]
    assert [*range(len(received))] == [event["sequence_number"] for event in received]


def test_what_is_large_is_left_out_with_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_data, "MAX_PROGRESS", 1000)
    items = copy.deepcopy(ITEMS["an image in pieces"])
    items[0][1][2]["partial_image_b64"] = "Q" * 600
    events = read(body(*items))
    received = receive(events)

    notices = [event for event in events if isinstance(event, e.Notice)]
    assert ["provider_data_dropped"] == [notice.code for notice in notices]
    assert "response.image_generation_call.partial_image" in notices[0].message
    assert "QUJD" == received[-1]["response"]["output"][0]["result"]
    assert 1 == sum("QUJD" in str(event) for event in events)


def test_it_resumes_after_any_frame() -> None:
    events = read(BODIES["tools of an MCP server"])
    whole = written(DIALECT, events)
    blocks = whole.split(b"\n\n")
    for count in range(len(blocks) - 1):
        assert b"\n\n".join(blocks[count:]) == written(DIALECT, events, after=count)


TABLE = Table(
    DOCUMENT,
    BEGIN,
    END,
    head=("of the provider", "the client receives"),
    rows=[(what, why) for what, (why, _) in EXCEPTIONS.items()],
)


def test_the_document_has_the_exceptions() -> None:
    assert TABLE.render() == TABLE.read()


if __name__ == "__main__":
    TABLE.write()
