"""Bodies that a hostile or broken upstream could send, of any size, for every dialect."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

from app.dialects.reading.event_builder import EventBuilder as Told
from app.events import Event
from tests.framing import frames

Shape = Callable[[int], bytes]
"""Gives a body of about so many bytes."""


def sse(document: Any, *, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(document)}\n\n".encode()


def fill(size: int, make: Callable[[int], bytes]) -> Iterator[bytes]:
    """Make one message after the other until there are so many bytes."""
    total = 0
    for number in count():
        message = make(number)
        yield message
        total += len(message)
        if total >= size:
            return


def many(make: Callable[[int], bytes], *, before: bytes = b"", after: bytes = b"") -> Shape:
    """A body of many messages, each by its number."""
    return lambda size: before + b"".join(fill(size, make)) + after


def turns(*makes: Callable[[int], bytes], before: bytes = b"") -> Shape:
    """A body of many messages, of one kind after the other."""
    return many(lambda number: makes[number % len(makes)](number), before=before)


def once(make: Callable[[int], Iterable[bytes] | bytes]) -> Shape:
    """A body of few messages, which are given the size."""

    def build(size: int) -> bytes:
        made = make(size)
        return made if isinstance(made, bytes) else b"".join(made)

    return build


def rows(size: int, make: Callable[[int], Any]) -> list[Any]:
    """Return values for one list, of about so many bytes of JSON in all."""
    found, total = [], 0
    for number in count():
        found.append(make(number))
        total += len(json.dumps(found[-1])) + 1
        if total >= size:
            return found
    raise AssertionError


def nested(size: int) -> str:
    return '{"a":' * (size // 6) + "1" + "}" * (size // 6)


# OpenAI Chat Completions


def _chat(*choices: Any, **fields: Any) -> bytes:
    return sse({"id": "c", "model": "m", "choices": list(choices), **fields})


def _delta(*, index: int = 0, **delta: Any) -> bytes:
    return _chat({"index": index, "delta": delta})


def _call(*, choice: int = 0, **call: Any) -> bytes:
    return _delta(index=choice, tool_calls=[call])


def _fragment(arguments: str, **function: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments, **function}}


_STOP = _chat({"index": 0, "delta": {}, "finish_reason": "stop"})

CHAT: dict[str, Shape] = {
    "tiny texts": many(lambda n: _delta(content="a")),
    "turns of text and reasoning": turns(lambda n: _delta(content="a"), lambda n: _delta(reasoning=f"b{n}")),
    "results of a search": many(lambda n: _chat({"index": 0, "delta": {"content": "a"}}, web_search=[{"link": f"https://a/{n % 50}"}, {"link": f"https://b/{n}"}])),
    "calls": many(lambda n: _call(index=n, id=f"i{n}", **_fragment("{}", name="f"))),
    "calls of one id": many(lambda n: _call(index=n, id="i", **_fragment("{}", name="f"))),
    "calls without a name": many(lambda n: _call(index=n, id=f"i{n}", **_fragment("{"))),
    "calls of one place": many(lambda n: _call(id=f"i{n}", **_fragment("{}", name="f"))),
    "a call that repeats its name": many(lambda n: _call(index=0, **_fragment("[" if n == 0 else "1,", name="f"))),
    "a call of white space": many(lambda n: _call(index=0, **_fragment(" ", name="f"))),
    "blank arguments": once(lambda size: [_call(index=0, **_fragment("", name="f")), *fill(size, lambda n: _delta(tool_calls=[{"index": 0, **_fragment(" ")}] * 500))]),
    "turns of open calls": many(lambda n: _call(index=n % 300, id=f"i{n % 300}", **_fragment('["', name="f"))),
    "a call after the finish": many(lambda n: _call(index=0, id="i", **_fragment("[", name="f")), before=_STOP),
    "comments after a long call": many(lambda n: b": a comment, which is a read of its own\n\n", before=_call(index=0, id="i", **_fragment("[" + "1," * 20_000, name="f")) + _STOP),
    "choices": many(lambda n: _delta(index=n % 128, content="a")),
    "choices that are none": turns(lambda n: _delta(index=-n, content="a"), lambda n: _delta(index=2**60 + n, reasoning="a")),
    "choices of one chunk": once(lambda size: _chat(*rows(size, lambda n: {"index": n % 128, "delta": {"content": "a"}}))),
    "messages": many(lambda n: _chat({"index": 0, "message": {"content": "a"}}, object="x")),
    "finish reasons": many(lambda n: _chat({"index": n % 128, "finish_reason": "x" * 2000})),
    "one text": once(lambda size: _delta(content="é" * (size // 6))),
    "one call": once(lambda size: _call(index=0, id="i", **_fragment('["' + "\\\\" * (size // 4), name="f"))),
    "arguments of brackets": once(lambda size: _call(index=0, id="i", **_fragment("[" * size, name="f")) + _STOP),
    "an image": once(lambda size: _delta(images=[{"image_url": {"url": "data:a/" + "a" * size}}])),
    "images": many(lambda n: _delta(images=[{"image_url": {"url": "data:image/png;base64,AA"}}])),
    "annotations": many(lambda n: _delta(annotations=[{"type": "url_citation", "url_citation": {"url": f"https://a/{n}"}}]), before=_delta(content="a")),
    "citations repeated": many(lambda n: _chat({"index": 0, "delta": {"content": "a"}}, citations=["https://a"] * 9)),
    "verdicts": many(lambda n: _chat({"index": 0, "content_filter_results": {"hate": {"severity": n}}, "delta": {}})),
    "log probabilities without a text": many(lambda n: _chat({"index": 0, "delta": {}, "logprobs": {"content": [{"token": "a"}]}})),
    "sounds": many(lambda n: _delta(index=n % 128, audio={"data": "AAAA"})),
    "deep JSON": once(lambda size: f'data: {{"choices":{nested(size)}}}\n\n'.encode()),
    "an error": once(lambda size: sse({"error": {"message": "model " * (size // 6), "code": "9" * 4000}})),
    "details of an error": once(lambda size: sse({"error": {"details": rows(size, lambda n: {"retryDelay": "1m1m"})}})),
}  # fmt: skip


# OpenAI Responses


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": f"response.{kind}", **fields})


def _item(kind: str, number: int, **item: Any) -> bytes:
    return _event(f"output_item.{kind}", output_index=number, item=item)


def _function(number: int, arguments: str = "{}") -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": f"i{number}",
        "name": "f",
        "arguments": arguments,
        "status": "completed",
    }


def _completed(output: list[Any]) -> bytes:
    return _event("completed", response={"status": "completed", "output": output})


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


RESPONSES: dict[str, Shape] = {
    "tiny texts": many(lambda n: _event("output_text.delta", delta="a")),
    "turns of text and reasoning": turns(
        lambda n: _event("output_text.delta", output_index=1, delta="a"),
        lambda n: _event("reasoning_summary_text.delta", output_index=0, delta="a"),
    ),
    "texts of one item": many(lambda n: _event("output_text.delta", output_index=0, content_index=n, delta="a")),
    "texts of one item, and wholes elsewhere": once(
        lambda size: [
            *fill(size // 2, lambda n: _event("output_text.delta", content_index=n, delta="a")),
            *fill(
                size // 2,
                lambda n: _event("output_text.done", content_index=n + 10**6, text="ab"[n % 2 :]),
            ),
        ]
    ),
    "items, and wholes of others": turns(lambda n: _event("output_text.delta", output_index=n, delta="a"), lambda n: _item("done", n + 10**6, **_message("a" if n % 4 else "b"))),
    "wholes of others than a long item": many(lambda n: _item("done", n, **_message("b")), before=_event("output_text.delta", output_index=10**6, delta="a" * 100_000)),
    "a part for each token": once(lambda size: [*fill(size, lambda n: _event("output_text.delta", content_index=n, delta="a")), _item("done", 0, **_message("a" * size))]),
    "calls": turns(lambda n: _item("added", n // 2, **_function(n // 2, "")), lambda n: _item("done", n // 2, **_function(n // 2))),
    "calls, and all of them at the end": once(lambda size: [*fill(size // 2, lambda n: _item("added", n, **_function(n, ""))), _completed(rows(size // 2, lambda n: _function(n)))]),
    "calls at the end only": once(lambda size: _completed(rows(size, _function))),
    "texts at the end only": once(lambda size: _completed(rows(size, lambda n: _message("a")))),
    "whole texts that contradict": many(lambda n: _event("output_text.done", output_index=0, text="b"), before=_event("output_text.delta", output_index=0, delta="a" * 100_000)),
    "pieces of code": many(lambda n: _event("code_interpreter_call_code.delta", output_index=0, delta="a")),
    "turns of open calls": many(lambda n: _event("function_call_arguments.delta", output_index=n % 300, delta="[")),
    "one text": once(lambda size: _event("output_text.delta", delta="a" * size)),
    "verdicts": many(lambda n: _event("in_progress", response={"content_filters": [{"content_filter_results": {"a": n}}]})),
    "deep JSON": once(lambda size: f"data: {nested(size)}\n\n".encode()),
    "an error": once(lambda size: sse({"type": "error", "message": "model " * (size // 6)})),
}  # fmt: skip


# Anthropic Messages


def _block(number: int, kind: str, **content: Any) -> dict[str, Any]:
    content = {"type": kind, **content}
    return {"type": "content_block_start", "index": number, "content_block": content}


def _piece(number: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": number, "delta": {"type": kind, **delta}}


def _end(number: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": number}


def anthropic(write: Callable[[Any], bytes]) -> dict[str, Shape]:
    """Return the shapes of Claude's events, however they are framed."""

    def each(*makes: Callable[[int], Any], before: bytes = b"") -> Shape:
        return turns(*[lambda n, make=make: write(make(n)) for make in makes], before=before)

    return {
        "tiny texts": each(lambda n: _piece(0, "text_delta", text="a")),
        "blocks": each(lambda n: _block(n // 3, "text", text=""), lambda n: _piece(n // 3, "text_delta", text="a"), lambda n: _end(n // 3)),
        "blocks that never end": each(lambda n: _block(n, "text", text="")),
        "blocks of negative and huge numbers": each(lambda n: _block(-n, "thinking", thinking="a"), lambda n: _block(2**70 + n, "text", text="a")),
        "calls": each(
            lambda n: _block(n // 3, "tool_use", id=f"i{n // 3}", name="f", input={}),
            lambda n: _piece(n // 3, "input_json_delta", partial_json="{}"),
            lambda n: _end(n // 3),
        ),
        "calls that never end": each(lambda n: _block(n, "tool_use", id=f"i{n}", name="f", input={})),
        "calls of one number and name": each(
            lambda n: _block(0, "tool_use", id="i", name="f", input={"n": n}),
            lambda n: _piece(0, "input_json_delta", partial_json="["),
        ),
        "turns of open blocks": each(lambda n: _piece(n % 300, "text_delta", text="a")),
        "turns of open calls": each(
            lambda n: (_block(n, "tool_use", id=f"i{n}", name="f") if n < 300 else _piece(n % 300, "input_json_delta", partial_json="["))
        ),
        "citations without a text": each(lambda n: _piece(0, "citations_delta", citation={"url": f"https://a/{n}"})),
        "citations": each(lambda n: _piece(0, "citations_delta", citation={"url": f"https://a/{n}"}), before=write(_piece(0, "text_delta", text="a"))),
        "tools of the provider": each(
            lambda n: _block(n, "server_tool_use", id=f"i{n}", name="web_search", input={"a": 1}),
            lambda n: _end(n - 1),
            lambda n: _block(n, "web_search_tool_result", tool_use_id=f"i{n - 2}", content=[]),
        ),
        "input of a tool of the provider": each(
            lambda n: (_piece(0, "input_json_delta", partial_json="[") if n else _block(0, "server_tool_use", id="i", name="web_search"))
        ),
        "counts": each(lambda n: {"type": "message_delta", "usage": {f"k{n}": n}, "delta": {}}),
        "one text": once(lambda size: write(_piece(0, "text_delta", text="a" * size))),
        "a whole message": once(
            lambda size: write({"type": "message", "content": rows(size, lambda n: {"type": "tool_use", "id": f"i{n}", "name": "f"})})
        ),
        "an error": once(lambda size: write({"type": "error", "error": {"message": "model " * (size // 6)}})),
    }  # fmt: skip


def _invoke(document: Any) -> bytes:
    return frames.event("chunk", {"bytes": b64encode(json.dumps(document).encode()).decode()})


# Bedrock's Converse


def _at(number: int, name: str, **fields: Any) -> bytes:
    return frames.event(name, {"contentBlockIndex": number, **fields})


CONVERSE: dict[str, Shape] = {
    "tiny texts": many(lambda n: _at(0, "contentBlockDelta", delta={"text": "a"})),
    "blocks": turns(lambda n: _at(n, "contentBlockDelta", delta={"text": "a"}), lambda n: _at(n, "contentBlockStop")),
    "calls": turns(
        lambda n: _at(n, "contentBlockStart", start={"toolUse": {"toolUseId": f"i{n}", "name": "f"}}),
        lambda n: _at(n - 1, "contentBlockDelta", delta={"toolUse": {"input": "{}"}}),
    ),
    "calls without a name": many(lambda n: _at(n, "contentBlockDelta", delta={"toolUse": {"input": "{"}})),
    "citations without a text": many(lambda n: _at(0, "contentBlockDelta", delta={"citation": {"source": f"https://a/{n}"}})),
    "results of tools": turns(
        lambda n: _at(n, "contentBlockStart", start={"toolResult": {"toolUseId": "i"}}),
        lambda n: _at(n - 1, "contentBlockDelta", delta={"toolResult": [{"text": "a"}]}),
    ),
    "empty frames": many(lambda n: frames.frame(b"")),
    "one text": once(lambda size: _at(0, "contentBlockDelta", delta={"text": "a" * size})),
    "an error": once(lambda size: frames.exception("validationException", {"message": "model " * (size // 6)})),
}  # fmt: skip


# Gemini


def _candidate(*parts: Any, index: int = 0, **fields: Any) -> bytes:
    return sse({"candidates": [{"index": index, "content": {"parts": list(parts)}, **fields}]})


def _grounding(chunks: list[Any], supports: list[Any]) -> dict[str, Any]:
    return {"groundingChunks": chunks, "groundingSupports": supports}


def _web(number: int, title: str = "t") -> dict[str, Any]:
    return {"web": {"uri": f"https://a/{number}", "title": title}}


def _support(start: int, end: int, numbers: list[int], text: str = "") -> dict[str, Any]:
    segment = {"startIndex": start, "endIndex": end, "text": text}
    return {"segment": segment, "groundingChunkIndices": numbers}


def _partial(path: str, value: str, **call: Any) -> bytes:
    values = [{"jsonPath": path, "stringValue": value}]
    return _candidate({"functionCall": {"partialArgs": values, "willContinue": True, **call}})


GEMINI: dict[str, Shape] = {
    "tiny texts": many(lambda n: _candidate({"text": "a"})),
    "turns of text and thoughts": turns(lambda n: _candidate({"text": "a"}), lambda n: _candidate({"text": "b", "thought": True})),
    "parts of one chunk": once(lambda size: _candidate(*rows(size, lambda n: {"text": "a", "thought": n % 2 == 0}))),
    "calls": many(lambda n: _candidate({"functionCall": {"name": "f", "args": {"a": n}}})),
    "calls of one id": many(lambda n: _candidate({"functionCall": {"name": "f", "id": "i"}})),
    "pieces of arguments": many(lambda n: _partial("$.a", "b", **({"name": "f"} if n == 0 else {}))),
    "arguments of many names": many(lambda n: _partial(f"$.a{n}", "b", **({"name": "f"} if n == 0 else {}))),
    "arguments at a deep place": many(lambda n: _partial("$.a" + ".b" * 200 + f".c{n}", "b", **({"name": "f"} if n == 0 else {}))),
    "arguments at one very deep place": once(lambda size: _partial("$" + ".a" * (size // 2), "b", name="f")),
    "arguments at a place that does not end": once(lambda size: _partial("$['" + "\\a" * (size // 3), "b", name="f")),
    "choices": many(lambda n: _candidate({"text": "a"}, index=n % 200)),
    "choices that are none": many(lambda n: _candidate({"text": "a"}, index=-n)),
    "text with grounding": many(lambda n: _candidate({"text": "some text"}, groundingMetadata=_grounding([_web(0)], [_support(0, 4, [0], "some")]))),
    "supports of a long text": once(
        lambda size: [
            _candidate({"text": "é" * (size // 12)}),
            _candidate(
                groundingMetadata=_grounding(
                    [_web(0)], rows(size // 2, lambda n: _support(0, size // 12, [0]))
                )
            ),
        ]
    ),
    "supports of many texts": once(
        lambda size: [
            *fill(size // 2, lambda n: _candidate({"text": "a" * 50, "thought": n % 2 == 0})),
            _candidate(
                groundingMetadata=_grounding(
                    [_web(0)], rows(size // 2, lambda n: _support(0, 10, [0], "b" * 10))
                )
            ),
        ]
    ),
    "numbers of one source": once(
        lambda size: _candidate(
            groundingMetadata=_grounding(
                [_web(0, "é" * (size // 12))],
                [_support(0, 1, [0] * (size // 8), "a"), _support(0, 2, [0] * (size // 8), "a")],
            )
        )
    ),
    "sounds": many(lambda n: _candidate({"inlineData": {"mimeType": f"audio/x{n % 500}", "data": "AAAA"}})),
    "tools of Google's": turns(lambda n: _candidate({"toolCall": {"id": f"i{n}", "args": {}}}), lambda n: _candidate({"toolResponse": {"id": f"i{n - 1}", "response": {}}})),
    "verdicts": many(lambda n: _candidate(safetyRatings=[{"category": "a", "probability": str(n)}])),
    "one text": once(lambda size: _candidate({"text": "a" * size})),
    "an array": once(lambda size: (b"[" + b",".join(c[6:-2] for c in fill(size, lambda n: _candidate({"text": "a"}))))),
    "an array of commas": once(lambda size: b"[" + b"," * size),
    "an array of quotes": once(lambda size: b"[" + b'"' * size),
    "an array of brackets": once(lambda size: b"[" + b"[" * size),
    "an array of empty objects": once(lambda size: b"[" + b"{}" * (size // 2)),
    "deep JSON": once(lambda size: f"data: {nested(size)}\n\n".encode()),
    "an error": once(lambda size: sse({"error": {"message": "model " * (size // 6)}})),
}  # fmt: skip


# Google's Interactions API


def _step(kind: str, index: int = 0, **step: Any) -> bytes:
    return sse({"event_type": "step.start", "index": index, "step": {"type": kind, **step}})


def _more(kind: str, index: int = 0, **delta: Any) -> bytes:
    return sse({"event_type": "step.delta", "index": index, "delta": {"type": kind, **delta}})


def _stop(index: int = 0) -> bytes:
    return sse({"event_type": "step.stop", "index": index})


def _cites(n: int) -> bytes:
    page = {"url": "https://a", "start_index": n % 99, "end_index": n}
    return _more("text_annotation_delta", annotations=[page])


INTERACTIONS: dict[str, Shape] = {
    "tiny texts": many(lambda n: _more("text", text="a"), before=_step("model_output")),
    "steps": turns(lambda n: _step("model_output", n), lambda n: _more("text", n - 1, text="a"), lambda n: _stop(n - 2)),
    "steps that never end": turns(lambda n: _step("model_output", n), lambda n: _more("text", n - 1, text="a")),
    "one step of many starts": turns(lambda n: _step("model_output"), lambda n: _more("text", text="a")),
    "two texts at once": many(lambda n: _more("text", n % 2, text="a"), before=_step("model_output") + _step("model_output", 1)),
    "thoughts": turns(lambda n: _step("thought", n), lambda n: _more("thought_summary", n - 1, content={"text": "a"}), lambda n: _more("thought_signature", n - 2, signature="s"), lambda n: _stop(n - 3)),
    "signatures": many(lambda n: _more("thought_signature", signature="s"), before=_step("thought")),
    "calls": turns(lambda n: _step("function_call", n, id=f"i{n}", name="f"), lambda n: _stop(n - 1)),
    "calls that never end": many(lambda n: _step("function_call", n, id=f"i{n}", name="f", arguments={"a": 1})),
    "a call of many pieces": many(lambda n: _more("arguments_delta", arguments="[" if n == 0 else "1,"), before=_step("function_call", id="i", name="f")),
    "tools of Google's": turns(lambda n: _step("google_search_call", n, id=f"i{n}", arguments={"queries": ["q"]}), lambda n: _step("google_search_result", n, call_id=f"i{n - 1}", result=[{"search_suggestions": "a"}])),
    "one tool of many pieces": many(lambda n: _more("google_search_call", arguments={"queries": ["q"]}), before=_step("google_search_call", id="i")),
    "citations": many(_cites, before=_step("model_output") + _more("text", text="é" * 5000)),
    "citations of one event": once(lambda size: [_step("model_output"), _more("text", text="é" * (size // 12)), _more("text_annotation_delta", annotations=rows(size // 2, lambda n: {"url": "https://a", "start_index": 2 * n, "end_index": 4 * n}))]),
    "sounds": many(lambda n: _more("audio", data="AAAA"), before=_step("model_output")),
    "usage so far": many(lambda n: sse({"event_type": "step.stop", "index": n, "usage": {"total_tokens": n}})),
    "all at the end": once(lambda size: sse({"event_type": "interaction.completed", "interaction": {"steps": rows(size, lambda n: {"type": "model_output", "content": [{"type": "text", "text": "a"}]})}})),
    "one text": once(lambda size: _more("text", text="é" * (size // 6))),
    "one step": once(lambda size: _step("code_execution_result", result="é" * (size // 6)) + _stop()),
    "an error": once(lambda size: sse({"event_type": "error", "error": {"message": "model " * (size // 6)}})),
}  # fmt: skip


# Cohere


def _cohere(kind: str, index: int = 0, **message: Any) -> bytes:
    return sse({"type": kind, "index": index, "delta": {"message": message}})


COHERE: dict[str, Shape] = {
    "tiny texts": many(lambda n: _cohere("content-delta", content={"text": "a"})),
    "blocks": turns(lambda n: _cohere("content-start", n, content={"text": ""}), lambda n: _cohere("content-delta", n - 1, content={"text": "a"})),
    "one block of many numbers": many(lambda n: _cohere("content-delta", n, content={"text": "a"})),
    "calls": turns(lambda n: _cohere("tool-call-start", n, tool_calls={"id": f"i{n}", "function": {"name": "f"}}), lambda n: _cohere("tool-call-end", n - 1)),
    "one call of many numbers": many(lambda n: _cohere("tool-call-start", n, tool_calls={"id": "i", "function": {"name": "f"}})),
    "citations": many(lambda n: _cohere("citation-start", citations={"start": n, "sources": [{"id": "a"}]})),
    "one text": once(lambda size: _cohere("content-delta", content={"text": "a" * size})),
    "an error": once(lambda size: sse({"message": "model " * (size // 6)})),
}  # fmt: skip


# Ollama


def _line(**message: Any) -> bytes:
    return json.dumps({"message": message, "done": False}).encode() + b"\n"


OLLAMA: dict[str, Shape] = {
    "tiny texts": many(lambda n: _line(content="a")),
    "turns of text and thinking": turns(lambda n: _line(content="a"), lambda n: _line(thinking="a")),
    "calls": many(lambda n: _line(tool_calls=[{"id": f"i{n}", "function": {"name": "f"}}])),
    "calls of one id": many(lambda n: _line(tool_calls=[{"id": "i", "function": {"name": "f"}}])),
    "calls without a name": many(lambda n: _line(tool_calls=[{"id": f"i{n}"}])),
    "calls of one line": once(lambda size: _line(tool_calls=rows(size, lambda n: {"function": {"name": "f"}}))),
    "images": many(lambda n: _line(images=["iVBORw0KGgo"])),
    "one text": once(lambda size: _line(content="a" * size)),
    "JSON over many lines": once(lambda size: b"{" + b"\n" * 9 + b'"a":1,\n' * (size // 7)),
    "brackets over many lines": once(lambda size: b"[\n" * (size // 2)),
    "quotes": once(lambda size: b'"' * size),
    "an error": once(lambda size: json.dumps({"error": "model " * (size // 6)}).encode()),
}  # fmt: skip

SHAPES: dict[str, dict[str, Shape]] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": anthropic(sse),
    "vertex_anthropic": {"tiny texts": many(lambda n: sse(_piece(0, "text_delta", text="a")))},
    "bedrock_anthropic": anthropic(_invoke),
    "bedrock_converse": CONVERSE,
    "gemini": GEMINI,
    "gemini_interactions": INTERACTIONS,
    "cohere": COHERE,
    "ollama": OLLAMA,
}

FRAMINGS = ("openai_chat", "bedrock_converse", "gemini", "ollama")
"""A dialect of each framing."""

LINES: dict[str, Shape] = {
    "blank lines": lambda size: b"\n" * size,
    "carriage returns": lambda size: b"\r" * size,
    "comments": lambda size: b":\n" * (size // 2),
    "one line": lambda size: b"data: " + b"a" * size,
    "lines of one event": lambda size: b"data\n" * (size // 5),
    "names": lambda size: b"event: a\nid: 1\nretry: 1\n" * (size // 25),
    "raw JSON": lambda size: b'\n{"a":\n' * (size // 6),
    "raw quotes": lambda size: b": \n" + b'{"' * (size // 2),
    "one raw string": lambda size: b': \n{"' + b"\\\\" * (size // 2),
    "one document": lambda size: b"{" + b"a" * size,
    "NUL": lambda size: b"\0" * size,
}
"""Bodies that are hard on a framing, whatever the dialect."""


def answer(*tells: Callable[[Told, int], object], calls: int = 0) -> Callable[[int], list[Event]]:
    """Return events about as many as asked for: what each says of its number, in turns."""

    def build(size: int) -> list[Event]:
        told = Told()
        told.text(0, "a")
        for number in range(calls and size // calls):
            told.tool_call(0, index=number, id=f"i{number}", name="f", arguments="")
        for number in range(size):
            tells[number % len(tells)](told, number)
        told.finish(0, "stop")
        told.end("completed")
        return told.take()

    return build


LONG = "some text of many words, and some more of it. " * 12


def _argue(told: Told, number: int, index: int, piece: str) -> int | None:
    return told.tool_call(0, index=index, id=f"i{index}", name="f", arguments=piece)


ANSWERS: dict[str, Callable[[int], list[Event]]] = {
    "texts": answer(lambda told, n: told.text(0, LONG)),
    "thoughts": answer(lambda told, n: told.reasoning(0, LONG)),
    "refusals": answer(lambda told, n: told.refusal(0, LONG)),
    "arguments": answer(lambda told, n: _argue(told, n, 0, LONG)),
    "turns of text and reasoning": answer(lambda told, n: told.text(0, "a"), lambda told, n: told.reasoning(0, "b")),
    "thoughts with a signature": answer(lambda told, n: told.reasoning(0, "a"), lambda told, n: told.sign(0, "signature", "a", format="anthropic"), lambda told, n: told.text(0, "a")),
    "calls": answer(lambda told, n: told.end_tool_call(0, _argue(told, n, n, "{}"))),
    "calls that end with the answer": answer(lambda told, n: _argue(told, n, n, "{}")),
    "turns of open calls": answer(lambda told, n: _argue(told, n, n % 250, "[1,"), calls=16),
    "open calls that end one by one": answer(lambda told, n: told.end_tool_call(0, n // 2), lambda told, n: told.text(0, "a"), calls=2),
    "sources": answer(lambda told, n: told.source(0, url=f"https://a/{n}", span=(0, n))),
    "opaque data": answer(lambda told, n: told.opaque(0, "x", "a")),
    "sounds": answer(lambda told, n: told.media(0, "audio/pcm", data="AAAA", block=1)),
    "images": answer(lambda told, n: told.media(0, "image/png", data="AAAA")),
    "tools": answer(lambda told, n: told.provider_tool(0, "web_search", input={}), lambda told, n: told.provider_tool(0, "web_search", block=1, output=[])),
    "log probabilities": answer(lambda told, n: told.logprobs(0, [{"token": "a", "logprob": -1, "top_logprobs": []}])),
    "choices": answer(lambda told, n: told.text(n % 128, "a")),
    "verdicts and notices": answer(lambda told, n: told.content_filter(0, "completion", {"a": {"n": n}}), lambda told, n: told.notice("n", "a")),
}  # fmt: skip
"""Answers that are hard on a renderer."""
