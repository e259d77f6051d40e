"""The table of texts names every field of events and requests, and the walk sees what it says."""

import json
import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import pytest

from app.errors import RequestError
from app.events import (
    ChoiceEnd,
    Event,
    LogProbs,
    ProviderData,
    Source,
    StreamStart,
    StreamTarget,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from app.hooks.contract import Check, Hook, Text, Verdict
from app.hooks.redact import redact
from app.hooks.request import check_values
from app.hooks.texts import CHECKED, LEFT_OUT, MAX_MARKS, OPAQUE, REFUSED, Texts
from app.hooks.window import Window
from app.requests import Message, ReasoningPart, TranslatedRequest

pytestmark = pytest.mark.pure

CANARY = "ghp_" + "aB3" * 12
TREATMENTS = {"checked": CHECKED, "refused": REFUSED, "opaque": OPAQUE, "left out": LEFT_OUT}

FIELDS = """
events.ChoiceEnd.finish_reason_raw
events.ChoiceEnd.raw
events.ChoiceEnd.stop_sequence
events.ContentFilter.categories
events.ErrorInfo.code
events.ErrorInfo.message
events.ErrorInfo.param
events.ErrorInfo.provider_code
events.LogProbs.content
events.Media.data
events.Media.media_type
events.Media.url
events.Notice.code
events.Notice.message
events.Opaque.data
events.Opaque.format
events.ProviderData.raw
events.ProviderTool.input
events.ProviderTool.name
events.ProviderTool.output
events.ProviderTool.raw
events.Raw.data
events.Raw.format
events.ReasoningDelta.text
events.ReasoningEnd.encrypted
events.ReasoningEnd.format
events.ReasoningEnd.signature
events.RefusalDelta.text
events.Source.cited_text
events.Source.document
events.Source.raw
events.Source.title
events.Source.url
events.StreamEnd.cost
events.StreamEnd.error
events.StreamEnd.usage
events.StreamStart.labels
events.StreamStart.model
events.StreamStart.stream
events.StreamTarget.model
events.StreamTarget.upstream
events.StreamTarget.upstream_id
events.StreamTarget.usage
events.TextDelta.text
events.TokenCounts.cost
events.TokenCounts.service_tier
events.ToolCallDelta.arguments
events.ToolCallEnd.arguments
events.ToolCallStart.id
events.ToolCallStart.name
events.ToolCallStart.raw
events.Usage.cost
events.Usage.service_tier
requests.AssistantMessage.cache_control
requests.AssistantMessage.content
requests.AssistantMessage.name
requests.AssistantMessage.reasoning_content
requests.AssistantMessage.refusal
requests.AssistantMessage.tool_calls
requests.AudioPart.cache_control
requests.AudioPart.input_audio
requests.CacheControl.ttl
requests.CacheControl.type
requests.DeveloperMessage.cache_control
requests.DeveloperMessage.content
requests.DeveloperMessage.name
requests.FilePart.cache_control
requests.FilePart.file
requests.FileSource.file_data
requests.FileSource.file_id
requests.FileSource.filename
requests.Function.description
requests.Function.name
requests.Function.parameters
requests.FunctionCall.arguments
requests.FunctionCall.name
requests.ImagePart.cache_control
requests.ImagePart.image_url
requests.ImageUrl.url
requests.InputAudio.data
requests.InputAudio.format
requests.JsonSchema.description
requests.JsonSchema.name
requests.JsonSchema.schema
requests.JsonSchemaFormat.json_schema
requests.Opaque.data
requests.Opaque.format
requests.OpaquePart.data
requests.OpaquePart.format
requests.ReasoningPart.encrypted
requests.ReasoningPart.format
requests.ReasoningPart.signature
requests.ReasoningPart.text
requests.RefusalPart.refusal
requests.SystemMessage.cache_control
requests.SystemMessage.content
requests.SystemMessage.name
requests.TextPart.cache_control
requests.TextPart.text
requests.Tool.cache_control
requests.Tool.function
requests.ToolCall.function
requests.ToolCall.id
requests.ToolCall.opaque
requests.ToolChoice.function
requests.ToolChoiceFunction.name
requests.ToolMessage.cache_control
requests.ToolMessage.content
requests.ToolMessage.tool_call_id
requests.TranslatedRequest.allowed_tools
requests.TranslatedRequest.cache_control
requests.TranslatedRequest.client_body
requests.TranslatedRequest.extras
requests.TranslatedRequest.left_out
requests.TranslatedRequest.messages
requests.TranslatedRequest.metadata
requests.TranslatedRequest.model
requests.TranslatedRequest.prompt_cache_key
requests.TranslatedRequest.prompt_cache_retention
requests.TranslatedRequest.provider_options
requests.TranslatedRequest.reasoning_effort
requests.TranslatedRequest.reasoning_summary
requests.TranslatedRequest.response_format
requests.TranslatedRequest.safety_identifier
requests.TranslatedRequest.service_tier
requests.TranslatedRequest.stop
requests.TranslatedRequest.tool_choice
requests.TranslatedRequest.tools
requests.TranslatedRequest.truncation
requests.TranslatedRequest.user
requests.TranslatedRequest.verbosity
requests.UserMessage.cache_control
requests.UserMessage.content
requests.UserMessage.name
"""


def parts(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def structs_in(hint: Any) -> list[type]:
    if typing.get_origin(hint) is Literal:
        return []
    inner = [one for part in typing.get_args(hint) for one in structs_in(part)]
    return [hint, *inner] if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else inner


def may_hold_text(hint: Any) -> bool:
    if typing.get_origin(hint) is Literal:
        return False
    if hint in (str, Any) or structs_in(hint):
        return True
    return any(may_hold_text(part) for part in typing.get_args(hint))


def reachable() -> list[type]:
    """Return all types of events and requests; a client's own body is none: it is not sent."""
    found: list[type] = []
    waiting = [*typing.get_args(Event), TranslatedRequest, *typing.get_args(Message)]
    while waiting:
        kind = waiting.pop()
        if kind in found or kind.__name__ in ("ClientBody", "OutputCeiling"):
            continue
        found.append(kind)
        for hint in typing.get_type_hints(kind).values():
            waiting += structs_in(hint)
    return found


def texts_of_types() -> Iterator[tuple[str, str]]:
    """Yield each field that may hold text, with its name."""
    for kind in reachable():
        for name, hint in typing.get_type_hints(kind).items():
            if not name.startswith("__") and may_hold_text(hint) and name != "ceiling":
                yield f"{kind.__module__.partition('.')[2]}.{kind.__name__}.{name}", name


def test_each_field_of_each_event_and_request_is_in_the_table() -> None:
    found = dict(texts_of_types())
    for place, name in found.items():
        assert sum(name in fields for fields in TREATMENTS.values()) == 1, place
    assert set(found.values()) | {"inputs"} == frozenset().union(*TREATMENTS.values())


def test_a_new_field_is_decided_on_even_if_its_name_is_known() -> None:
    assert sorted(place for place, _ in texts_of_types()) == FIELDS.split()


def make(hint: Any, name: str = "") -> Any:
    """Return a value of a type, with a canary in each text that the table does not call opaque."""
    options = [part for part in parts(hint) if part not in (type(None), msgspec.UnsetType)]
    if not options:
        return None
    first = next((one for one in options if structs_in(one)), options[0])
    origin = typing.get_origin(first)
    if origin is typing.Annotated:
        return make(typing.get_args(first)[0], name)
    if origin is Literal:
        return typing.get_args(first)[0]
    if origin in (list, tuple):
        inner = typing.get_args(first)[0]
        found = [make(one, name) for one in parts(inner)]
        return tuple(found) if origin is tuple else found
    if origin is dict:
        return {"type": f"\u00e9\n{CANARY}", f"x {CANARY}": "y"}
    if first in (str, Any):
        if name in OPAQUE or name in REFUSED:
            return "fine"
        return f"\u00e9\n{CANARY}"
    if first is bool:
        return True
    if first in (int, float):
        return 1
    assert issubclass(first, msgspec.Struct), (first, name)
    return first(**fields_of(first))


def fields_of(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        name: make(hints[name], name)
        for name in typing.cast(Any, kind).__struct_fields__
        if name not in ("client_body", "ceiling")
    }


HOOK = Hook(name="redact", call=redact)


async def through_window(event: Event) -> str:
    window = Window([HOOK], route="r", stream="s")
    before: list[Event] = []
    if isinstance(event, ToolCallEnd):
        before = [ToolCallStart(event.block, "c", "f")]
    await window.feed(before)
    return repr(await window.feed([event]))


EVENTS = [kind for kind in typing.get_args(Event) if kind not in (StreamStart, StreamTarget)]


@pytest.mark.parametrize("kind", EVENTS)
async def test_no_canary_of_an_event_comes_through(kind: Any) -> None:
    fields = fields_of(kind)
    found = await through_window(kind(**fields))
    assert "aB3" not in found
    assert kind in (LogProbs, ProviderData, ToolCallDelta) or "aB3" in repr(fields) or found


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in EVENTS
        for name in typing.get_type_hints(kind)
        if name in REFUSED and kind is not StreamStart
    ],
)
async def test_a_canary_in_a_name_of_an_event_ends_the_answer(kind: Any, name: str) -> None:
    with pytest.raises(RequestError, match="hooks replace a part of it") as caught:
        await through_window(kind(**{**fields_of(kind), name: CANARY}))
    assert caught.value.code == "content_filtered"


