"""What the clients of every format make of a stream, and the laws that hold in all of them.

Each format has a reader here, written from its protocol and without the code under test.
"""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from openai.types.chat import ChatCompletion

from app import events as e
from app.dialects.answering.ids import pack_id, show_call
from app.dialects.client_format import Frame
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.client.renderer import USAGE
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.framing.sse import Decoder
from tests.dialects.ag_ui.verify import read_messages, sent_of
from tests.dialects.anthropic.messages_protocol import accumulate, without_unknown
from tests.dialects.openai_chat import verify as chat
from tests.dialects.openai_responses import verify as responses
from tests.dialects.streams import joined, play
from tests.dialects.ui.verify import chunks_of, read_message
from tests.fuzz.streams_corpus import Body

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
USER = {"role": "user", "content": "Hi"}
TEXT = {"type": "text", "text": "Hi"}
HEAD: list[e.Event] = [
    e.StreamStart(STREAM, "m", 1_700_000_000, {USAGE: "1", "protocol_version": "1.0"}),
    e.StreamTarget("u", "m-1", 1, "up-1"),
]
"""How a log begins, of a client that asks for the usage too."""


REQUESTS: dict[str, dict[str, Any]] = {
    "native": {"messages": [USER]},
    "openai_chat": {"model": "m", "messages": [USER]},
    "openai_responses": {"model": "m", "input": "Hi"},
    "openai_completions": {"model": "m", "prompt": "Hi"},
    "anthropic": {"model": "m", "max_tokens": 100, "messages": [USER]},
    "ui": {"id": "chat", "messages": [{"id": "u1", "role": "user", "parts": [TEXT]}]},
    "ag_ui": {"threadId": "t1", "runId": "r1", "messages": [{"id": "u1", **USER}]},
}
"""The smallest request of each format."""


def read_failure(client_format: str, body: bytes) -> str:
    """Return the message of an error response, as the clients of a format find it."""
    if client_format == "ui":
        return body.decode()
    fields = json.loads(body)
    match client_format:
        case "native":
            message = fields["detail"]
        case "ag_ui":
            message = fields["message"]
        case _:
            message = fields["error"]["message"]
    return str(message)


class Answer(NamedTuple):
    """What a client of any format has in the end."""

    text: str
    reasoning: str
    calls: list[tuple[str, str, str]]
    """Ids, names and arguments."""
    usage: tuple[int | None, int | None] | None
    """Input and output tokens; None where the format had no place for them."""
    ended_well: bool
    refusal: str = ""
    """What is no text, in the formats that tell it apart."""


def written(client_format: str, events: Iterable[e.Event], *, after: int = 0) -> bytes:
    """Return the bytes that a client is sent after a cursor, without the time to wait."""
    writer = CLIENT_FORMATS[client_format].writer(STREAM, after=after, retry_ms=1)
    body = b"".join(writer.feed(event) for event in list(events)[writer.begin :])
    assert b"\r" not in body
    return body.removeprefix(b"retry: 1\n")


def frames(client_format: str, events: Iterable[e.Event]) -> list[Frame]:
    """Return the frames of a stream as a client's SSE decoder finds them."""
    decoder = Decoder()
    found = [
        Frame(message.data.encode(), None if message.event == "message" else message.event)
        for message in decoder.feed(written(client_format, events))
    ]
    assert decoder.close() is None
    return found


