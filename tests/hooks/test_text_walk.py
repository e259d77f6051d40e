"""The table of texts names every field of events and requests, and the walk sees what it says."""

import inspect
import json
import types
import typing
from typing import Any, Literal

import msgspec
import pytest

from app.dialects.embeddings_calls import Request as EmbeddingsRequest
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
from app.hooks.text_walk import LEFT_OUT, MAX_MARKS, OPAQUE, REFUSED, Texts, check_values
from app.hooks.window import Window
from app.requests import ChatRequest, Message, ReasoningPart, Rest

pytestmark = pytest.mark.pure

CANARY = "ghp_" + "aB3" * 12
HOOK = Hook(name="redact", call=redact)
TREATMENTS = {"refused": REFUSED, "opaque": OPAQUE, "left out": LEFT_OUT}

# All fields of events and requests that may hold text: how hooks treat them, and why.
FIELDS = {
    ("events", "checked", "the words of a model, or of a provider's tools"): """
        TextDelta.text ReasoningDelta.text RefusalDelta.text ToolCallDelta.arguments
        ToolCallEnd.arguments LogProbs.content ProviderTool.input ProviderTool.output Source.url
        Source.title Source.document Media.url ChoiceEnd.stop_sequence
    """,
    ("events", "checked", "may quote the request or the answer"): """
        Notice.message ErrorInfo.message ErrorInfo.param ErrorInfo.provider_code
        ChoiceEnd.finish_reason_raw ContentFilter.categories StreamEnd.error
    """,
    ("events", "refused", "another name means another thing"): """
        ToolCallStart.id ToolCallStart.name ProviderTool.name Media.media_type
        TokenCounts.service_tier
    """,
    ("events", "opaque", "binary or signed"): """
        Media.data Opaque.data Opaque.format ReasoningEnd.signature ReasoningEnd.encrypted
        ReasoningEnd.format
    """,
    ("events", "opaque", "checked with the request, or known to the relay"): """
        StreamStart.stream StreamStart.model StreamStart.labels StreamTarget.upstream
        StreamTarget.model StreamTarget.upstream_id
    """,
    ("events", "opaque", "one of the relay's words, or a number"): """
        Notice.code ErrorInfo.code StreamEnd.status StreamEnd.finish_reason StreamEnd.ended_by
        StreamEnd.cost StreamEnd.usage StreamTarget.usage ChoiceEnd.finish_reason
        ContentFilter.scope TokenCounts.cost TokenCounts.cost_from
    """,
    ("events", "left out", "repeats other texts"): """
        Source.cited_text Source.raw ToolCallStart.raw ProviderTool.raw ProviderData.raw
        ChoiceEnd.raw
    """,
    ("events", "opaque", "left out with its event"): """
        Raw.data Raw.format
    """,
    ("requests", "checked", "the words of a conversation"): """
        SystemMessage.content DeveloperMessage.content UserMessage.content
        AssistantMessage.content AssistantMessage.refusal AssistantMessage.reasoning_content
        AssistantMessage.tool_calls ToolMessage.content TextPart.text RefusalPart.refusal
        ReasoningPart.text ImagePart.image_url ImageUrl.url VideoPart.video_url VideoUrl.url
        AudioPart.input_audio FilePart.file FileSource.filename FileSource.file_url ToolCall.function FunctionCall.arguments ChatBody.messages
    """,
    ("requests", "checked", "the words of a definition"): """
        ChatBody.tools ChatBody.tool_choice ChatBody.response_format Tool.function
        ToolChoice.function Function.description Function.parameters JsonSchemaFormat.json_schema
        JsonSchema.description JsonSchema.schema
    """,
    ("requests", "checked", "an option in free text, or the provider's own"): """
        ChatBody.stop ChatBody.metadata ChatBody.user ChatBody.safety_identifier
        ChatBody.prompt_cache_key ChatBody.provider_options ChatBody.cache_control
        ChatRequest.extras ChatRequest.members ChatRequest.left_out SystemMessage.cache_control
        DeveloperMessage.cache_control UserMessage.cache_control AssistantMessage.cache_control
        ToolMessage.cache_control TextPart.cache_control ImagePart.cache_control
        VideoPart.cache_control AudioPart.cache_control FilePart.cache_control Tool.cache_control
    """,
    ("requests", "checked", "what only another provider's client and server know"): """
        Open.rest
    """,
    ("requests", "refused", "another name means another thing"): """
        SystemMessage.name DeveloperMessage.name UserMessage.name AssistantMessage.name
        ToolMessage.tool_call_id ToolCall.id FunctionCall.name Function.name
        ToolChoiceFunction.name Tool.type ToolChoice.type JsonSchema.name FileSource.file_id
        CacheControl.type CacheControl.ttl ChatBody.allowed_tools ChatBody.reasoning_effort
        ChatBody.reasoning_summary ChatBody.verbosity ChatBody.service_tier
        ChatBody.truncation ChatBody.prompt_cache_retention
    """,
    ("requests", "opaque", "binary or signed"): """
        InputAudio.data InputAudio.format FileSource.file_data Opaque.data Opaque.format
        ToolCall.opaque ReasoningPart.signature ReasoningPart.encrypted ReasoningPart.format
    """,
    ("requests", "opaque", "known to the relay, or one of its words"): """
        ChatBody.model ChatRequest.ceiling ChatBody.on_disconnect ImageUrl.detail ChatBody.chat ChatBody.overlap
    """,
    ("requests", "left out", "repeats other texts"): """
        ChatRequest.client_body
    """,
    ("embeddings_calls", "checked", "the words of a request, or an option"): """
        Request.input Request.inputs Request.user Request.extras Request.provider_options
    """,
    ("embeddings_calls", "opaque", "known to the relay"): """
        Request.model
    """,
}


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
    if hint in (str, Any, msgspec.Raw, Rest) or isinstance(hint, str) or structs_in(hint):
        return True
    return any(may_hold_text(part) for part in typing.get_args(hint))