async def test_no_canary_of_a_request_comes_through() -> None:
    fields = fields_of(TranslatedRequest)
    fields["messages"] = [kind(**fields_of(kind)) for kind in typing.get_args(Message)]
    request = TranslatedRequest(**fields)
    planted = repr(request).count(CANARY)
    assert planted > 20
    (found,), _ = await check_values([HOOK], [(request, "option")], route="r")
    assert "aB3" not in repr(found)
    assert repr(found).count("[key]") == planted


STRUCTS = [kind for kind in reachable() if kind.__module__ == "app.requests"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in STRUCTS for name in typing.get_type_hints(kind) if name in REFUSED],
)
async def test_a_canary_in_a_name_of_a_request_is_refused(kind: Any, name: str) -> None:
    fields = {**fields_of(kind), name: CANARY}
    if name == "allowed_tools":
        fields[name] = [CANARY]
    value = msgspec.structs.replace(kind(**fields_of(kind)), **{name: fields[name]})
    if kind.__name__ in ("Tool", "ToolChoice"):  # the only type
        return
    with pytest.raises(RequestError, match=f"{kind.__name__}.{name}: hooks replace"):
        await check_values([HOOK], [(value, "option")], route="r")


async def seen(value: Any, kind: str = "user") -> list[Text]:
    texts = Texts()
    texts.walk(value, kind)
    return texts.collected()