def read_openai(found: Sequence[Frame]) -> Answer:
    """Read chunks of chat or of the older completions."""
    text = reasoning = refusal = ""
    calls: dict[int, list[str]] = {}
    usage, ended, failed = None, False, False
    for chunk in (json.loads(frame.data) for frame in found if frame.data != b"[DONE]"):
        if "error" in chunk:
            failed = True
            continue
        if chunk.get("usage"):
            usage = (chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"])
        for choice in chunk["choices"]:
            if choice["index"]:
                continue
            # The official clients do not look for `[DONE]`.
            ended = ended or choice["finish_reason"] is not None
            delta = choice.get("delta", {})
            text += delta.get("content") or choice.get("text", "")
            reasoning += delta.get("reasoning_content") or ""
            refusal += delta.get("refusal") or ""
            for call in delta.get("tool_calls") or ():
                row = calls.setdefault(call["index"], ["", "", ""])
                row[0] += call.get("id") or ""
                row[1] += call["function"].get("name") or ""
                row[2] += call["function"].get("arguments") or ""
    return Answer(text, reasoning, rows(calls), usage, ended and not failed, refusal)


def read_responses(found: Sequence[Frame]) -> Answer:
    text = reasoning = refusal = ""
    calls: dict[int, list[str]] = {}
    usage, status = None, ""
    for number, frame in enumerate(found):
        event = json.loads(frame.data)
        assert (number, frame.event) == (event["sequence_number"], event["type"])
        match event["type"]:
            case "response.output_text.delta":
                text += event["delta"]
            case "response.refusal.delta":
                refusal += event["delta"]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                reasoning += event["delta"]
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                calls[event["output_index"]] = [event["item"]["call_id"], event["item"]["name"], ""]
            case "response.function_call_arguments.delta":
                calls[event["output_index"]][2] += event["delta"]
            case "response.completed" | "response.incomplete" | "response.failed":
                status = event["response"]["status"]
                if given := event["response"].get("usage"):
                    usage = (given["input_tokens"], given["output_tokens"])
            case "error":
                status = "failed"
    # `cancelled` is a status of its own there, whatever event it comes in.
    ended_well = status in ("completed", "incomplete")
    return Answer(text, reasoning, rows(calls), usage, ended_well, refusal)


def read_anthropic(found: Sequence[Frame]) -> Answer:
    payloads = [json.loads(frame.data) for frame in found]
    assert [frame.event for frame in found] == [payload["type"] for payload in payloads]
    message = accumulate(payloads)
    blocks, usage = message["content"], message["usage"]
    cached = usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
    calls = [(b["id"], b["name"], b["input"] or "{}") for b in blocks if b["type"] == "tool_use"]
    # A client may act on calls now: it makes an empty object of arguments that are none.
    assert message["stop_reason"] != "tool_use" or all(map(is_object, calls))
    return Answer(
        "".join(block["text"] for block in blocks if block["type"] == "text"),
        "".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls,
        (usage["input_tokens"] + cached, usage["output_tokens"]),
        "error" not in message,
    )


def read_ui(found: Sequence[Frame]) -> Answer:
    chunks = chunks_of(found)
    message = read_message(chunks)
    calls = []
    for part in message["parts"]:
        if part["type"] == "dynamic-tool" and not part.get("providerExecuted"):
            call = part["toolCallId"]
            pieces = [
                chunk["inputTextDelta"]
                for chunk in chunks
                if chunk["type"] == "tool-input-delta" and chunk["toolCallId"] == call
            ]
            text = "".join(pieces)
            arguments = text or "{}"
            # Of a call that the limit has cut, the text so far.
            assert part.get("input", text) in (text, json_or_none(arguments))
            calls.append((call, part["toolName"], arguments))
    usage = message["metadata"].get("usage")
    return Answer(
        "".join(part["text"] for part in message["parts"] if part["type"] == "text"),
        "".join(part["text"] for part in message["parts"] if part["type"] == "reasoning"),
        calls,
        usage and (usage.get("inputTokens"), usage.get("outputTokens")),
        chunks[-1]["type"] == "finish",
    )


def read_ag_ui(found: Sequence[Frame]) -> Answer:
    events = sent_of(found)
    messages = read_messages(events)
    texts = {
        role: "".join(m.get("content", "") for m in messages if m["role"] == role)
        for role in ("assistant", "reasoning")
    }
    last = events[-1]
    usage = last["usage"][0] if "usage" in last else None
    return Answer(
        texts["assistant"],
        texts["reasoning"],
        [
            (call["id"], call["function"]["name"], call["function"]["arguments"] or "{}")
            for message in messages
            for call in message.get("toolCalls", ())
            if not call["id"].startswith("provider_")
        ],
        usage and (usage.get("inputTokens"), usage.get("outputTokens")),
        last["type"] == "RUN_FINISHED" and last["outcome"]["type"] == "success",
    )


def rows(calls: dict[int, list[str]]) -> list[tuple[str, str, str]]:
    return [(call, name, arguments or "{}") for call, name, arguments in calls.values()]


def is_object(call: tuple[str, str, str]) -> bool:
    return isinstance(json_or_none(call[2]), dict)


def json_or_none(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


READERS: dict[str, Callable[[Sequence[Frame]], Answer]] = {
    "openai_chat": read_openai,
    "openai_responses": read_responses,
    "openai_completions": read_openai,
    "anthropic": read_anthropic,
    "ui": read_ui,
    "ag_ui": read_ag_ui,
}


def read(client_format: str, events: Sequence[e.Event]) -> Answer:
    return READERS[client_format](frames(client_format, events))


REFUSES = ("openai_chat", "openai_responses")
"""The formats that tell a refusal apart; in the others it is text."""

TEXTS = ("openai_completions",)
"""The formats that have nothing but text."""


def expected(client_format: str, events: Sequence[e.Event]) -> Answer:
    """Return what the events say, of choice 0."""
    own = [event for event in events if getattr(event, "choice", 0) == 0]
    if client_format == "anthropic":  # nothing follows a call that was cut
        cuts = (one.block for one in own if isinstance(one, e.ToolCallEnd) and one.incomplete)
        last = min(cuts, default=len(events))
        own = [event for event in own if (getattr(event, "block", None) or 0) <= last]
    apart = client_format in REFUSES
    said: Any = e.TextDelta if apart else e.TextDelta | e.RefusalDelta
    ends = {event.block: event.arguments for event in own if isinstance(event, e.ToolCallEnd)}
    calls = [
        (shown_id(client_format, event.id), event.name, ends[event.block] or "{}")
        for event in own
        if isinstance(event, e.ToolCallStart)
    ]
    end = events[-1]
    assert isinstance(end, e.StreamEnd)
    found = Answer(
        "".join(event.text for event in own if isinstance(event, said)),
        "".join(event.text for event in own if isinstance(event, e.ReasoningDelta)),
        calls,
        (end.usage.input_tokens, end.usage.output_tokens) if end.usage else None,
        end.status == "completed",
        "".join(event.text for event in own if apart and isinstance(event, e.RefusalDelta)),
    )
    return found._replace(reasoning="", calls=[]) if client_format in TEXTS else found


def shown_id(client_format: str, call: str) -> str:
    shown = show_call(STREAM, call)
    return pack_id(shown) if client_format == "anthropic" else shown


def check_answer(events: Sequence[e.Event]) -> None:
    """Assert that every client reads what the events say, and knows whether that is all."""
    for client_format in READERS:
        found, wanted = read(client_format, events), expected(client_format, events)
        if wanted.usage is None or not wanted.ended_well:
            wanted = wanted._replace(usage=found.usage)
        elif client_format not in ("ui", "ag_ui"):  # where a count that is unknown is 0
            wanted = wanted._replace(usage=(wanted.usage[0] or 0, wanted.usage[1] or 0))
        if client_format == "anthropic" and not all(map(is_object, wanted.calls)):
            wanted = wanted._replace(ended_well=found.ended_well)  # as `read_anthropic` says
        assert wanted == found, client_format


def check_cursors(events: Sequence[e.Event], *, most: int = 20) -> None:
    """Assert that frames are numbered, and that those after a cursor are those of the whole."""
    for client_format, spoken in CLIENT_FORMATS.items():
        whole = written(client_format, events).split(b"\n\n")[:-1]
        for number, frame in enumerate(whole, 1):  # the id is the last line
            lines = frame.decode().split("\n")
            assert lines[-1] == f"id: {STREAM}.{spoken.letter}{number}"
            assert lines[-2].startswith("data: ")
        cursors = range(0, len(whole) + 1, max(1, len(whole) // most))
        for after in {*cursors, 1, len(whole) - 1, len(whole)}:
            rest = written(client_format, events, after=after).split(b"\n\n")[:-1]
            assert whole[after:] == rest, (client_format, after)


def check_results(events: Sequence[e.Event]) -> None:
    """Assert that whole answers are what clients make of the stream, by the official ones."""
    end = events[-1]
    assert isinstance(end, e.StreamEnd)
    completed = end.status == "completed"
    summed = chat.check(frames("openai_chat", events), completed=completed)
    response = responses.check(frames("openai_responses", events))
    assert response == render_result("openai_responses", events)
    assert chunks_of(frames("ui", events)) == render_result("ui", events)
    assert sent_of(frames("ag_ui", events)) == render_result("ag_ui", events)
    if not completed:
        return
    for choice in summed.choices:
        assert joined([*events], e.TextDelta, choice.index) == (choice.message.content or "")
    whole = ChatCompletion.model_validate(render_result("openai_chat", events), strict=True)
    assert [(choice.index, chat.summary(choice.message)) for choice in summed.choices] == [
        (choice.index, chat.summary(choice.message)) for choice in whole.choices
    ]
    streamed = accumulate([json.loads(frame.data) for frame in frames("anthropic", events)])
    if "error" not in streamed:
        for block in streamed["content"]:
            if block["type"].endswith("tool_use"):
                block["input"] = json_or_none(block["input"] or "{}")
        blocks = [b for b in streamed["content"] if isinstance(b.get("input", {}), dict)]
        result = without_unknown(render_result("anthropic", events))
        assert {**streamed, "content": blocks} == result


def check_cuts(body: Body, *, cuts: int) -> None:
    """Assert `check_answer` wherever a body is cut, and however a stream is stopped in the middle."""
    dice = random.Random(body.name)
    size = len(body.data)
    for cut in [0, *dice.sample(range(size), min(cuts, size)), max(0, size - 3)]:
        check_answer([*HEAD, *play([body.data[:cut]], dialect=body.dialect)])
    statuses: tuple[e.Status, ...] = ("cancelled", "interrupted")
    for status in statuses:
        spoken = UPSTREAM_FORMATS[body.dialect]
        parser = spoken.parser(upstream="u")
        events = [*HEAD]
        for message in spoken.decoder(max_line=2**24, max_event=2**24).feed(body.data[: size // 2]):
            events += parser.feed(message)
        if not parser.ended:
            check_answer([*events, *parser.stop(status)])


def logged(body: Body, *, choices: int = 1) -> list[e.Event]:
    """Return what the log has of a whole body."""
    return [*HEAD, *play([body.data], dialect=body.dialect, choices=choices)]


def render_result(client_format: str, events: Sequence[e.Event], stream: str = STREAM) -> Any:
    return json.loads(
        msgspec.json.encode(CLIENT_FORMATS[client_format].render_result(stream, events))
    )
