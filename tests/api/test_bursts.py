"""What came in one burst before an upstream hung, failed or left is shown, in every format."""

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from app.testing.upstream import (
    Hold,
    Reset,
    Send,
    Step,
    Until,
    chunked_head,
    head,
    serve_upstream,
    wait,
)
from app.upstreams.connection import BURST
from tests.clock import Clock
from tests.serving import HELLO, events_of, read_messages, serve_relay, text_of, until


def sse(*documents: dict[str, Any]) -> list[bytes]:
    return [f"data: {json.dumps(document)}\n\n".encode() for document in documents]


def frame(payload: dict[str, Any], **headers: str) -> bytes:
    """A frame of Amazon's."""
    head = b"".join(
        struct.pack(">B", len(name)) + name + struct.pack(">BH", 7, len(value)) + value
        for name, value in (
            (f":{key.replace('_', '-')}".encode(), text.encode()) for key, text in headers.items()
        )
    )
    body = json.dumps(payload).encode()
    start = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = start + struct.pack(">I", zlib.crc32(start)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))


def converse(kind: str, **payload: Any) -> bytes:
    return frame(payload, message_type="event", event_type=kind)


def invoke(document: bytes) -> bytes:
    data = base64.b64encode(document.removeprefix(b"data: ").strip()).decode()
    return frame({"bytes": data}, message_type="event", event_type="chunk")


class Format(NamedTuple):
    """The messages of an answer that has not ended."""

    dialect: str
    before: list[bytes]
    tokens: list[bytes]
    terminator: bytes = b"\n\n"
    """What ends a message, and may be missing."""


def list_formats(words: Sequence[str]) -> dict[str, Format]:
    claude = Format(
        "anthropic",
        sse(
            {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        ),
        sse(
            *(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "text_delta", "text": word},
                }
                for word in words
            )
        ),
    )
    item = {"type": "message", "id": "i", "role": "assistant", "content": []}
    place = {"item_id": "i", "output_index": 0, "content_index": 0}
    parts = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": word}]}}]}
        for word in words
    ]
    return {
        "openai_chat": Format(
            "openai_chat",
            [],
            sse(*({"choices": [{"index": 0, "delta": {"content": word}}]} for word in words)),
        ),
        "openai_responses": Format(
            "openai_responses",
            sse(
                {"type": "response.created", "response": {"id": "r", "model": "m"}},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
            ),
            sse(*({"type": "response.output_text.delta", "delta": w, **place} for w in words)),
        ),
        "anthropic": claude,
        "bedrock_anthropic": Format(
            "bedrock_anthropic", [*map(invoke, claude.before)], [*map(invoke, claude.tokens)], b""
        ),
        "bedrock_converse": Format(
            "bedrock_converse",
            [converse("messageStart", role="assistant")],
            [
                converse("contentBlockDelta", contentBlockIndex=0, delta={"text": word})
                for word in words
            ],
            b"",
        ),
        "gemini": Format("gemini", [], sse(*parts)),
        "gemini, an array": Format(
            "gemini", [b"["], [f"{json.dumps(part)},\n".encode() for part in parts], b",\n"
        ),
        "cohere": Format(
            "cohere",
            sse(
                {"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant"}}},
                {
                    "type": "content-start",
                    "index": 0,
                    "delta": {"message": {"content": {"type": "text", "text": ""}}},
                },
            ),
            sse(
                *(
                    {
                        "type": "content-delta",
                        "index": 0,
                        "delta": {"message": {"content": {"text": word}}},
                    }
                    for word in words
                )
            ),
        ),
        "ollama": Format(
            "ollama",
            [],
            [
                (json.dumps({"message": {"content": word}, "done": False}) + "\n").encode()
                for word in words
            ],
            b"\n",
        ),
    }


FORMATS = list_formats(["one"])
SIZES = {"a few": (5, 1), "a burst": (BURST // 30, 1), "more": (300, 500)}
"""How many words, and of how many characters: more is what takes several reads of all there is."""
ENDS: dict[str, list[Step]] = {"a hang": [Hold()], "a reset": [Reset()], "the end": []}


def in_chunks(messages: Sequence[bytes], end: str) -> Step:
    """All messages in one piece, each a chunk of its own; at its end a chunk that is none."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(m), m) for m in messages)
    return Send(body + (b"zz\r\n" if end == "a broken chunk" else b""))


CASES = [(name, size) for name in FORMATS for size in SIZES]
SHORT = {*((name, "a burst") for name in FORMATS), ("openai_chat", "more")}


@pytest.mark.parametrize(
    ("format", "size"),
    [pytest.param(*c, marks=() if c in SHORT else pytest.mark.proving) for c in CASES],
)
async def test_what_came_before_the_cut_is_shown(
    format: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    for form in ("chunked", "to the end"):
        for end in (*ENDS, *(["a broken chunk"] if form == "chunked" else [])):
            words, events = await ask(format, form, end, size, clock)

            assert "".join(words) == text_of(events), (form, end)
            assert "failed" == events[-1]["status"], (form, end)
            expected = "upstream_timeout" if end == "a hang" else "upstream_truncated"
            assert expected == events[-1]["error"]["code"], (form, end)


async def ask(
    format: str, form: str, end: str, size: str, clock: Clock
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the words that an upstream sent before the end, and the events of the answer."""
    count, width = SIZES[size]
    words = [f"{number} ".ljust(width, "x") for number in range(count)]
    dialect, before, tokens, terminator = list_formats(words)[format]
    # The last message lacks its end, which nothing says any more.
    messages = [*before, *tokens]
    messages[-1] = messages[-1].removesuffix(terminator)
    start = chunked_head() if form == "chunked" else head()
    assert isinstance(start, Send)
    body = in_chunks(messages, end) if form == "chunked" else Send(b"".join(messages))
    assert isinstance(body, Send)
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, dialect=dialect, idle_timeout_s=60) as relay,
    ):
        script: list[Step] = [Send(start.data + body.data)]
        if end == "a broken chunk":  # in one piece with the head it is no HTTP at all
            script = [start, wait(0.05), body]
        read = Until()
        if end == "a reset" and size == "more":  # which takes back what was not sent yet
            script += [read]
        upstream.script = [*script, *ENDS.get(end, [Hold()])]
        async with relay.client.stream("POST", "/v1/chat", json=HELLO) as reply:
            assert 200 == reply.status_code, await reply.aread()
            if read in script or end == "a hang":
                all_but_one = "".join(words[:-1])
                await until(
                    relay,
                    reply.headers["stream-id"],
                    lambda found: found.json().get("text", "").startswith(all_but_one),
                )
                read.told.set()
            if end == "a hang":
                await clock.pass_(100)
            return words, events_of(await read_messages(reply))