async def test_json_is_seen_decoded_and_plain_text_as_it_is() -> None:
    text = ' {"a": ["x\\ny", 12345678, true], "b": "{\\"c\\": \\"\\\\u0041\\"}"} '
    assert await seen(text) == [
        *(Text("name", "a"), Text("user", "x\ny"), Text("user", "12345678")),
        *(Text("name", "b"), Text("name", "c"), Text("user", "A")),
    ]
    for plain in ("a \\n b", '{"a": "half', '{"a": 1} and more', "[1] says"):
        assert await seen(plain) == [Text("user", plain)]


async def test_what_is_replaced_in_json_leaves_the_rest_as_it_was() -> None:
    async def change(check: Check) -> Verdict:
        texts = [one.text.replace("x\n", 'a"').replace("12345678", "[n]") for one in check.texts]
        return Verdict(texts)

    text = '{ "a" : "x\\n", "x\\n":1.50, "n":12345678, "e": 1e400 }'
    (found,), _ = await check_values([Hook(name="h", call=change)], [(text, "user")], route="r")
    assert found == '{ "a" : "a\\"", "a\\"":1.50, "n":"[n]", "e": 1e400 }'


async def test_keywords_of_a_schema_are_names_and_properties_are_not() -> None:
    schema = {"type": "object", "properties": {"type": {"type": "string", "title": "kind"}}}
    texts = Texts()
    texts.walk(schema, "tool")
    kinds = {one.text: one.kind for one in texts.collected()}
    assert kinds["object"] == kinds["type"] == kinds["string"] == "name"
    assert kinds["kind"] == "tool"