def reachable() -> list[type]:
    """Return all types of events and requests; a client's own body is none: it is not sent."""
    found: list[type] = []
    requests = [ChatRequest, *typing.get_args(Message), EmbeddingsRequest]
    waiting = [*typing.get_args(Event), *requests]
    while waiting:
        kind = waiting.pop()
        if kind in found or kind.__name__ in ("ClientBody", "OutputCeiling"):
            continue
        found.append(kind)
        for hint in typing.get_type_hints(kind).values():
            waiting += structs_in(hint)
    return found


def texts_of_types() -> set[str]:
    """Return each field that may hold text, by the type that declares it."""
    return {
        f"{base.__module__.rpartition('.')[2]}.{base.__name__}.{name}"
        for kind in reachable()
        for base in kind.__mro__
        for name in inspect.get_annotations(base)
        if not name.startswith("__") and may_hold_text(typing.get_type_hints(base)[name])
    }


def test_each_field_of_each_event_and_request_is_in_the_table_once() -> None:
    table = [
        f"{module}.{field}" for (module, *_), fields in FIELDS.items() for field in fields.split()
    ]
    assert sorted(texts_of_types()) == sorted(table), "add the field to FIELDS; how is it treated?"


def test_the_walk_treats_each_field_as_the_table_says() -> None:
    for (_, treatment, _), fields in FIELDS.items():
        for field in fields.split():
            name = field.partition(".")[2]
            found = [one for one, names in TREATMENTS.items() if name in names]
            assert found == [treatment] * (treatment != "checked"), field
    names = {field.partition(".")[2] for fields in FIELDS.values() for field in fields.split()}
    assert frozenset().union(*TREATMENTS.values()) <= names


class Thought(msgspec.Struct, frozen=True):
    """An event or request with a field that no table names."""

    idea: str
    number: int = 1


async def test_a_field_that_no_table_names_is_checked() -> None:
    (found,), _ = await check_values([HOOK], [(Thought(CANARY), "answer")], route="r")
    assert found == Thought("[key]")


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
    if origin is dict or first is Rest:
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
    fields = fields_of(ChatRequest)
    fields["messages"] = [kind(**fields_of(kind)) for kind in typing.get_args(Message)]
    request = ChatRequest(**fields)
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
