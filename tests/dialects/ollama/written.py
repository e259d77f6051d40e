"""Answers of Ollama, written by hand: what they mean, and how they end."""

import json
from typing import Any

from app.events import (
    ChoiceEnd,
    Event,
    LogProbs,
    Media,
    Notice,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    Usage,
)
from tests.dialects.blocks import call as called
from tests.dialects.blocks import reasoning, text
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed

PNG = "iVBORw0KGgoAAAA"


def ndjson(*lines: Any) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def say(content: Any = "", **more: Any) -> dict[str, Any]:
    """A line of a chat; `more` stands in its message."""
    return {
        "model": "m",
        "message": {"role": "assistant", "content": content, **more},
        "done": False,
    }


def done(reason: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"content": ""}, "done": True, "done_reason": reason, **more}


def call(name: Any = "f", arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A line with one tool call; `more` stands beside its function."""
    return say(tool_calls=[{"function": {"name": name, "arguments": arguments}, **more}])


STOPPED: list[Event] = [ChoiceEnd("stop", "stop"), StreamEnd("completed", "stop")]
CALLED: list[Event] = [ChoiceEnd("tool_calls", "stop"), StreamEnd("completed", "tool_calls")]
answer = ndjson
BEGUN = ndjson(say("a"))
MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([say("a"), say("b"), done()], [*text("a", "b"), *STOPPED]),
    "text-on-the-last-line": ([say("a"), {**say("b"), "done": True, "done_reason": "stop"}], [*text("a", "b"), *STOPPED]),
    "nothing-said": ([done()], STOPPED),
    "no-message": ([{"done": True, "done_reason": "stop"}], STOPPED),
    "whole": ([{**say("a", thinking="t"), "done": True, "done_reason": "stop"}], [*reasoning("t"), *text("a", block=1), *STOPPED]),
    "thinking": ([say(thinking="t"), say(thinking="u"), say("a"), done()], [*reasoning("t", "u"), *text("a", block=1), *STOPPED]),
    "generate": ([{"response": "a", "done": False}, {"response": "b", "done": True, "done_reason": "stop"}], [*text("a", "b"), *STOPPED]),
    "generate-thinking": ([{"thinking": "t", "response": "", "done": False}, {"response": "a", "done": True, "done_reason": "stop", "context": [1]}], [*reasoning("t"), *text("a", block=1), *STOPPED]),
    "generate-image": ([{"completed": 1, "total": 2, "done": False}, {"image": PNG, "done": True, "done_reason": "stop"}], [Media(0, "image/png", data=PNG), *STOPPED]),
    "images": ([say("a", images=[PNG, "/9j/x", "R0lGODx", "UklGRx", "AAAA", "", 5]), say("b"), done()],
     [*text("a"), Media(1, "image/png", data=PNG), Media(2, "image/jpeg", data="/9j/x"), Media(3, "image/gif", data="R0lGODx"), Media(4, "image/webp", data="UklGRx"), Media(5, "image/*", data="AAAA"), *text("b", block=6), *STOPPED]),
    "call": ([call("f", {"a": [1, "あ"]}), done()], [*called("f", '{"a": [1, "あ"]}'), *CALLED]),
    "call-after-text": ([say("a"), call("f", {}), done()], [*text("a"), *called("f", "{}", block=1), *CALLED]),
    "call-without-arguments": ([call("f"), done()], [*called("f"), *CALLED]),
    "call-with-id": ([call("f", {}, id="i"), done()], [*called("f", "{}", id="i"), *CALLED]),
    "call-with-text-arguments": ([call("f", '{"a":1}'), done()], [*called("f", '{"a":1}'), *CALLED]),
    "calls-of-one-id": ([call("f", {"a": 1}, id="i"), call("f", {"a": 2}, id="i"), done()], [*called("f", '{"a": 1}', id="i"), *called("f", '{"a": 2}', block=1), *CALLED]),
    "calls-of-one-index": ([{**say(tool_calls=[{"function": {"index": 0, "name": "f", "arguments": {}}}, {"function": {"index": 0, "name": "f", "arguments": {}}}])}, done()], [*called("f", "{}"), *called("f", "{}", block=1), *CALLED]),
    "call-cut-by-the-limit": ([call("f", {}), done("length")], [*called("f", "{}"), ChoiceEnd("length", "length"), StreamEnd("completed", "length")]),
    "call-without-name": ([call("", {}), done()], [Notice("tool_call_dropped", "the upstream sent a tool call without a name"), *STOPPED]),
    "length": ([say("a"), done("length")], [*text("a"), ChoiceEnd("length", "length"), StreamEnd("completed", "length")]),
    "no-reason": ([say("a"), {"done": True}], [*text("a"), ChoiceEnd("stop"), StreamEnd("completed", "stop")]),
    "a-new-reason": ([say("a"), done("tired")], [*text("a"), ChoiceEnd("unknown", "tired"), StreamEnd("completed", "unknown")]),
    "load-after-text": ([say("a"), done("load")], [*text("a"), ChoiceEnd("unknown", "load"), StreamEnd("completed", "unknown")]),
    "usage": ([say("a"), done(prompt_eval_count=3, eval_count=4)], [*text("a"), STOPPED[0], Usage(3, 4, 7), StreamEnd("completed", "stop", TokenCounts(3, 4, 7))]),
    "usage-of-a-cached-prompt": ([done(eval_count=4)], [STOPPED[0], Usage(output_tokens=4), StreamEnd("completed", "stop", TokenCounts(output_tokens=4))]),
    "logprobs": ([{**say("a"), "logprobs": [{"token": "a", "logprob": -0.5}]}, done()], [TextStart(0), TextDelta(0, "a"), LogProbs(0, [{"token": "a", "logprob": -0.5}]), TextEnd(0), *STOPPED]),
    "after-the-end": ([say("a"), done(), say("b"), {"error": "x"}, done("length")], [*text("a"), *STOPPED]),
    "half-an-emoji": ([say("\ud83d"), say("\ude00"), done()], [*text("😀"), *STOPPED]),
}  # fmt: skip
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-line-end": (ndjson(say("a"), done())[:-1], FINISHED),
    "crlf": (ndjson(say("a"), done()).replace(b"\n", b"\r\n"), FINISHED),
    "pretty": (json.dumps({**say("a"), "done": True}, indent=2).encode(), FINISHED),
    "not-done": (ndjson(say("a")), TRUNCATED),
    "half-done": (ndjson(say("a"), done())[:-2], TRUNCATED),
    "done-is-no-word": (ndjson(say("a"), {"done": "true"}), TRUNCATED),
    "nothing": (b"", TRUNCATED),
    "blank-lines": (b"\n\r\n", TRUNCATED),
    "loaded": (ndjson(done("load")), INVALID),
    "unloaded": (ndjson(done("unload")), INVALID),
    "error": (ndjson(say("a"), {"error": "it fell over"}), UNAVAILABLE),
    "error-first": (ndjson({"error": "model 'x' not found"}), failed("upstream_not_found")),
    "error-object": (ndjson({"error": {"code": 429}}), failed("upstream_rate_limited")),
    "error-with-status": (ndjson({"error": "x", "status_code": 503}), failed("upstream_overloaded")),
    "error-beside-done": (ndjson({**done(), "error": "x"}), UNAVAILABLE),
    "error-unterminated": (ndjson(say("a")) + b'{"error":"x"}', UNAVAILABLE),
    "error-cut": (ndjson(say("a")) + b'{"error":"x', TRUNCATED),
    "error-of-many-lines": (b'{\n "error": "unauthorized",\n "code": 401\n}', failed("upstream_auth")),
    "words-of-a-proxy": (b'{"detail":"Invalid API key"}\n', failed("upstream_auth")),
    "message-of-a-proxy": (b'{"message":"no route","code":404}', failed("upstream_not_found")),
    "html": (b"<html>\n</html>\n", INVALID),
    "a-list": (b"[]\n", INVALID),
    "garbage-amid": (ndjson(say("a")) + b"oops\n" + ndjson(done()), INVALID),
    "events": (b'data: {"choices":[]}\n\n', INVALID),
}  # fmt: skip