async def test_json_with_very_many_strings_is_one_text() -> None:
    for text in (json.dumps(["x"] * MAX_MARKS), json.dumps([1234567] * (MAX_MARKS + 1))):
        assert await seen(text) == [Text("user", text)]


async def test_a_request_without_texts_is_checked() -> None:
    (found,), _ = await check_values([HOOK], [("[1, 2]", "user")], route="r")
    assert found == "[1, 2]"


async def test_a_signature_is_of_unchanged_reasoning_only() -> None:
    for text, signature in (("fine", "s"), (CANARY, None)):
        part = ReasoningPart(text, signature="s")
        (found,), _ = await check_values([HOOK], [(part, "assistant")], route="r")
        assert found.signature == signature


async def stream(pieces: list[str], hook: Hook = HOOK) -> str:
    from app.events import StreamEnd, TextEnd, TextStart

    window = Window([hook], route="r", stream="s")
    events: list[Event] = [TextStart(0), *(TextDelta(0, piece) for piece in pieces)]
    found: list[Event] = []
    for event in [*events, TextEnd(0), StreamEnd("completed", "stop")]:
        found += await window.feed([event])
    return "".join(event.text for event in found if isinstance(event, TextDelta))


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("middle", [40, 400, 4000])
async def test_a_long_jwt_is_held_as_long_as_it_may_become_one(size: int, middle: int) -> None:
    jwt = f"eyJ{'h' * 30}.{'p' * middle}.{'s' * 43}"
    text = f"{'word ' * 100}the token {jwt} and {'word ' * 100}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert await stream(pieces) == text.replace(jwt, "[key]")


async def test_prose_waits_no_longer_than_before() -> None:
    window = Window([Hook(name="redact", call=redact, hold=40)], route="r", stream="s")
    sent = shown = 0
    for _ in range(300):
        found = await window.feed([TextDelta(0, "The desk (a@b) has sk- in it. ")])
        sent += 30
        shown += sum(len(e.text) for e in found if isinstance(e, TextDelta))
        assert sent - shown < 2 * 40 + 30


async def test_a_function_may_hold_the_end_itself() -> None:
    async def wait(check: Check) -> dict[str, Any]:
        text = check.texts[-1].text
        return {"hold": len(text) - text.index("<") if "<" in text and ">" not in text else 0}

    window = Window([Hook(name="h", call=wait, hold=5)], route="r", stream="s")
    assert [TextDelta(0, "x" * 10)] == await window.feed([TextDelta(0, "x" * 10 + "<" + "y" * 99)])
    assert [] == await window.feed([TextDelta(0, "y" * 99)])
    assert await window.feed([TextDelta(0, ">" + "z" * 99)])


async def test_a_citation_is_checked_and_a_short_finish_reason_is_not() -> None:
    calls: list[Check] = []

    async def look(check: Check) -> None:
        calls.append(check)

    window = Window([Hook(name="h", call=look)], route="r", stream="s")
    await window.feed([ChoiceEnd("stop", "end_turn")])
    assert calls == []
    await window.feed([Source(url="https://a", title="b")])
    assert [one.text for one in calls[0].texts] == ["https://a", "b"]
    assert {one.kind for one in calls[0].texts} == {"source"}
